// A guided tour of the live explorer in up to five steps, for readers who have never seen attention.
import { byId, textElement } from "../dom";
import { announcer } from "./announce";
import type { LiveExplorer } from "./explorer";
import { isCardOpen, markTerms, paragraph, splitTerms } from "./glossary";
import { meaningOf } from "./model";
import { MAX_NUMBERED } from "./path_plot";
import type { Scene } from "./scene";
import { prepareStep, showAttending } from "./tour_start";
import type { Facts, StepName, StepText, TourAction } from "./tour_texts";
import { afterEpoch, afterForce, afterLook, afterMove, afterPlain, closest, STEPS, tourSteps } from "./tour_texts";

const MEMORY = "seqattn.tour";
const SEEN = "seen";

/** Whether the reader has answered the invitation. A page opened from a file may have no memory. */
function isSeen(): boolean {
  try {
    return localStorage.getItem(MEMORY) === SEEN;
  } catch {
    return false;
  }
}

function remember(): void {
  try {
    localStorage.setItem(MEMORY, SEEN);
  } catch {
    // The page cannot remember it, so the invitation comes again.
  }
}

/** What the reader changes in a step is compared with this. */
interface Start {
  step: number;
  /** The model and its forecasts: those of the shown source before it was changed, or of the trained model. */
  reference: string;
  source: number[][];
  forecast: number[][];
}

/** The place on the page that each step is about. */
const PLACES: Record<StepName, string> = { move: "live-path", look: "live-map", forbid: "live-map", before: "live-epochs", compare: "live-after" };
/** Space in pixels around a place that the tour brings into view. */
const SPACE = 12;

/** Return a fold with commands. */
function fold(commands: readonly (readonly [label: string, command: string])[]): HTMLElement {
  const details = document.createElement("details");
  details.append(textElement("summary", "Commands"), ...commands.map(([label, words]) => {
    const line = textElement("p", `${label} `);
    const code = textElement("code", words);
    code.className = "command";
    line.append(code);
    return line;
  }));
  return details;
}

export class Tour {
  private readonly invitation = document.createElement("div");
  private readonly panel = document.createElement("section");
  private readonly opener: HTMLButtonElement;
  private readonly heading = textElement("h3", "");
  private readonly scroller = document.createElement("div");
  private readonly body = document.createElement("div");
  private readonly result = document.createElement("div");
  private readonly end = document.createElement("div");
  /** The task and its button, below the text that scrolls. */
  private readonly task = document.createElement("div");
  private readonly back: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly spoken = textElement("p", "");
  private readonly announce = announcer(this.spoken);
  /** The current step; null if the tour is closed. */
  private step: StepName | null = null;
  private start: Start | null = null;
  private isDone = false;
  private resultText = "";
  /** Whether the reader pressed a button of the step, and so waits for its result. */
  private isAwaited = false;
  /** The closest models of each sequence that the last step has shown; see `closest`. */
  private readonly winners = new Map<number, number[]>();

  constructor(private readonly explorer: LiveExplorer) {
    this.opener = this.button("live-tour-open", "Guided tour", () => { this.open(); });
    this.opener.setAttribute("aria-expanded", "false");
    this.opener.setAttribute("aria-controls", "live-tour-panel");
    this.back = this.button("live-tour-back", "Back", () => { const before = this.neighbour(-1); if (before) this.go(before); });
    this.next = this.button("live-tour-next", "Next", () => { const after = this.neighbour(1); if (after) this.go(after); else this.close(); });
    this.spoken.className = "spoken";
    this.spoken.setAttribute("aria-live", "polite");
    this.buildPanel();
    this.buildInvitation();
    byId("live-tour").append(this.opener, this.invitation, this.panel);
    explorer.onAnswer((scene) => { this.follow(scene); });
  }

  private button(id: string, name: string, act: () => void): HTMLButtonElement {
    const button = textElement("button", name);
    button.type = "button";
    button.id = id;
    button.addEventListener("click", act);
    return button;
  }

  private buildPanel(): void {
    this.panel.id = "live-tour-panel";
    this.panel.setAttribute("aria-labelledby", "live-tour-title");
    this.panel.hidden = true;
    this.heading.id = "live-tour-title";
    this.heading.tabIndex = -1;
    this.result.id = "live-tour-result";
    const buttons = document.createElement("div");
    buttons.className = "controls";
    buttons.append(this.back, this.next, this.button("live-tour-close", "End the tour", () => { this.close(); }));
    this.scroller.className = "tour-text";
    this.scroller.append(this.body, this.result, this.end);
    this.task.className = "task";
    this.panel.append(this.heading, this.scroller, this.task, buttons, this.spoken);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || isCardOpen()) return;
      event.preventDefault();
      this.close();
    });
  }

  private buildInvitation(): void {
    this.invitation.className = "invitation";
    this.invitation.hidden = isSeen();
    this.opener.hidden = !this.invitation.hidden;
    this.invitation.append(
      textElement("p", "New here? A short tour shows what this model does, and why. It takes about five minutes."),
      this.button("live-tour-start", "Start the tour", () => { this.open(); }),
      this.button("live-tour-skip", "No, thanks", () => {
        this.dismiss();
        this.opener.focus();
      }),
    );
  }

  private dismiss(): void {
    remember();
    this.invitation.hidden = true;
    this.opener.hidden = false;
  }

  private open(): void {
    this.dismiss();
    this.panel.hidden = false;
    this.opener.hidden = true;
    this.opener.setAttribute("aria-expanded", "true");
    this.resize();
    this.go("move");
  }

  private close(): void {
    this.panel.hidden = true;
    this.step = null;
    this.mark(null);
    this.opener.hidden = false;
    this.opener.setAttribute("aria-expanded", "false");
    this.resize();
    this.opener.focus();
  }

  /** Draw again, because the open tour takes a part of the width. */
  private resize(): void {
    this.explorer.draw();
  }

  // --- steps -------------------------------------------------------------------------------------

  private get steps(): ReturnType<typeof tourSteps> {
    return tourSteps(this.facts);
  }

  /** Return the step before or after the current one; null if there is none. The steps may change with the shown model. */
  private neighbour(direction: 1 | -1): StepName | null {
    const { step: current } = this;
    if (!current) return null;
    const names = this.steps.map(({ step }) => step).filter((step) => (STEPS.indexOf(step) - STEPS.indexOf(current)) * direction > 0);
    return names.at(direction > 0 ? 0 : -1) ?? null;
  }

  private get facts(): Facts {
    const { explorer } = this;
    const { first, models, state, page } = explorer;
    const hasAttention = first.layers > 0;
    const other = models.find(({ content }) => content.layers > 0 !== hasAttention)?.content.runs[0].name ?? null;
    const { epochs } = first.runs[state.subjects[0].run];
    return {
      plane: page.examples.plane, canForce: explorer.canForce, hasEpochs: epochs.length > 1, hasSteps: explorer.rowCount > 1,
      isNumbered: state.source.length <= MAX_NUMBERED,
      attention: first.layers === 0 ? "none" : meaningOf(first),
      isRecurrent: first.config.kind === "recurrent", data: page.live.tour ?? null,
      isTouch: matchMedia("(hover: none) and (pointer: coarse)").matches,
      plain: hasAttention ? other : null,
      attending: hasAttention ? null : other,
      isOtherShown: state.subjects.some(({ model }) => models[model].content.layers > 0 !== hasAttention),
    };
  }

  /** Show a step, and bring the explorer into the state that it begins with. */
  private go(step: StepName): void {
    this.step = step;
    const notes = prepareStep(this.explorer, step, this.facts.data?.start ?? null);
    this.start = null;
    this.isDone = false;
    this.next.classList.remove("ready");
    this.resultText = "";
    this.isAwaited = false;
    this.winners.clear();
    this.result.replaceChildren();
    const { steps } = this;
    const position = steps.findIndex((each) => each.step === step);
    this.heading.textContent = `Tour ${position + 1} of ${steps.length}: ${steps[position].title}`;
    this.showText(steps[position], notes);
    this.back.disabled = position === 0;
    this.next.textContent = position === steps.length - 1 ? "Finish" : "Next";
    this.mark(step === "look" || step === "forbid" ? this.placeOfWeights : PLACES[step]);
    this.heading.focus({ preventScroll: true });
    this.scroller.scrollTop = 0;
    this.reveal();
    this.spoken.textContent = "";
    this.announce("");
    void this.explorer.update().then(() => { this.begin(step); });
  }

  /** Remember what the explorer shows when its answer for the state of this step has come. */
  private begin(step: StepName): void {
    const { scene } = this.explorer;
    if (step !== this.step || !scene) return;
    const { state, shown: [{ own }] } = scene;
    this.start = { step: state.step, reference: this.referenceOf(scene), source: state.source, forecast: own.forecast };
    this.follow(scene, true);
  }

  /** Return a key of what the current step compares with, which changes with the sequence or the model. */
  private referenceOf({ state: { example, source, subjects: [{ model, run, epoch }] } }: Scene): string {
    return JSON.stringify(this.step === "before" ? [model, run, source] : [example, model, run, epoch]);
  }

  private bestEpoch({ state: { subjects: [{ model, run }] } }: Scene): number {
    return this.explorer.models[model].content.runs[run].best_epoch;
  }

  /** Ask the model for the forecast that the current step compares with, after a choice of another sequence or model. */
  private async refresh(scene: Scene, start: Start): Promise<void> {
    const { explorer: { models, sequences } } = this;
    const { state: { example, source, isChanged, subjects: [{ model, run, epoch }] } } = scene;
    const reference = this.referenceOf(scene);
    const before = this.step === "before" || !isChanged || example === null ? source : sequences.source(example);
    const options = { run, epoch: this.step === "before" ? this.bestEpoch(scene) : epoch, outputs: "forecast" as const };
    const { forecast } = await models[model].run(before, options);
    if (this.start !== start || this.explorer.scene !== scene) return;
    this.start = { ...start, reference, source: before, forecast };
    this.follow(scene);
  }

  /** The place that the steps about weights frame: the path, if the first model has no weights. */
  private get placeOfWeights(): string {
    return this.explorer.first.layers > 0 ? "live-map" : "live-path";
  }

  private showText({ verdict, about, task, keys, action, conclusion = [], commands = [] }: StepText, notes: readonly string[]): void {
    this.body.replaceChildren();
    if (verdict !== undefined) {
      const answer = paragraph(markTerms(verdict));
      answer.id = "live-tour-verdict";
      this.body.append(answer);
    }
    this.body.append(paragraph(about));
    for (const note of notes) {
      const line = textElement("p", note);
      line.className = "tour-note";
      this.body.append(line);
    }
    this.task.replaceChildren(...(task === null ? [] : [textElement("p", task)]));
    if (action) this.task.append(this.button("live-tour-action", action.name, () => { this.act(action.act); }));
    if (keys !== undefined) this.body.append(textElement("p", keys));
    this.end.replaceChildren(...conclusion.map((sentence) => paragraph(markTerms(sentence))));
    if (commands.length) this.end.append(fold(commands));
  }

  /** Make the change that a button of the tour offers. */
  private act(action: TourAction): void {
    const { explorer } = this;
    this.isAwaited = true;
    if (action === "uniform") explorer.forceUniformEverywhere();
    else if (action === "attending") {
      showAttending(explorer);
      this.go(this.step!);
    }
    else explorer.chooseExample((explorer.state.example ?? -1) + 1);
  }

  /** Frame the part of the page that a step is about. */
  private mark(id: string | null): void {
    document.querySelectorAll(".tour-place").forEach((element) => { element.classList.remove("tour-place"); });
    if (id !== null && (id !== "live-after" || (this.facts.plain ?? this.facts.attending) !== null)) byId(id).classList.add("tour-place");
  }

  /** Bring the framed place into view, together with the pictures if there is room for both. */
  private reveal(): void {
    const isBelow = getComputedStyle(this.panel).position === "fixed";
    const room = innerHeight - (isBelow ? this.panel.getBoundingClientRect().height : 0) - 2 * SPACE;
    const pictures = ["live-path", "live-map"].map((id) => byId(id).getBoundingClientRect());
    const framed = document.querySelector(".tour-place")?.getBoundingClientRect();
    const spanOf = (boxes: DOMRect[]): [top: number, bottom: number] => [Math.min(...boxes.map(({ top }) => top)), Math.max(...boxes.map(({ bottom }) => bottom))];
    const visible = (framed ? [framed, ...pictures] : pictures).filter(({ height }) => height > 0);
    const candidates = [visible, framed && framed.height > 0 ? [framed] : [], pictures.slice(0, 1)].filter((boxes) => boxes.length > 0).map(spanOf);
    const [top, bottom] = candidates.find(([first, last]) => last - first <= room) ?? candidates.at(-1)!;
    // Beside the pictures, the panel has its full height only if it sticks to the top of the screen.
    const start = isBelow ? 0 : Math.max(0, byId("live-body").getBoundingClientRect().top - SPACE);
    const shift = start && top - start >= SPACE ? start : top < SPACE ? top - SPACE : bottom > room + SPACE ? Math.min(top - SPACE, bottom - room - SPACE) : 0;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    scrollBy({ top: shift, behavior: isStill ? "auto" : "smooth" });
  }

  /** Show what the reader's change did, with the current numbers.
   *
   * @param isBeginning - Whether the step has just begun. The panel then shows the first lines of the step.
   */
  private follow(scene: Scene, isBeginning = false): void {
    if (!this.step || !this.start) return;
    if (this.start.reference !== this.referenceOf(scene)) {
      this.refresh(scene, this.start).catch(() => undefined); // the explorer names the failure
      return;
    }
    const text = this.describe(scene, this.start);
    if (text === null || text === this.resultText) return;
    this.resultText = text;
    this.result.replaceChildren(paragraph(text));
    this.announce(splitTerms(text).map((part) => part.split("|")[0]).join(""));
    const isAwaited = this.isAwaited || !(this.isDone || isBeginning);
    this.isAwaited = false;
    this.isDone = true;
    this.next.classList.add("ready");
    if (isAwaited) this.result.scrollIntoView({ block: "nearest" }); // on a small screen, the panel shows a part of its text
  }

  /** Say what the step shows; null: the reader has not done it yet. */
  private describe(scene: Scene, start: Start): string | null {
    const { state } = scene;
    switch (this.step) {
      case "move": return this.describeMove(scene, start);
      case "look": return this.isDone || state.step !== start.step ? afterLook(scene, this.facts) : null;
      case "forbid": return scene.shown[0].answer !== scene.shown[0].own ? afterForce(scene, this.facts) : null;
      case "before": return this.isDone || state.subjects[0].epoch !== this.bestEpoch(scene) ? afterEpoch(scene, start.forecast, this.bestEpoch(scene)) : null;
      default: return this.facts.isOtherShown && scene.shown.length > 1 ? afterPlain(scene, this.count(scene)) : null;
    }
  }

  private describeMove(scene: Scene, start: Start): string | null {
    const isMoved = this.isDone || JSON.stringify(scene.state.source) !== JSON.stringify(start.source);
    return isMoved ? afterMove(scene, start.forecast, this.facts) : null;
  }

  /** Return the closest models of each sequence that this step has shown. */
  private count(scene: Scene): number[][] {
    const best = closest(scene);
    const { example, force, isChanged } = scene.state;
    if (best.length > 0 && example !== null && !isChanged && force.size === 0) this.winners.set(example, best);
    return [...this.winners.values()];
  }
}
