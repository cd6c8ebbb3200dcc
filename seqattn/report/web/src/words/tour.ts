// A guided tour of the explorer of symbols, for readers who have never seen attention.
import { byId, textElement } from "../dom";
import { capitalize } from "../format";
import { announcer } from "../live/announce";
import { isCardOpen, paragraph, splitTerms } from "../live/glossary";
import { weightsOf } from "../live/scene";
import type { WordExplorer } from "./explorer";
import type { WordScene } from "./scene";
import { quoted, symbolNames, wordMatrix } from "./scene";

/** What the reader changes in a step is compared with this. */
export type Start = Pick<WordScene["state"], "example" | "step" | "source">;

export interface WordStep {
  title: string;
  about: string;
  task: string;
  /** The id of the part of the page that the step is about. */
  place: string;
  /** Whether the page can do the step. */
  isPossible: (scene: WordScene) => boolean;
  isDone: (scene: WordScene, start: Start) => boolean;
  /** Say what the reader's change did. */
  result: (scene: WordScene) => string;
}

const hasWeights = ({ shown: [{ answer }] }: WordScene): boolean => answer.weights.length > 0;
const output = (text: string): string => `\u201c${text}\u201d`;

/** Say from which source symbol the chosen output symbol reads most. */
function describeRow(scene: WordScene): string {
  const { state, shown: [first] } = scene;
  const row = weightsOf(first.answer, "cross", state.layer, state.head)[state.step];
  const names = symbolNames(scene);
  const most = row.indexOf(Math.max(...row));
  const sum = first.meaning === "distribution" ? " The [weights|attention weight] of a row add up to 1: they are shares of one reading, and the next row shares anew." : "";
  return `${capitalize(names.row(state.step))}, reads most from ${names.column(most)}, with the weight ${row[most].toFixed(2)}.${sum}`;
}

/** Compare the output with that of the model alone. */
function describeForced({ shown: [{ text, ownText }] }: WordScene): string {
  if (text === ownText) return `The output stays ${output(text)}: for these symbols, the model did not need what you took away. Try another row, or all rows.`;
  return `The output changes from ${output(ownText)} to ${output(text)}: the model used what you took away. This says more than the colours do, because it is an experiment.`;
}

/** Count the linked output symbols whose largest weight lies on a link. */
export function describeLinks(scene: WordScene): string {
  const { rows, links } = wordMatrix(scene, scene.shown[0]);
  const linked = [...new Set(links.map(({ row }) => row))].filter((row) => row < rows.length);
  if (!linked.length) return "The output of this sequence differs from the true one from its beginning, so there is no link to compare with. Go on to another sequence.";
  const hits = linked.filter((row) => {
    const weights = rows[row] as number[];
    return links.some((link) => link.row === row && link.column === weights.indexOf(Math.max(...weights)));
  });
  return `In this sequence, the largest weight of ${hits.length} of ${linked.length} linked output symbols lies in a frame. The others need not be mistakes: an [encoder state] also carries what the encoder has read elsewhere, so the model can read a word beside it. A heatmap shows where the model reads, not what it knows.`;
}

export const STEPS: readonly WordStep[] = [
  {
    title: "Type a source", place: "live-source-label", task: "Change the text in the field Source, for example one letter or one word.",
    about: "The model in this page reads a text, the source, and writes another text, the output, symbol by symbol. A symbol is a letter, a word or a part of a word.",
    isPossible: () => true,
    isDone: ({ state: { source } }, start) => source.join("\n") !== start.source.join("\n"),
    result: ({ shown: [{ text }] }) => `The model writes ${output(text)} for your source. Nothing is looked up: it computes this output now, in your browser.`,
  },
  {
    title: "Read a row", place: "live-output", task: "Choose another symbol of the output.",
    about: "Before each output symbol, [attention] reads the whole source again. The row of the output symbol in the heatmap says how much it reads from each source symbol, and so do the colours of the source.",
    isPossible: (scene) => hasWeights(scene) && scene.shown[0].symbols.length > 1,
    isDone: ({ state: { kind, step }, shown: [{ symbols }] }, start) => kind === "cross" && step !== start.step && step < symbols.length,
    result: describeRow,
  },
  {
    title: "Choose another symbol", place: "live-alternatives-place", task: "In the list of symbols for this place, click one that is not the first.",
    about: "The model does not write a symbol directly. It computes a probability for each symbol, and takes the most probable one. Then the [decoder] reads the symbol that was written.",
    isPossible: () => true,
    isDone: ({ state: { given } }) => given.length > 0,
    result: ({ state: { given }, shown: [{ symbols, text, ownText }] }) => `You wrote ${quoted(symbols[given.length - 1])}, and the model goes on from there: ${output(text)}. Left alone, it writes ${output(ownText)}.`,
  },
  {
    title: "Take the look away", place: "live-weights", task: "Click a cell of the heatmap that is not the brightest of its row, or press \u201cKnock out this head in all steps\u201d.",
    about: "Does the model need what it reads? To find out, change the weights: a click gives all of the weight of a row to one source symbol, and a knock-out sets weights to 0. The model computes the rest with your weights.",
    isPossible: (scene) => hasWeights(scene) && scene.canForce,
    isDone: ({ state: { force } }) => force.size > 0,
    result: describeForced,
  },
  {
    title: "A heatmap is not an alignment", place: "live-map", task: "Go to the next test sequence with the arrow \u2192, and compare the brightest cells with the orange frames.",
    about: "The orange frames are known links: which source symbols an output symbol stands for. The model was never shown them, and its weights need not agree with them.",
    isPossible: (scene) => hasWeights(scene) && scene.shown[0].meaning === "distribution",
    isDone: ({ state: { example, isChanged } }, start) => example !== null && !isChanged && example !== start.example,
    result: describeLinks,
  },
];
const LINKS = STEPS[STEPS.length - 1];

/** Return the steps that a page can do. */
export const possibleSteps = (scene: WordScene, hasLinks: boolean): readonly WordStep[] => STEPS.filter((step) => step.isPossible(scene) && (step !== LINKS || hasLinks));

export class WordTour {
  private readonly panel = document.createElement("section");
  private readonly heading = textElement("h3", "");
  private readonly body = document.createElement("div");
  private readonly result = document.createElement("div");
  private readonly task = textElement("p", "");
  private readonly spoken = textElement("p", "");
  private readonly announce = announcer(this.spoken);
  private readonly opener = this.button("live-tour-open", "Guided tour", () => { this.open(); });
  private readonly back = this.button("live-tour-back", "Back", () => { this.go(this.position - 1); });
  private readonly next = this.button("live-tour-next", "Next", () => { if (this.position + 1 < this.steps.length) this.go(this.position + 1); else this.close(); });
  private steps: readonly WordStep[] = [];
  private position = 0;
  /** What the explorer showed when the step began; null before its first answer, and if the tour is closed. */
  private start: Start | null = null;
  private resultText = "";

  constructor(private readonly explorer: WordExplorer) {
    this.opener.setAttribute("aria-controls", "live-tour-panel");
    this.heading.id = "live-tour-title";
    this.heading.tabIndex = -1;
    this.result.id = "live-tour-result";
    this.task.className = "task";
    this.spoken.className = "spoken";
    this.spoken.setAttribute("aria-live", "polite");
    const text = document.createElement("div");
    text.className = "tour-text";
    text.append(this.body, this.result);
    const buttons = document.createElement("div");
    buttons.className = "controls";
    buttons.append(this.back, this.next, this.button("live-tour-close", "End the tour", () => { this.close(); }));
    this.panel.id = "live-tour-panel";
    this.panel.setAttribute("aria-labelledby", "live-tour-title");
    this.panel.append(this.heading, text, this.task, buttons, this.spoken);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !isCardOpen()) this.close();
    });
    byId("live-tour").append(this.opener, this.panel);
    this.show(false);
    explorer.onAnswer((scene) => { this.follow(scene); });
  }

  private button(id: string, name: string, act: () => void): HTMLButtonElement {
    const button = textElement("button", name);
    button.type = "button";
    button.id = id;
    button.addEventListener("click", act);
    return button;
  }

  private show(isOpen: boolean): void {
    this.panel.hidden = !isOpen;
    this.opener.hidden = isOpen;
    this.opener.setAttribute("aria-expanded", String(isOpen));
  }

  private open(): void {
    const { scene, page } = this.explorer;
    if (!scene) return;
    this.steps = possibleSteps(scene, page.examples.links !== null);
    this.show(true);
    this.explorer.draw(); // the open tour takes a part of the width
    this.go(0);
  }

  private close(): void {
    this.start = null;
    this.mark(null);
    this.show(false);
    this.explorer.draw();
    this.opener.focus();
  }

  /** Show a step, and take back what the reader changed in the step before. */
  private go(position: number): void {
    this.position = position;
    this.start = null;
    this.resultText = "";
    const { title, about, task, place } = this.steps[position];
    this.heading.textContent = `Tour ${position + 1} of ${this.steps.length}: ${title}`;
    this.body.replaceChildren(paragraph(about));
    this.result.replaceChildren();
    this.task.textContent = task;
    this.back.disabled = position === 0;
    this.next.textContent = position + 1 === this.steps.length ? "Finish" : "Next";
    this.next.classList.remove("ready");
    this.mark(place);
    byId(place).scrollIntoView({ block: "nearest" });
    this.heading.focus({ preventScroll: true });
    this.explorer.change((state) => {
      state.force.clear();
      Object.assign(state, { given: [], kind: "cross" }, place === "live-map" ? { picture: "heatmap" } : {});
    });
    void this.explorer.update().then(() => {
      const { scene } = this.explorer;
      if (this.steps[this.position].place === place && !this.panel.hidden && scene) this.start = { ...scene.state };
    });
  }

  /** Frame the part of the page that a step is about. */
  private mark(id: string | null): void {
    document.querySelectorAll(".tour-place").forEach((element) => { element.classList.remove("tour-place"); });
    if (id !== null) byId(id).classList.add("tour-place");
  }

  /** Say what the reader's change did, with the current numbers, once the task is done. */
  private follow(scene: WordScene): void {
    if (!this.start) return;
    const step = this.steps[this.position];
    if (!step.isDone(scene, this.start)) return;
    const text = step.result(scene);
    if (text === this.resultText) return;
    this.resultText = text;
    this.result.replaceChildren(paragraph(text));
    this.announce(splitTerms(text).map((part) => part.split("|")[0]).join(""));
    this.next.classList.add("ready");
    this.result.scrollIntoView({ block: "nearest" });
  }
}
