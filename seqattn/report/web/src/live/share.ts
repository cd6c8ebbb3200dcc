// Links, pictures and files of what the live explorer shows.
import type { Content } from "../content";
import { byId, textElement } from "../dom";
import { messageOf } from "../format";
import { command, GENERATED_FORM, INPUT_FILE, quote, toCsv, toWeightsFile, WEIGHTS_FILE } from "./csv";
import type { InputForm } from "./content";
import type { LiveExplorer } from "./explorer";
import type { ForcedRow } from "./force";
import { compose, toPng, toSvgText } from "./picture";
import type { Scene } from "./scene";

const PLACEHOLDER = "RUN";
const LEGEND = "Circles: source points. Diamonds: forecast. Crosses: true continuation, if it is known. Dashed, without crosses: the forecast with the model's own weights.";

/** Offer a file for download. */
function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => { URL.revokeObjectURL(link.href); }, 60_000);
}

/** The part of the explorer that shares and saves what is shown. */
export class Share {
  private readonly note = textElement("p", "");
  private readonly command = textElement("code", "");
  private readonly explanation = textElement("p", "");
  private readonly field = document.createElement("input");
  private readonly fieldLabel = textElement("label", "Link ");
  private readonly weightsButton: HTMLButtonElement;

  constructor(private readonly explorer: LiveExplorer, private readonly content: Content) {
    const buttons = document.createElement("div");
    buttons.className = "controls";
    buttons.append(
      this.button("live-copy", "Copy link", () => this.copyLink()),
      this.button("live-save-svg", "Save picture (SVG)", () => { this.savePicture(); }),
      this.button("live-save-png", "Save picture (PNG)", () => this.savePng()),
      this.button("live-save-csv", "Save input as CSV", () => { this.saveInput(); }),
    );
    this.weightsButton = this.button("live-save-weights", "Save forced weights", () => { this.saveWeights(); });
    buttons.append(this.weightsButton);
    this.field.readOnly = true;
    this.field.id = "live-link";
    this.fieldLabel.className = "wide-field";
    this.fieldLabel.hidden = true;
    this.fieldLabel.append(this.field);
    this.note.setAttribute("role", "status");
    this.note.id = "live-share-note";
    this.explanation.className = "hint";
    this.command.id = "live-command";
    this.command.className = "command";
    const line = document.createElement("p");
    line.append(this.command);
    byId("live-share").append(buttons, this.fieldLabel, this.note, this.explanation, line);
    explorer.onAnswer((scene) => { this.show(scene); });
  }

  private button(id: string, name: string, act: () => Promise<void> | void): HTMLButtonElement {
    const button = textElement("button", name);
    button.type = "button";
    button.id = id;
    button.addEventListener("click", () => {
      this.note.textContent = "";
      Promise.resolve().then(act).catch((error: unknown) => { this.note.textContent = messageOf(error); });
    });
    return button;
  }

  private get form(): InputForm {
    return this.explorer.first.input ?? GENERATED_FORM;
  }

  /** The folder of the run; a placeholder if the page has several, or it was an absolute path. */
  private get run(): string {
    const path = this.content.kind === "run" ? this.content.path : undefined;
    return path !== undefined && !/^([/\\~-]|[A-Za-z]:)/.test(path) ? path : PLACEHOLDER;
  }

  private get forcedRows(): ForcedRow[] {
    const { explorer } = this;
    return explorer.canForce ? explorer.rowsFor(explorer.models[explorer.state.subjects[0].model]) : [];
  }

  /** Show the command of the first model. */
  private show({ state, shown }: Scene): void {
    const { run } = this;
    const [{ model, run: index, epoch }] = state.subjects;
    const { name, best_epoch: best } = this.explorer.models[model].content.runs[index];
    const rows = this.forcedRows;
    this.weightsButton.disabled = rows.length === 0;
    this.command.textContent = command({ run, form: this.form, epoch: epoch === best ? null : epoch, isForced: rows.length > 0 });
    const files = rows.length ? `${INPUT_FILE} and ${WEIGHTS_FILE} are the saved files` : `${INPUT_FILE} is the saved input`;
    const where = run === PLACEHOLDER ? `${PLACEHOLDER} is the folder of the run ${quote(name)}; ` : "";
    const of = shown.length > 1 ? ` of ${name}` : "";
    this.explanation.textContent = `This command gives the forecast${of} that is shown: ${where}${files}.${this.limit(state.source.length)}`;
  }

  /** Say where the command reads less than the page shows. */
  private limit(points: number): string {
    const { window } = this.form;
    return window !== null && points > window ? ` Since the run was trained on windows of ${window} points, the command reads only the last ${window} of these ${points}, so its forecast is another one.` : "";
  }

  private async copyLink(): Promise<void> {
    const { fragment } = this.explorer;
    const address = location.href.split("#", 1)[0] + fragment;
    location.hash = fragment;
    try {
      await navigator.clipboard.writeText(address);
      this.fieldLabel.hidden = true;
      this.note.textContent = "The link is in the clipboard. It opens this page with what is shown now.";
    } catch {
      this.fieldLabel.hidden = false;
      this.field.value = address;
      this.field.focus();
      this.field.select();
      this.note.textContent = "The browser does not allow the page to use the clipboard. The link is selected in the field: copy it with Ctrl+C or Cmd+C.";
    }
  }

  private get title(): string {
    return document.querySelector("h1")!.textContent.trim().replace(/\s+/g, " ");
  }

  private picture(): SVGSVGElement {
    const { explorer } = this;
    const { state, shown } = explorer.scene!;
    const name = state.example === null ? "a source of the user's own" : `sequence ${explorer.sequences.names[state.example]}${state.isChanged ? ", changed" : ""}`;
    const head = explorer.first.layers > 1 || explorer.first.heads > 1 ? `, layer ${state.layer}, head ${state.head}` : "";
    const models = shown.map((each) => each.name).join(" and ");
    const text = `${models}; ${name}${head}. ${byId("live-text").textContent} ${LEGEND}`;
    const maps = [...byId("live-map").children].filter((place) => !(place as HTMLElement).hidden).flatMap((place) => {
      const picture = place.querySelector("svg");
      return picture && picture.viewBox.baseVal.width > 0 && !picture.closest("[hidden]") ? [{ picture, caption: place.querySelector("p")?.textContent ?? "" }] : [];
    });
    return compose(this.title, text, shown.length > 1 ? shown : [], byId("live-path").querySelector("svg")!, maps);
  }

  private get fileName(): string {
    return this.title.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) || "seqattn";
  }

  private savePicture(): void {
    save(`${this.fileName}.svg`, new Blob([toSvgText(this.picture())], { type: "image/svg+xml" }));
  }

  private async savePng(): Promise<void> {
    save(`${this.fileName}.png`, await toPng(this.picture()));
  }

  private saveInput(): void {
    const { first, state } = this.explorer;
    save(INPUT_FILE, new Blob([toCsv(this.form, first.features, state.source)], { type: "text/csv" }));
  }

  private saveWeights(): void {
    save(WEIGHTS_FILE, new Blob([toWeightsFile(this.forcedRows)], { type: "application/json" }));
  }
}
