// Links, pictures and files of what an explorer shows.
import { byId, textElement } from "../dom";
import { messageOf } from "../format";
import type { AnyExplorer } from "./explorer_base";
import { compose, toPng, toSvgText } from "./picture";

/** Stands for the folder of a run in a command. */
const PLACEHOLDER = "RUN";

/** A file that the reader can save. */
interface ShareFile {
  id: string;
  /** The text of its button. */
  button: string;
  name: string;
  type: string;
  content: () => string;
  isEnabled: () => boolean;
}

/** What an explorer of one kind shares. */
export interface Shared {
  files: readonly ShareFile[];
  /** Return the command that repeats the answer, given the folder of the run. */
  command: (run: string) => string;
  /** Say what the command does and needs. */
  explain: () => string;
  /** The name of the source. */
  sourceName: () => string;
  /** What the marks of the pictures mean. */
  legend: string;
  /** The picture on the left; null if there is none. */
  picture: () => SVGSVGElement | null;
}

/** Offer a file for download. */
function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => { URL.revokeObjectURL(link.href); }, 60_000);
}

/** The part of the page that shares and saves what is shown. */
export class Share {
  private readonly note = textElement("p", "");
  private readonly command = textElement("code", "");
  private readonly explanation = textElement("p", "");
  private readonly field = document.createElement("input");
  private readonly fieldLabel = textElement("label", "Link ");
  private readonly fileButtons: HTMLButtonElement[];

  constructor(private readonly explorer: AnyExplorer, private readonly shared: Shared) {
    const buttons = document.createElement("div");
    buttons.className = "controls";
    this.fileButtons = shared.files.map(({ id, button, name, type, content: write }) => this.button(id, button, () => { save(name, new Blob([write()], { type })); }));
    buttons.append(
      this.button("live-copy", "Copy link", () => this.copyLink()),
      this.button("live-save-svg", "Save picture (SVG)", () => { this.savePicture(); }),
      this.button("live-save-png", "Save picture (PNG)", () => this.savePng()),
      ...this.fileButtons,
    );
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
    explorer.onAnswer(() => { this.show(); });
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

  /** The folder of the first model's run; a placeholder if it is unknown. */
  private get run(): string {
    const [{ model, run }] = this.explorer.state.subjects;
    const { path } = this.explorer.models[model].content.runs[run];
    return !path || path.startsWith("-") ? PLACEHOLDER : path;
  }

  /** Show the command of the first model. */
  private show(): void {
    const { run, explorer, shared } = this;
    const [{ model, run: index }] = explorer.state.subjects;
    for (const [k, button] of this.fileButtons.entries()) button.disabled = !shared.files[k].isEnabled();
    this.command.textContent = shared.command(run);
    const where = run === PLACEHOLDER ? ` ${PLACEHOLDER} is the folder of the run ${explorer.models[model].content.runs[index].name}.` : "";
    this.explanation.textContent = shared.explain() + where;
  }

  private async copyLink(): Promise<void> {
    const { fragment } = this.explorer;
    const address = location.href.split("#", 1)[0] + fragment;
    history.replaceState(null, "", fragment); // without a `hashchange`, which would be a change to undo
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
    const { explorer: { first, scene }, shared } = this;
    const { state, shown } = scene!;
    const head = first.layers > 1 || first.heads > 1 ? `, layer ${state.layer + 1}, head ${state.head + 1}` : "";
    const models = shown.map((each) => each.name).join(" and ");
    const text = `${models}; ${shared.sourceName()}${head}. ${byId("live-text").textContent} ${shared.legend}`;
    const maps = [...byId("live-map").children].filter((place) => !(place as HTMLElement).hidden).flatMap((place) => {
      const picture = place.querySelector("svg");
      return picture && picture.viewBox.baseVal.width > 0 && !picture.closest("[hidden]") ? [{ picture, caption: place.querySelector("p")?.textContent ?? "" }] : [];
    });
    return compose(this.title, text, shown.length > 1 ? shown : [], shared.picture(), maps);
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
}
