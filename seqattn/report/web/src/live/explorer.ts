// The live explorer of points: a source that can be changed, weights that can be forced, and what the models answer.
import type { Content, Examples } from "../content";
import { byId } from "../dom";
import { messageOf } from "../format";
import { theme } from "../plots";
import type { LiveContent, LiveModelContent } from "./content";
import { addControls, showControls } from "./controls";
import { COLOURS, Explorer } from "./explorer_base";
import type { MatrixView } from "./matrix";
import type { Answer, LiveModel, RunOptions } from "./model";
import { canForce, checkValues, meaningOf } from "./model";
import { PathPlot } from "./path_plot";
import type { Scene, Shown } from "./scene";
import { matrixOf } from "./scene";
import { describe } from "./sentence";
import { blankSource, Sequences } from "./sequences";
import type { ExplorerState } from "./state";
import { copyState, fromFragment, toFragment } from "./state";

/** The arrays of the page that the explorer starts from. */
export interface LivePage { live: LiveContent & { models: LiveModelContent[] }; examples: Examples; alignment: number[][] | null }

/** Return what the explorer needs of a page; null if the page is not live. */
export function livePage(content: Content): LivePage | null {
  const { live } = content;
  const examples = live?.examples ?? (content.kind === "run" ? content.examples : undefined);
  if (!live?.models.length || !examples || live.words) return null;
  const alignment = live.alignment ?? (content.kind === "run" ? content.alignment : null) ?? null;
  return { live: live as LivePage["live"], examples, alignment };
}

export class LiveExplorer extends Explorer<ExplorerState, Scene, LiveModel> {
  readonly state: ExplorerState;
  private readonly path: PathPlot;

  constructor(readonly page: LivePage, models: LiveModel[], readonly sequences: Sequences) {
    super(models);
    this.state = this.restore() ?? this.start();
    this.path = new PathPlot(byId("live-path"), {
      move: (point, values) => { this.movePoint(point, values); },
      choosePoint: (point) => { this.change((state) => { state.point = point; }); },
      chooseStep: (step) => { this.chooseStep(step); },
    });
    addControls(this);
  }

  static async load(page: LivePage, models: LiveModel[]): Promise<LiveExplorer> {
    const explorer = new LiveExplorer(page, models, await Sequences.load(page.examples, page.alignment));
    await explorer.update();
    return explorer;
  }

  lengthOf({ source }: ExplorerState): number {
    return source.length;
  }

  get rowCount(): number {
    return this.state.kind === "encoder_self" ? this.state.source.length : this.first.steps;
  }

  get fragment(): string {
    return toFragment(this.state, this.key);
  }

  get exampleNames(): readonly string[] {
    return this.sequences.names;
  }

  chooseOwn(): void {
    this.chooseBlank();
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

  resetSource(): void {
    const { example } = this.state;
    if (example === null) {
      this.chooseBlank();
      return;
    }
    this.change((state) => {
      const source = this.sequences.source(example);
      if (source.length !== state.source.length) state.force.clear();
      Object.assign(state, { source, truth: this.sequences.target(example), isChanged: false, point: Math.min(state.point, source.length - 1) });
    });
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

  private get blankLength(): number {
    const lengths = this.shownContents.flatMap(({ fixed_source: fixed, source_length: trained }) => (fixed === null ? [trained] : [fixed, trained]));
    return [...lengths, ...lengths.map((_, k) => k + 1)].find((length) => this.accepts(length)) ?? this.first.source_length;
  }

  private markChanged(): void {
    this.state.isChanged = true;
    this.state.truth = null;
  }

  private start(): ExplorerState {
    const subjects = this.firstSubjects(this.page.live.side_by_side === true);
    const contents = subjects.map(({ model }) => this.models[model].content);
    const example = Math.max(0, this.page.examples.source_lengths.findIndex((length) => this.accepts(length, contents)));
    return { ...this.firstView(subjects, example), source: this.sequences.source(example), truth: this.sequences.target(example), point: 0 };
  }

  protected restore(): ExplorerState | null {
    const shared = fromFragment(location.hash, { ...this.limitsOf(this.page.examples.source_lengths), features: this.page.examples.features.length });
    if (!shared) return null;
    const example = shared.example ?? 0;
    const unchanged = shared.source === null;
    return { ...shared, source: shared.source ?? this.sequences.source(example), truth: unchanged ? this.sequences.target(example) : null, isChanged: !unchanged };
  }

  protected async ask(): Promise<Scene> {
    const { page } = this;
    this.fitView();
    this.state.point = Math.min(this.state.point, this.state.source.length - 1);
    this.state.step = Math.min(this.state.step, this.rowCount - 1);
    const hasTrace = this.needsTrace;
    const state = this.state;
    const answered = copyState(state);
    const shown: Shown[] = [];
    const { warn } = theme();
    for (const [k, { model, run, epoch }] of answered.subjects.entries()) {
      const live = this.models[model];
      const { source } = answered;
      const isForced = answered.force.size > 0 && canForce(live.content);
      const options: RunOptions = { run, epoch, outputs: hasTrace && k === 0 ? "all" : "weights" };
      const own: Answer = await live.run(source, isForced ? { run, epoch, outputs: "weights" } : options);
      const answer = isForced ? await live.run(source, { ...options, force: { rows: this.rowsFor(live, answered.force) } }) : own;
      shown.push({ name: this.nameOfSubject({ model, run, epoch }), colour: k ? COLOURS[k - 1] : warn, answer, own, scale: live.content.loss_scale, meaning: meaningOf(live.content) });
    }
    const { features, target_features: targetFeatures, named, plane, units } = page.examples;
    const alignment = answered.example !== null && !answered.isChanged ? this.sequences.alignment(answered.example) : [];
    const isWhole = answered.example !== null && answered.source.length === page.examples.source_lengths[answered.example];
    const times = isWhole ? this.sequences.times(answered.example!) : [];
    return { state: answered, current: state, shown, features, targetFeatures, units, axisNames: named, plane, hasTrace, alignment, times, canForce: this.canForce, trainedLength: Math.min(...this.shownContents.map(({ source_length }) => source_length)) };
  }

  protected matrix(scene: Scene, index: number): MatrixView {
    return matrixOf(scene, scene.shown[index]);
  }

  protected drawOwn(scene: Scene): void {
    this.path.draw(scene);
    showControls(this, scene);
  }

  protected describe(scene: Scene): string {
    return describe(scene);
  }
}
