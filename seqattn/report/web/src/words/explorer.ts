// The live explorer of symbols: a source that can be typed, and what the models write.
import type { Content } from "../content";
import { byId, fill, inputById, selectById, textElement } from "../dom";
import { shorten, withMinus } from "../format";
import type { LiveContent, WordExamples, WordModelContent } from "../live/content";
import { COLOURS, Explorer } from "../live/explorer_base";
import type { Link, MatrixView } from "../live/matrix";
import { weightScale } from "../live/matrix";
import type { RunOptions } from "../live/model";
import { canForce, meaningOf } from "../live/model";
import { weightsOf } from "../live/scene";
import { addSharedControls, onChange, onClick, showSharedControls } from "../live/shared_controls";
import { copyState } from "../live/state";
import { theme } from "../plots";
import { alternativesOf, showAlternatives } from "./alternatives";
import { showHeads } from "./heads_grid";
import { LinesPlot } from "./lines_plot";
import type { WordModel } from "./model";
import type { ShownWords, WordScene } from "./scene";
import { describeWords, isChosen, quoted, symbolNames, wordMatrix } from "./scene";
import type { Picture, WordState } from "./state";
import { BEAMS, fromWordFragment, PICTURES, toWordFragment } from "./state";
import { END, UNKNOWN, visible } from "./vocabulary";

const MAX_NAME = 40;
const EMPTY = "The source is empty. The page still shows the last one.";
/** Wait after a key before the model answers: most readers type on. */
const TYPING = 120; // ms
const PICTURE_NAMES: Record<Picture, string> = { heatmap: "Heatmap", lines: "Lines", heads: "All heads" };

export interface WordPage { live: LiveContent & { models: WordModelContent[] }; examples: WordExamples }

/** Return what the explorer needs of a page; null if the page has no live model of symbols. */
export function wordPage({ live }: Content): WordPage | null {
  if (!live?.models.length || !live.words) return null;
  return { live: live as WordPage["live"], examples: live.words };
}

export class WordExplorer extends Explorer<WordState, WordScene, WordModel> {
  readonly state: WordState;
  private readonly lines: LinesPlot;
  private readonly names: string[];
  private typing: ReturnType<typeof setTimeout> | undefined;
  /** The test sequence that was shown last. */
  private lastExample = 0;

  constructor(readonly page: WordPage, models: WordModel[]) {
    super(models);
    const [{ source }] = models;
    this.names = page.examples.sources.map((numbers, k) => `${page.examples.ids[k]}: ${shorten(source.text(numbers), MAX_NAME)}`);
    this.state = this.restore() ?? this.start();
    this.lines = new LinesPlot(byId("live-lines"), { chooseStep: (step) => { this.chooseStep(step); }, chooseCell: (step, column) => { this.forceCell(step, column); } });
    addSharedControls(this);
    this.addOwnControls();
  }

  static async load(page: WordPage, models: WordModel[]): Promise<WordExplorer> {
    const explorer = new WordExplorer(page, models);
    await explorer.update();
    return explorer;
  }

  get exampleNames(): readonly string[] {
    return this.names;
  }

  lengthOf({ source }: WordState): number {
    return source.length;
  }

  get rowCount(): number {
    const { state, scene } = this;
    return Math.max(1, state.kind === "encoder_self" ? state.source.length : scene?.shown[0].symbols.length ?? this.first.steps);
  }

  get fragment(): string {
    return toWordFragment(this.state, this.key);
  }

  // --- changes -----------------------------------------------------------------------------------

  chooseExample(example: number): void {
    const { length: count } = this.names;
    const index = ((example % count) + count) % count;
    this.stopTyping();
    this.change((state) => {
      Object.assign(state, { example: index, source: this.sourceOf(index), isChanged: false, given: [], step: 0 });
      state.force.clear();
    });
  }

  chooseOwn(): void {
    inputById("live-source").focus();
    inputById("live-source").select();
  }

  resetSource(): void {
    const { example } = this.state;
    if (example === null) {
      this.chooseExample(this.lastExample);
      return;
    }
    this.stopTyping();
    this.change((state) => {
      const source = this.sourceOf(example);
      if (source.length !== state.source.length) state.force.clear();
      Object.assign(state, { source, isChanged: false, given: [] });
    });
  }

  /** Read the source from a text. */
  type(text: string): void {
    const source = this.models[this.state.subjects[0].model].source.split(text);
    if (!source.length) byId("live-error").textContent = EMPTY;
    else if (byId("live-error").textContent === EMPTY) byId("live-error").textContent = "";
    if (!source.length || source.join("\n") === this.state.source.join("\n")) return;
    this.change((state) => {
      if (source.length !== state.source.length) state.force.clear();
      Object.assign(state, { example: null, source, isChanged: true, given: [] });
    });
  }

  /** Write a symbol in the chosen step, after those that the model has written before it. */
  chooseSymbol(symbol: number): void {
    const { scene } = this;
    if (!scene) return;
    const { step } = this.state;
    this.change((state) => { state.given = [...scene.shown[0].answer.symbols.slice(0, step), symbol]; });
  }

  private sourceOf(example: number): string[] {
    const { source } = this.models[0];
    return this.page.examples.sources[example].map((number) => source.symbol(number));
  }

  private start(): WordState {
    const subjects = this.firstSubjects(this.page.live.side_by_side === true);
    const contents = subjects.map(({ model }) => this.models[model].content);
    const wanted = this.page.live.tour?.start?.example ?? 0;
    const example = [wanted, ...this.names.keys()].find((k) => this.accepts(this.page.examples.sources[k].length, contents)) ?? 0;
    return { ...this.firstView(subjects, example), source: this.sourceOf(example), given: [], beam: 1, picture: "heatmap" };
  }

  protected restore(): WordState | null {
    const limits = { ...this.limitsOf(this.page.examples.sources.map(({ length }) => length)), symbols: Math.min(...this.models.map(({ target }) => target.size)) };
    const shared = fromWordFragment(location.hash, limits);
    return shared && { ...shared, source: shared.source ?? this.sourceOf(shared.example ?? 0), isChanged: shared.source !== null };
  }

  // --- answers -----------------------------------------------------------------------------------

  protected async ask(): Promise<WordScene> {
    this.fitView();
    const hasTrace = this.needsTrace;
    const answered = copyState(this.state);
    const shown: ShownWords[] = [];
    for (const [k, subject] of answered.subjects.entries()) shown.push(await this.askModel(answered, k, hasTrace && k === 0, subject));
    const { source, target } = this.models[answered.subjects[0].model];
    const { examples } = this.page;
    const known = answered.example !== null && !answered.isChanged ? answered.example : null;
    const rows = answered.kind === "encoder_self" ? answered.source.length : shown[0].symbols.length;
    answered.step = this.state.step = Math.min(answered.step, rows - 1);
    const lower = answered.source.filter((symbol) => source.numberOf(symbol) === UNKNOWN && source.numberOf(symbol.toLowerCase()) !== UNKNOWN);
    return {
      readsAll: this.first.config.kind === "transformer" || this.first.config.bidirectional === true,
      hint: lower.length ? ` It knows ${quoted(lower[0].toLowerCase())}.` : "",
      state: answered, shown, hasTrace, canForce: this.canForce, isKnown: answered.source.map((symbol) => source.numberOf(symbol) !== UNKNOWN),
      truth: known === null ? null : { symbols: examples.targets[known], text: target.text(examples.targets[known]) }, links: known === null ? [] : linksOf(examples, known),
      trainedLength: Math.min(...this.shownContents.map(({ source_length }) => source_length)),
    };
  }

  private async askModel(state: WordState, index: number, hasTrace: boolean, subject: WordState["subjects"][number]): Promise<ShownWords> {
    const { model, run, epoch } = subject;
    const live = this.models[model];
    const source = state.source.map((symbol) => live.source.numberOf(symbol));
    const options: RunOptions = { run, epoch, outputs: hasTrace ? "all" : "weights" };
    const isForced = state.force.size > 0 && canForce(live.content);
    const isTouched = isForced || state.given.length > 0;
    const free = { beam: state.beam, given: [] };
    const own = await live.answer(source, free, isTouched ? { ...options, outputs: "weights" } : options);
    const answer = isTouched ? await live.answer(source, { ...free, given: state.given }, isForced ? { ...options, force: { rows: this.rowsFor(live, state.force) } } : options) : own;
    return {
      name: this.nameOfSubject(subject), colour: index ? COLOURS[index - 1] : theme().warn, answer, own, meaning: meaningOf(live.content),
      symbols: answer.symbols.map((symbol) => live.target.symbol(symbol)), text: live.target.text(answer.symbols), ownText: live.target.text(own.symbols),
    };
  }

  protected matrix(scene: WordScene, index: number): MatrixView {
    return wordMatrix(scene, scene.shown[index]);
  }

  protected describe(scene: WordScene): string {
    return describeWords(scene);
  }

  // --- controls and pictures ---------------------------------------------------------------------

  private addOwnControls(): void {
    const input = inputById("live-source");
    const read = (): void => {
      this.stopTyping();
      this.type(input.value);
    };
    input.addEventListener("input", () => {
      this.stopTyping();
      this.typing = setTimeout(read, TYPING);
    });
    input.addEventListener("change", read); // a reader who leaves the field does not wait
    fill(selectById("live-beam"), BEAMS.map((beam) => (beam === 1 ? "greedy" : `beam of ${beam}`)));
    onChange("live-beam", () => { this.change((state) => { state.beam = BEAMS[selectById("live-beam").selectedIndex]; }); });
    onClick("live-own-symbols", () => { this.change((state) => { state.given = []; }); });
    for (const picture of PICTURES) onClick(`live-show-${picture}`, () => { this.showPicture(picture); });
  }

  /** Forget a text that has not been read yet. */
  private stopTyping(): void {
    clearTimeout(this.typing);
    this.typing = undefined;
  }

  private showPicture(picture: Picture): void {
    this.state.picture = picture;
    if (this.scene) this.scene.state.picture = picture;
    this.draw();
  }

  protected drawOwn(scene: WordScene): void {
    showSharedControls(this, symbolNames(scene));
    const { state, shown: [first] } = scene;
    const input = inputById("live-source");
    const { source } = this.models[state.subjects[0].model];
    const text = source.write(state.source);
    if (state.example !== null) this.lastExample = state.example;
    // While the reader types, the answer is one to an earlier text.
    if (this.typing === undefined && source.write(source.split(input.value)) !== text) input.value = text;
    selectById("live-beam").selectedIndex = BEAMS.indexOf(state.beam);
    (byId("live-own-symbols") as HTMLButtonElement).disabled = state.given.length === 0;
    this.drawSymbols(scene);
    this.drawHypotheses(first);
    byId("live-links-note").hidden = this.matrix(scene, 0).links.length === 0;
    this.drawPictures(scene);
    this.drawAlternatives(scene);
  }

  /** Show the symbols of source and output in the colours of the weights of the chosen step. */
  private drawSymbols(scene: WordScene): void {
    const { state, shown, isKnown } = scene;
    const view = this.matrix(scene, 0);
    const row = state.kind === "decoder_self" ? undefined : view.rows[state.step] as readonly number[] | undefined;
    byId("live-source-symbols").replaceChildren(...state.source.map((symbol, k) => {
      const chip = textElement("span", visible(symbol));
      chip.className = isKnown[k] ? "symbol" : "symbol unknown";
      chip.title = isKnown[k] ? `source symbol ${k + 1}` : `source symbol ${k + 1} is not in the vocabulary`;
      if (row && row[k] !== 0) chip.style.setProperty("--weight", String(Math.min(1, Math.abs(row[k]) / view.scale.high)));
      return chip;
    }));
    byId("live-output").replaceChildren(...shown.map((each, index) => {
      const line = textElement("p", shown.length > 1 ? `${each.name}: ` : "");
      line.append(...each.symbols.map((symbol, t) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = `symbol${t < state.given.length && isChosen(each, t) ? " given" : ""}${each.answer.symbols[t] === END ? " end" : ""}`;
        button.textContent = visible(symbol);
        button.setAttribute("aria-pressed", String(index === 0 && t === state.step && state.kind !== "encoder_self"));
        button.addEventListener("click", () => { this.chooseStep(t); });
        return button;
      }));
      return line;
    }));
  }

  private drawHypotheses({ answer }: ShownWords): void {
    const { target } = this.models[this.state.subjects[0].model];
    byId("live-hypotheses").replaceChildren(...answer.hypotheses.map(({ symbols, score }) => {
      const line = document.createElement("li");
      const button = textElement("button", `${target.text(symbols)} (${withMinus(score.toFixed(3))})`);
      button.type = "button";
      button.addEventListener("click", () => { this.change((state) => { state.given = symbols; }); });
      line.append(button);
      return line;
    }));
    byId("live-beam-place").hidden = answer.hypotheses.length === 0;
  }

  private drawPictures(scene: WordScene): void {
    const { state, shown: [first] } = scene;
    const { layers, heads } = this.first;
    const hasHeads = layers * heads > 1;
    if (!hasHeads && state.picture === "heads") state.picture = this.state.picture = "heatmap";
    const hasWeights = this.matrix(scene, 0).rows.length > 0;
    for (const picture of PICTURES) {
      const button = byId(`live-show-${picture}`);
      button.textContent = PICTURE_NAMES[picture];
      button.setAttribute("aria-pressed", String(picture === state.picture));
      button.hidden = picture === "heads" && !hasHeads;
    }
    byId("live-pictures").hidden = !hasWeights;
    byId("live-map").hidden = state.picture !== "heatmap";
    byId("live-lines").hidden = state.picture !== "lines" || !hasWeights;
    byId("live-heads").hidden = state.picture !== "heads" || !hasWeights;
    if (!hasWeights) return;
    if (state.picture === "lines") this.lines.draw(this.matrix(scene, 0));
    if (state.picture !== "heads") return;
    const pictures = Array.from({ length: layers * heads }, (_, k) => {
      const [layer, head] = [Math.floor(k / heads), k % heads];
      const rows = weightsOf(first.answer, state.kind, layer, head);
      return { layer, head, name: `${layers > 1 ? `layer ${layer + 1}, ` : ""}head ${head + 1}`, rows, scale: weightScale(rows, first.meaning, state.isRelative) };
    });
    showHeads(byId("live-heads"), pictures, ({ layer, head }) => layer === state.layer && head === state.head, ({ layer, head }) => { this.change((each) => { Object.assign(each, { layer, head, picture: "heatmap" }); }); });
  }

  private drawAlternatives(scene: WordScene): void {
    const { state: { step, kind }, shown: [{ answer }] } = scene;
    const { target } = this.models[this.state.subjects[0].model];
    byId("live-alternatives-place").hidden = kind === "encoder_self";
    if (kind === "encoder_self") return;
    byId("live-alternatives-name").textContent = `Symbols for place ${step + 1} of the output`;
    showAlternatives(byId("live-alternatives"), alternativesOf(answer.logits[step]), (symbol) => target.symbol(symbol), answer.symbols[step], (symbol) => { this.chooseSymbol(symbol); });
  }
}

/** Return the known links of a test sequence. */
function linksOf(examples: WordExamples, example: number): Link[] {
  return (examples.links?.[example] ?? []).map(([row, column, sure]) => ({ row, column, isPossible: sure === 0 }));
}
