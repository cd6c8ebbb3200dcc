// What the explorers of points and of symbols have in common: models, forced weights, undo, and answers.
import { byId } from "../dom";
import { messageOf } from "../format";
import { onThemeChange } from "../plots";
import { announcer } from "./announce";
import { WeightBars } from "./bars";
import type { GraphContent } from "./content";
import type { ForcedRow } from "./force";
import { HeatmapPlot } from "./heatmap_plot";
import type { MatrixView } from "./matrix";
import type { GraphModel } from "./model";
import { canForce } from "./model";
import type { BaseScene } from "./scene";
import { isForced, weightsOf } from "./scene";
import type { Limits, Subject, ViewState } from "./state";
import { copyState, pageKey } from "./state";
import { ForcedRows, oneHotRow, setWeight, shuffleRow, uniformRow } from "./weights";

/** Colours of the models beyond the first. */
export const COLOURS = ["#009e73", "#811aff", "#8d503b"];
/** Changes that follow each other within this time are undone together. */
const ONE_CHANGE = 600; // ms
const MAX_UNDO = 200;

/** The public part of an explorer of any kind. */
export type AnyExplorer = Pick<Explorer, keyof Explorer>;

export abstract class Explorer<State extends ViewState = ViewState, Scene extends BaseScene<State> = BaseScene<State>, Model extends GraphModel = GraphModel> {
  abstract readonly state: State;
  scene: Scene | null = null;
  /** Say whether the intermediate results of the first model are shown, so that it must return them. */
  private readonly traceUsers: (() => boolean)[] = [];
  private readonly pointFollowers: ((column: number | null) => void)[] = [];
  protected readonly key: string;
  private readonly maps: HeatmapPlot[] = [];
  private readonly bars: WeightBars;
  /** Ends when the answer to the last change is shown. */
  private settling: Promise<void> | null = null;
  private isOutdated = false;
  private readonly followers: ((scene: Scene) => void)[] = [];
  private readonly speak = announcer(byId("live-spoken"));
  private readonly past: State[] = [];
  private readonly future: State[] = [];
  private lastChange = -Infinity;

  protected constructor(readonly models: Model[]) {
    this.key = pageKey(models.map(({ content }) => content));
    this.bars = new WeightBars(byId("live-bars"), { setWeight: (column, weight) => { this.forceRow((row) => setWeight(row, column, weight), this.drawnSteps); } });
    onThemeChange(() => { this.draw(); });
    window.addEventListener("resize", () => { this.draw(); });
    window.addEventListener("hashchange", () => { this.followFragment(); });
    window.addEventListener("keydown", (event) => { this.followKey(event); });
  }

  /** Return the number of source steps of a state. */
  abstract lengthOf(state: State): number;
  /** The number of steps of the kind of attention that is shown. */
  abstract get rowCount(): number;
  /** The fragment of a link to what is shown. */
  abstract get fragment(): string;
  /** Return the state of the fragment in the address of the page; null if it has none. */
  protected abstract restore(): State | null;
  /** Ask the models. */
  protected abstract ask(): Promise<Scene>;
  /** Return what the heatmap of a shown model shows. */
  protected abstract matrix(scene: Scene, index: number): MatrixView;
  /** Draw what is not common to both explorers. */
  protected abstract drawOwn(scene: Scene): void;
  /** Describe the chosen step in words. */
  protected abstract describe(scene: Scene): string;
  /** The names of the test sequences. */
  abstract get exampleNames(): readonly string[];
  /** Show a test sequence; the numbers after the last begin again. */
  abstract chooseExample(example: number): void;
  /** Let the reader enter a source. */
  abstract chooseOwn(): void;
  /** Show the source of the test sequence again. Forced weights stay. */
  abstract resetSource(): void;

  /** Call a function after each answer. */
  onAnswer(follow: (scene: Scene) => void): void {
    this.followers.push(follow);
    if (this.scene) follow(this.scene);
  }

  /** Ask the first model for its intermediate results while a function returns true. */
  useTrace(isShown: () => boolean): void {
    this.traceUsers.push(isShown);
  }

  protected get needsTrace(): boolean {
    return this.traceUsers.some((isShown) => isShown());
  }

  /** Call a function when the reader points at a source step, or no longer does (null). */
  onPoint(follow: (column: number | null) => void): void {
    this.pointFollowers.push(follow);
  }

  /** Mark a source step in all pictures. */
  pointAt(column: number | null): void {
    for (const map of this.maps) map.mark(column);
    for (const follow of this.pointFollowers) follow(column);
  }

  /** Whether the last change has been answered. */
  get isIdle(): boolean {
    return this.settling === null;
  }

  get first(): Model["content"] {
    return this.models[this.state.subjects[0].model].content;
  }

  get canForce(): boolean {
    return canForce(this.first);
  }

  // --- changes -----------------------------------------------------------------------------------

  /** Change the state, and show what the models answer. */
  change(apply: (state: State) => void): void {
    this.remember();
    apply(this.state);
    void this.update();
  }

  /** Keep the state for `undo`. A drag makes many changes, of which only the state before the first is kept. */
  private remember(): void {
    const now = performance.now();
    if (now - this.lastChange > ONE_CHANGE) this.past.push(copyState(this.state));
    if (this.past.length > MAX_UNDO) this.past.shift();
    this.lastChange = now;
    this.future.length = 0;
  }

  get canUndo(): boolean { return this.past.length > 0; }
  get canRedo(): boolean { return this.future.length > 0; }
  undo(): void { this.goBack(this.past, this.future); }
  redo(): void { this.goBack(this.future, this.past); }

  private goBack(from: State[], to: State[]): void {
    const found = from.pop();
    if (!found) return;
    to.push(copyState(this.state));
    Object.assign(this.state, found);
    this.lastChange = -Infinity;
    void this.update();
  }

  /** Undo with Ctrl+Z, and redo with Ctrl+Shift+Z or Ctrl+Y. A text field has an undo of its own. */
  private followKey(event: KeyboardEvent): void {
    const isText = event.target instanceof HTMLTextAreaElement || (event.target instanceof HTMLInputElement && ["text", "number"].includes(event.target.type));
    if (!(event.ctrlKey || event.metaKey) || isText) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) this.redo();
    else this.undo();
  }

  chooseStep(step: number): void {
    this.state.step = step;
    if (this.scene) this.scene.state.step = step;
    this.draw();
  }

  setRelative(isRelative: boolean): void {
    this.state.isRelative = isRelative;
    if (this.scene) this.scene.state.isRelative = isRelative;
    this.draw();
  }

  /** Change the row of weights of the chosen step, layer and head, when the model's own row is known.
   *
   * Nothing changes if the row has other source steps by then.
   *
   * @param steps - The number of source steps that the change is made for.
   */
  forceRow(change: (row: readonly number[]) => number[], steps = this.lengthOf(this.state)): void {
    if (!this.canForce || this.state.kind !== "cross") return;
    const { step, layer, head } = this.state;
    const apply = (): void => {
      const { state, scene, settling } = this;
      const forced = state.force.get(step + 1, layer, head);
      if (!forced && settling) {
        void settling.then(apply);
        return;
      }
      const row = forced ?? (scene ? weightsOf(scene.shown[0].answer, "cross", layer, head)[step] : undefined);
      if (row?.length !== steps || this.lengthOf(state) !== steps) return;
      this.change(({ force }) => { force.set(step + 1, layer, head, change(row)); });
    };
    apply();
  }

  /** Force the chosen step to attend to one source step only; if it does already, take that back. */
  forceCell(step: number, column: number): void {
    this.state.step = step;
    const { force, layer, head } = this.state;
    if (force.get(step + 1, layer, head)?.[column] === 1) this.freeRow();
    else if (this.canForce && this.state.kind === "cross") this.forceRow((row) => oneHotRow(row.length, column), this.drawnSteps);
    else this.draw();
  }

  forceUniform(): void { this.forceRow((row) => uniformRow(row.length)); }
  forceShuffled(): void { this.forceRow((row) => shuffleRow(row)); }

  /** Give all steps equal weights, in all layers and heads. */
  forceUniformEverywhere(): void {
    const { heads, layers, steps } = this.first;
    if (!this.canForce) return;
    this.change((state) => {
      for (let layer = 0; layer < layers; layer += 1) {
        for (let head = 0; head < heads; head += 1) {
          for (let step = 1; step <= steps; step += 1) state.force.set(step, layer, head, uniformRow(this.lengthOf(state)));
        }
      }
    });
  }

  freeRow(): void { this.change(({ force, step, layer, head }) => { force.delete(step + 1, layer, head); }); }
  freeAll(): void { this.change(({ force }) => { force.clear(); }); }

  /** Give the chosen head, or all heads of the chosen layer, no weight in any step. */
  knockOut(allHeads: boolean): void {
    const { heads, steps } = this.first;
    this.change((state) => {
      const { force, layer, head } = state;
      for (let h = allHeads ? 0 : head; h <= (allHeads ? heads - 1 : head); h += 1) {
        for (let step = 1; step <= steps; step += 1) force.set(step, layer, h, new Array<number>(this.lengthOf(state)).fill(0));
      }
    });
  }

  /** The number of source steps in the pictures, which may be those before the last change. */
  private get drawnSteps(): number {
    return this.lengthOf((this.scene ?? this).state);
  }

  /** The shown models. */
  protected get shownContents(): GraphContent[] {
    return this.state.subjects.map(({ model }) => this.models[model].content);
  }

  /** Return whether all shown models accept a source of a length. */
  accepts(length: number, contents = this.shownContents): boolean {
    return length > 0 && contents.every(({ fixed_source: fixed, max_length: longest }) => (fixed === null || length === fixed) && (longest === null || length <= longest));
  }

  private followFragment(): void {
    const restored = this.restore();
    if (restored) this.change((state) => Object.assign(state, restored));
  }

  // --- the state at the beginning ----------------------------------------------------------------

  /** Return the models that are shown first. */
  protected firstSubjects(isSideBySide: boolean): Subject[] {
    const subject = (model: number, run: number): Subject => ({ model, run, epoch: this.models[model].content.runs[run].best_epoch });
    const all = this.models.flatMap(({ content }, model) => content.runs.map((_, run) => subject(model, run)));
    return isSideBySide ? all.slice(0, 4) : [subject(0, 0)];
  }

  /** What a link to this page may contain.
   *
   * @param lengths - the source length of each test sequence.
   */
  protected limitsOf(lengths: number[]): Limits {
    const contents = this.models.map(({ content }) => content);
    const most = (count: (model: GraphContent) => number): number => Math.max(...contents.map(count));
    const longest = contents.flatMap(({ max_length: each }) => (each === null ? [] : [each]));
    return {
      page: this.key, examples: lengths, runs: contents.map(({ runs }) => runs.map(({ epochs }) => epochs)),
      fixed: contents.find(({ fixed_source: fixed }) => fixed !== null)?.fixed_source ?? null,
      longest: longest.length ? Math.min(...longest) : null,
      steps: most(({ steps }) => steps), layers: most(({ layers }) => layers), heads: most(({ heads }) => heads),
    };
  }

  /** Return the view at the beginning. */
  protected firstView(subjects: Subject[], example: number): ViewState {
    return { example, isChanged: false, subjects, force: new ForcedRows(), kind: "cross", layer: 0, head: 0, step: 0, isRelative: false };
  }

  // --- answers -----------------------------------------------------------------------------------

  /** Ask the models. While one answers, later changes wait, and only the last is asked. */
  async update(): Promise<void> {
    this.isOutdated = true;
    this.settling ??= this.settle();
    return this.settling;
  }

  private async settle(): Promise<void> {
    while (this.isOutdated) {
      this.isOutdated = false;
      try {
        this.scene = await this.ask();
        this.draw();
        byId("live-error").textContent = "";
      } catch (error) {
        byId("live-error").textContent = messageOf(error) + (this.scene ? " The pictures still show the last answer." : "");
      }
    }
    this.settling = null;
  }

  /** Return the name of a subject with its epoch, if that is not the best one. */
  protected nameOfSubject({ model, run, epoch }: Subject): string {
    const { best_epoch: best, epochs } = this.models[model].content.runs[run];
    return this.nameOf(model, run) + (epochs.length > 1 && epoch !== best ? `, epoch ${epoch}` : "");
  }

  /** Return the name of a run. It says whether the model has attention, if the models of the page differ in that. */
  nameOf(model: number, run: number): string {
    const { runs, layers } = this.models[model].content;
    const differ = this.models.some(({ content }) => (content.layers === 0) !== (layers === 0));
    return differ ? `${runs[run].name} (${layers === 0 ? "without" : "with"} attention)` : runs[run].name;
  }

  /** The forced rows that exist in a model with other layers and heads. */
  rowsFor({ content: { layers, heads, steps } }: GraphModel, force: ForcedRows = this.state.force): Required<ForcedRow>[] {
    return force.list.filter(({ layer, head, step }) => layer < layers && head < heads && step <= steps);
  }

  /** Bring the kind of attention, layer and head into the range of the first model. */
  protected fitView(): void {
    const { state, first } = this;
    if (first.config.kind !== "transformer") state.kind = "cross";
    state.layer = Math.min(state.layer, Math.max(0, first.layers - 1));
    state.head = Math.min(state.head, Math.max(0, first.heads - 1));
  }

  draw(): void {
    const { scene } = this;
    if (!scene) return;
    this.drawMaps(scene);
    this.drawOwn(scene);
    const text = this.describe(scene);
    byId("live-text").textContent = text;
    this.speak(text);
    for (const follow of this.followers) follow(scene);
  }

  private drawMaps(scene: Scene): void {
    const place = byId("live-map");
    while (this.maps.length < scene.shown.length) {
      const own = document.createElement("div");
      place.append(own);
      const caption = document.createElement("p");
      const picture = document.createElement("div");
      own.append(caption, picture);
      this.maps.push(new HeatmapPlot(picture, { chooseStep: (step) => { this.chooseStep(step); }, chooseCell: (step, column) => { this.forceCell(step, column); }, pointAt: (column) => { this.pointAt(column); } }));
    }
    for (const [k, own] of [...place.children].entries()) {
      (own as HTMLElement).hidden = k >= scene.shown.length;
      if (k >= scene.shown.length) continue;
      const { name } = scene.shown[k];
      const view = this.matrix(scene, k);
      own.firstElementChild!.textContent = scene.shown.length === 1 ? "" : view.rows.length ? name : `${name}: there are no such weights to show.`;
      this.maps[k].draw(view);
    }
    const view = this.matrix(scene, 0);
    const row = view.rows[scene.state.step] as readonly number[] | undefined;
    byId("live-weights").hidden = row === undefined;
    if (row) this.bars.draw(row, { scale: view.scale, labels: view.columnLabels, isForced: isForced(scene, scene.state.step), canForce: view.canForce });
  }
}
