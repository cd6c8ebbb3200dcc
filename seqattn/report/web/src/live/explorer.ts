// The live explorer: a source that can be changed, weights that can be forced, and what the models answer.
import type { Content, Examples } from "../content";
import { byId } from "../dom";
import { messageOf } from "../format";
import { onThemeChange, theme } from "../plots";
import { announcer } from "./announce";
import { WeightBars } from "./bars";
import type { LiveContent, LiveModelContent } from "./content";
import { addControls, showControls } from "./controls";
import type { ForcedRow } from "./force";
import { HeatmapPlot } from "./heatmap_plot";
import type { Answer, LiveModel, RunOptions } from "./model";
import { canForce, checkValues, meaningOf } from "./model";
import { PathPlot } from "./path_plot";
import type { Scene, Shown } from "./scene";
import { isForced, matrixOf, scaleOf, weightsOf } from "./scene";
import { describe } from "./sentence";
import { blankSource, Sequences } from "./sequences";
import type { ExplorerState, Limits, Subject } from "./state";
import { fromFragment, pageKey, toFragment } from "./state";
import { ForcedRows, oneHotRow, setWeight, shuffleRow, uniformRow } from "./weights";

/** Colours of the models beyond the first. */
const COLOURS = ["#009e73", "#cc79a7", "#56b4e9"];

/** The arrays of the page that the explorer starts from. */
export interface LivePage { live: LiveContent; examples: Examples; alignment: number[][] | null }

/** Return what the explorer needs of a page; null if the page is not live. */
export function livePage(content: Content): LivePage | null {
  const { live } = content;
  const examples = live?.examples ?? (content.kind === "run" ? content.examples : undefined);
  if (!live?.models.length || !examples) return null;
  const alignment = live.alignment ?? (content.kind === "run" ? content.alignment : null) ?? null;
  return { live, examples, alignment };
}

export class LiveExplorer {
  readonly state: ExplorerState;
  scene: Scene | null = null;
  /** Returns whether the intermediate results of the first model are shown, so that it must return them. */
  needsTrace: () => boolean = () => false;
  private readonly path: PathPlot;
  private readonly maps: HeatmapPlot[] = [];
  private readonly bars: WeightBars;
  /** Ends when the answer to the last change is shown. */
  private settling: Promise<void> | null = null;
  private isOutdated = false;
  private readonly followers: ((scene: Scene) => void)[] = [];

  private readonly key: string;
  private readonly speak = announcer(byId("live-spoken"));

  constructor(readonly page: LivePage, readonly models: LiveModel[], readonly sequences: Sequences) {
    this.key = pageKey(models.map(({ content }) => content));
    this.state = this.restore() ?? this.start();
    this.path = new PathPlot(byId("live-path"), {
      move: (point, values) => { this.movePoint(point, values); },
      choosePoint: (point) => { this.change((state) => { state.point = point; }); },
      chooseStep: (step) => { this.chooseStep(step); },
    });
    this.bars = new WeightBars(byId("live-bars"), { setWeight: (column, weight) => { this.forceRow((row) => setWeight(row, column, weight), this.drawnPoints); } });
    addControls(this);
    onThemeChange(() => { this.draw(); });
    window.addEventListener("resize", () => { this.draw(); });
    window.addEventListener("hashchange", () => { this.followFragment(); });
  }

  static async load(page: LivePage, models: LiveModel[]): Promise<LiveExplorer> {
    const explorer = new LiveExplorer(page, models, await Sequences.load(page.examples, page.alignment));
    await explorer.update();
    return explorer;
  }

  /** Call a function after each answer. */
  onAnswer(follow: (scene: Scene) => void): void {
    this.followers.push(follow);
    if (this.scene) follow(this.scene);
  }

  /** Whether the last change has been answered. */
  get isIdle(): boolean {
    return this.settling === null;
  }

  /** The fragment of a link to what is shown. */
  get fragment(): string {
    return toFragment(this.state, this.key);
  }

  get first(): LiveModelContent {
    return this.models[this.state.subjects[0].model].content;
  }

  get canForce(): boolean {
    return canForce(this.first);
  }

  // --- changes -----------------------------------------------------------------------------------

  /** Change the state, and show what the models answer. */
  change(apply: (state: ExplorerState) => void): void {
    apply(this.state);
    void this.update();
  }

  chooseExample(example: number): void {
    const count = this.sequences.count;
    const index = ((example % count) + count) % count;
    this.change((state) => {
      Object.assign(state, { example: index, source: this.sequences.source(index), truth: this.sequences.target(index), isChanged: false, step: 0, point: 0 });
      state.force.clear();
    });
  }

  chooseBlank(): void {
    this.change((state) => {
      Object.assign(state, { example: null, source: blankSource(this.first, this.page.examples.plane, this.blankLength), truth: null, isChanged: true, step: 0, point: 0 });
      state.force.clear();
    });
  }

  chooseStep(step: number): void {
    this.state.step = step;
    if (this.scene) this.scene.state.step = step;
    this.draw();
  }

  movePoint(point: number, values: Record<number, number>): void {
    try {
      checkValues(Object.values(values));
    } catch (error) {
      byId("live-error").textContent = messageOf(error);
      return;
    }
    this.change((state) => {
      for (const [feature, value] of Object.entries(values)) state.source[point][Number(feature)] = value;
      state.point = point;
      this.markChanged();
    });
  }

  /** Add a point after the chosen one, half way to the next. */
  addPoint(): void {
    if (!this.accepts(this.state.source.length + 1)) return;
    this.change((state) => {
      const [row, next] = [state.source[state.point], state.source[state.point + 1] as number[] | undefined];
      state.source.splice(state.point + 1, 0, row.map((value, f) => (next ? (value + next[f]) / 2 : value)));
      state.point += 1;
      state.force.clear();
      this.markChanged();
    });
  }

  removePoint(): void {
    if (!this.accepts(this.state.source.length - 1)) return;
    this.change((state) => {
      state.source.splice(state.point, 1);
      state.point = Math.max(0, state.point - 1);
      state.force.clear();
      this.markChanged();
    });
  }

  /** Change the row of weights of the chosen step, layer and head, when the model's own row is known.
   *
   * Nothing changes if the row has other points by then.
   *
   * @param points - The number of source points that the change is made for.
   */
  forceRow(change: (row: readonly number[]) => number[], points = this.state.source.length): void {
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
      if (row?.length !== points || state.source.length !== points) return;
      this.change(({ force }) => { force.set(step + 1, layer, head, change(row)); });
    };
    apply();
  }

  /** Force the chosen step to attend to one point only; if it does already, take that back. */
  forceCell(step: number, column: number): void {
    this.state.step = step;
    const { force, layer, head } = this.state;
    if (force.get(step + 1, layer, head)?.[column] === 1) this.freeRow();
    else if (this.canForce && this.state.kind === "cross") this.forceRow((row) => oneHotRow(row.length, column), this.drawnPoints);
    else this.draw();
  }

  forceUniform(): void { this.forceRow((row) => uniformRow(row.length)); }
  forceShuffled(): void { this.forceRow((row) => shuffleRow(row)); }

  /** Give all forecast points equal weights, in all layers and heads. */
  forceUniformEverywhere(): void {
    const { heads, layers, steps } = this.first;
    if (!this.canForce) return;
    this.change(({ force, source }) => {
      for (let layer = 0; layer < layers; layer += 1) {
        for (let head = 0; head < heads; head += 1) {
          for (let step = 1; step <= steps; step += 1) force.set(step, layer, head, uniformRow(source.length));
        }
      }
    });
  }

  freeRow(): void { this.change(({ force, step, layer, head }) => { force.delete(step + 1, layer, head); }); }
  freeAll(): void { this.change(({ force }) => { force.clear(); }); }

  /** Give the chosen head, or all heads of the chosen layer, no weight in any step. */
  knockOut(allHeads: boolean): void {
    const { heads, steps } = this.first;
    this.change(({ force, layer, head, source }) => {
      for (let h = allHeads ? 0 : head; h <= (allHeads ? heads - 1 : head); h += 1) {
        for (let step = 1; step <= steps; step += 1) force.set(step, layer, h, new Array<number>(source.length).fill(0));
      }
    });
  }

  /** The number of source points in the pictures, which may be those before the last change. */
  private get drawnPoints(): number {
    return (this.scene ?? this).state.source.length;
  }

  /** The shown models. */
  private get shownContents(): LiveModelContent[] {
    return this.state.subjects.map(({ model }) => this.models[model].content);
  }

  /** Return whether all shown models accept a source of a length. */
  accepts(length: number, contents = this.shownContents): boolean {
    return length > 0 && contents.every(({ fixed_source: fixed, max_length: longest }) => (fixed === null || length === fixed) && (longest === null || length <= longest));
  }

  private get blankLength(): number {
    const lengths = this.shownContents.flatMap(({ fixed_source: fixed, source_length: trained }) => (fixed === null ? [trained] : [fixed, trained]));
    return [...lengths, ...lengths.map((_, k) => k + 1)].find((length) => this.accepts(length)) ?? this.first.source_length;
  }

  private markChanged(): void {
    this.state.isChanged = true;
    this.state.truth = null;
  }

  // --- the state at the beginning ----------------------------------------------------------------

  private start(): ExplorerState {
    const subject = (model: number, run: number): Subject => ({ model, run, epoch: this.models[model].content.runs[run].best_epoch });
    const all = this.models.flatMap(({ content }, model) => content.runs.map((_, run) => subject(model, run)));
    const subjects = this.page.live.side_by_side ? all.slice(0, 4) : [subject(0, 0)];
    const contents = subjects.map(({ model }) => this.models[model].content);
    const example = Math.max(0, this.page.examples.source_lengths.findIndex((length) => this.accepts(length, contents)));
    return {
      example, source: this.sequences.source(example), truth: this.sequences.target(example), isChanged: false,
      subjects, force: new ForcedRows(), kind: "cross", layer: 0, head: 0, step: 0, point: 0, isRelative: false,
    };
  }

  /** What a link to this page may contain. */
  private get limits(): Limits {
    const contents = this.models.map(({ content }) => content);
    const most = (count: (model: LiveModelContent) => number): number => Math.max(...contents.map(count));
    const lengths = contents.flatMap(({ max_length: longest }) => (longest === null ? [] : [longest]));
    return {
      page: this.key, examples: this.page.examples.source_lengths, features: this.page.examples.features.length,
      runs: contents.map(({ runs }) => runs.map(({ epochs }) => epochs)),
      fixed: contents.find(({ fixed_source: fixed }) => fixed !== null)?.fixed_source ?? null,
      longest: lengths.length ? Math.min(...lengths) : null,
      steps: most(({ steps }) => steps), layers: most(({ layers }) => layers), heads: most(({ heads }) => heads),
    };
  }

  private restore(): ExplorerState | null {
    const shared = fromFragment(location.hash, this.limits);
    if (!shared) return null;
    const example = shared.example ?? 0;
    const unchanged = shared.source === null;
    return { ...shared, source: shared.source ?? this.sequences.source(example), truth: unchanged ? this.sequences.target(example) : null, isChanged: !unchanged };
  }

  private followFragment(): void {
    const restored = this.restore();
    if (restored) this.change((state) => Object.assign(state, restored));
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

  private async ask(): Promise<Scene> {
    const { page } = this;
    this.fitChoices();
    const hasTrace = this.needsTrace();
    const state = this.state;
    const answered = { ...state, source: state.source.map((row) => [...row]), force: state.force.copy(), subjects: state.subjects.map((subject) => ({ ...subject })) };
    const shown: Shown[] = [];
    const { warn } = theme();
    for (const [k, { model, run, epoch }] of answered.subjects.entries()) {
      const live = this.models[model];
      const { source } = answered;
      const isForced = answered.force.size > 0 && canForce(live.content);
      const options: RunOptions = { run, epoch, outputs: hasTrace && k === 0 ? "all" : "weights" };
      const own: Answer = await live.run(source, isForced ? { run, epoch, outputs: "weights" } : options);
      const answer = isForced ? await live.run(source, { ...options, force: { rows: this.rowsFor(live, answered.force) } }) : own;
      const { best_epoch: best, epochs } = live.content.runs[run];
      const name = this.nameOf(model, run);
      const suffix = epochs.length > 1 && epoch !== best ? `, epoch ${epoch}` : "";
      shown.push({ name: name + suffix, colour: k ? COLOURS[k - 1] : warn, answer, own, scale: live.content.loss_scale, meaning: meaningOf(live.content) });
    }
    const { features, target_features: targetFeatures, named, plane } = page.examples;
    const alignment = answered.example !== null && !answered.isChanged ? this.sequences.alignment(answered.example) : [];
    const { hasAlignment } = this.sequences;
    const isWhole = answered.example !== null && answered.source.length === page.examples.source_lengths[answered.example];
    const times = isWhole ? this.sequences.times(answered.example!) : [];
    return { state: answered, current: state, shown, features, targetFeatures, axisNames: named, plane, hasTrace, alignment, hasAlignment, times, canForce: this.canForce, trainedLength: Math.min(...this.shownContents.map(({ source_length: length }) => length)) };
  }

  /** Return the name of a run. It says whether the model has attention, if the models of the page differ in that. */
  nameOf(model: number, run: number): string {
    const { runs, layers } = this.models[model].content;
    const differ = this.models.some(({ content }) => (content.layers === 0) !== (layers === 0));
    return differ ? `${runs[run].name} (${layers === 0 ? "without" : "with"} attention)` : runs[run].name;
  }

  /** The forced rows that exist in a model with other layers and heads. */
  rowsFor({ content: { layers, heads, steps } }: LiveModel, force: ForcedRows = this.state.force): Required<ForcedRow>[] {
    return force.list.filter(({ layer, head, step }) => layer < layers && head < heads && step <= steps);
  }

  /** Bring the kind of attention, step, point, layer and head into the range of the first model. */
  private fitChoices(): void {
    const { state, first } = this;
    if (first.config.kind !== "transformer") state.kind = "cross";
    state.point = Math.min(state.point, state.source.length - 1);
    state.layer = Math.min(state.layer, Math.max(0, first.layers - 1));
    state.head = Math.min(state.head, Math.max(0, first.heads - 1));
    const rows = state.kind === "encoder_self" ? state.source.length : first.steps;
    state.step = Math.min(state.step, rows - 1);
  }

  draw(): void {
    const { scene } = this;
    if (!scene) return;
    this.path.draw(scene);
    const place = byId("live-map");
    while (this.maps.length < scene.shown.length) {
      const own = document.createElement("div");
      place.append(own);
      const caption = document.createElement("p");
      const picture = document.createElement("div");
      own.append(caption, picture);
      this.maps.push(new HeatmapPlot(picture, { chooseStep: (step) => { this.chooseStep(step); }, chooseCell: (step, column) => { this.forceCell(step, column); } }));
    }
    for (const [k, own] of [...place.children].entries()) {
      (own as HTMLElement).hidden = k >= scene.shown.length;
      if (k >= scene.shown.length) continue;
      const { name, answer } = scene.shown[k];
      const hasWeights = weightsOf(answer, scene.state.kind, scene.state.layer, scene.state.head).length > 0;
      own.firstElementChild!.textContent = scene.shown.length === 1 ? "" : hasWeights ? name : `${name}: there are no such weights to show.`;
      this.maps[k].draw(matrixOf(scene, scene.shown[k]));
    }
    const { state } = scene;
    const row = weightsOf(scene.shown[0].answer, state.kind, state.layer, state.head)[state.step] ?? [];
    byId("live-weights").hidden = row.length === 0;
    if (row.length) {
      const canForceRow = scene.canForce && state.kind === "cross";
      this.bars.draw(row, { scale: scaleOf(scene, scene.shown[0]), labels: row.map((_, k) => String(k + 1)), isForced: isForced(scene, state.step), canForce: canForceRow });
    }
    const text = describe(scene);
    byId("live-text").textContent = text;
    this.speak(text);
    showControls(this, scene);
    for (const follow of this.followers) follow(scene);
  }
}
