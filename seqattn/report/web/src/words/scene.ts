// What the pictures of the explorer of symbols show at one moment, and the chosen step in words.
import { capitalize, withMinus } from "../format";
import type { Link, MatrixView } from "../live/matrix";
import type { BaseScene, PointNames, ShownAttention } from "../live/scene";
import { isForced, isKnockedOut, scaleOf, weightsOf } from "../live/scene";
import { largest, logProbabilities } from "./decode";
import type { WordAnswer } from "./model";
import { probabilities } from "./model";
import type { WordState } from "./state";
import { visible } from "./vocabulary";

const MAX_ATTENDED = 3;

/** The answer of one model. */
export interface ShownWords extends ShownAttention<WordAnswer> {
  /** The symbols of the output, with its end. */
  symbols: string[];
  /** The output as text. */
  text: string;
  /** The output as text without forced weights and chosen symbols. */
  ownText: string;
}

export interface WordScene extends BaseScene<WordState> {
  shown: ShownWords[];
  /** Whether each encoder state of the first model may know the whole source, and not only what comes before it. */
  readsAll: boolean;
  /** A sentence about unknown symbols that are known in lower case; "" if there are none. */
  hint: string;
  /** Whether the first model knows each symbol of the source. */
  isKnown: boolean[];
  /** The true output; null if it is unknown. */
  truth: { symbols: readonly number[]; text: string } | null;
  links: Link[];
  /** The longest source of the training. */
  trainedLength: number;
}

export const quoted = (symbol: string): string => `\u201c${visible(symbol)}\u201d`;

/** Return the names of the symbols of a kind of attention. */
export function symbolNames({ state: { kind, source }, shown: [{ symbols }] }: Pick<WordScene, "state" | "shown">): PointNames {
  const ofSource = (k: number): string => `source symbol ${k + 1}, ${quoted(source[k])}`;
  const ofOutput = (k: number): string => `output symbol ${k + 1}, ${quoted(symbols[k] ?? "")}`;
  // The decoder reads the symbol before the one that it writes.
  const ofInput = (k: number): string => (k === 0 ? "the begin" : ofOutput(k - 1));
  return { row: kind === "encoder_self" ? ofSource : ofOutput, column: kind === "decoder_self" ? ofInput : ofSource };
}

/** Return the known links of an output, up to its first symbol that differs from the true one. */
function linksOf({ links, truth }: WordScene, { answer: { symbols } }: ShownWords): Link[] {
  const wrong = symbols.findIndex((symbol, t) => symbol !== truth?.symbols[t]);
  return wrong < 0 ? links : links.filter(({ row }) => row < wrong);
}

/** Return what the heatmap of one model shows. */
export function wordMatrix(scene: WordScene, shown: ShownWords): MatrixView {
  const { state, canForce } = scene;
  const { kind, source } = state;
  const rows = weightsOf(shown.answer, kind, state.layer, state.head);
  const isCross = kind === "cross";
  const [ofSource, ofOutput] = [source.map(visible), shown.symbols.map(visible)];
  return {
    rows, scale: scaleOf(scene, shown), names: symbolNames({ state, shown: [shown] }), isNumbered: false,
    rowLabels: kind === "encoder_self" ? ofSource : ofOutput,
    columnLabels: kind === "decoder_self" ? ["begin", ...ofOutput].slice(0, rows.length) : ofSource,
    down: kind === "encoder_self" ? "source" : "output", across: kind === "decoder_self" ? "symbols written before" : "source",
    chosen: Math.min(state.step, rows.length - 1), canForce: canForce && isCross, isForced: (row) => isForced(scene, row),
    links: isCross ? linksOf(scene, shown) : [],
  };
}

function attended(row: readonly number[], names: PointNames): string {
  return row.map((weight, k): [number, number] => [weight, k]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, MAX_ATTENDED)
    .map(([weight, k]) => `${names.column(k)}, with ${withMinus(weight.toFixed(3))}`).join("; ");
}

/** Say where the chosen step attends. */
function describeAttention(scene: WordScene): string {
  const { state, shown: [first] } = scene;
  const names = symbolNames(scene);
  const row = weightsOf(first.answer, state.kind, state.layer, state.head)[state.step] as number[] | undefined;
  const name = capitalize(names.row(state.step));
  if (!row) return `${name}.`;
  if (first.meaning === "distribution" && isKnockedOut(row)) return `${name}: its weights are knocked out, so all are 0 and do not add up to 1.`;
  if (isForced(scene, state.step)) return `${name}: you changed its weights, so they are not the model's own. It reads ${attended(row, names)}.`;
  return `${name}, reads ${attended(row, names)}.${describeLink(scene, row)}`;
}

/** Say so if the largest weight of the chosen step lies beside the known links: the best example of what weights are not. */
function describeLink(scene: WordScene, row: readonly number[]): string {
  const { state: { kind, step, source }, readsAll, shown: [first] } = scene;
  const { meaning } = first;
  const linked = linksOf(scene, first).filter((link) => link.row === step).map(({ column }) => column).sort((a, b) => a - b);
  const most = row.indexOf(Math.max(...row));
  if (kind !== "cross" || meaning === "strength" || !linked.length || linked.includes(most)) return "";
  const numbers = linked.map((column) => column + 1);
  const isRange = linked.length > 2 && linked[linked.length - 1] - linked[0] + 1 === linked.length;
  const wanted = linked.length === 1 ? `source symbol ${numbers[0]}, ${quoted(source[linked[0]])}` : `source symbols ${isRange ? `${numbers[0]} to ${numbers[numbers.length - 1]}` : numbers.join(", ")}`;
  const isCarried = readsAll || linked.some((column) => column < most);
  const reason = readsAll ? "the encoder reads the whole source" : "the encoder carries along what it has read";
  return ` The known link is to ${wanted}.${isCarried ? ` The state that is read most can carry it too, because ${reason}.` : ""}`;
}

/** Return whether the reader chose a symbol: the model would have written another one, with the same symbols before it or left alone. */
export function isChosen({ answer: { symbols, logits }, own }: Pick<ShownWords, "answer" | "own">, step: number): boolean {
  const [best] = largest(logProbabilities(logits[step]), 1);
  return symbols[step] !== best && symbols[step] !== own.symbols[step];
}

/** Say how sure the model is of the symbol of the chosen step. */
function describeSymbol({ state: { kind, step, given }, shown: [first] }: WordScene): string {
  const { answer, symbols } = first;
  if (kind === "encoder_self" || step >= symbols.length) return "";
  const probability = probabilities(answer.logits[step])[answer.symbols[step]];
  const chosen = step < given.length && isChosen(first, step) ? " You chose this symbol." : "";
  return `${chosen} The model gives it the probability ${probability < 0.0005 ? "< 0.001" : probability.toFixed(3)}.`;
}

/** Compare the outputs with the truth, and with those that the models write on their own. */
function describeOutput({ shown, truth }: WordScene): string {
  return shown.map(({ name, text, ownText }) => {
    const label = shown.length > 1 ? `${name}: ` : "";
    const change = text === ownText ? "" : ` Left alone, the model writes \u201c${ownText}\u201d.`;
    const verdict = truth === null ? "" : text === truth.text ? " This is right." : ` The true output is \u201c${truth.text}\u201d.`;
    return `${label}Output: \u201c${text}\u201d.${verdict}${change}`;
  }).join(" ");
}

/** Describe the chosen step of the first model, and the outputs. */
export function describeWords(scene: WordScene): string {
  const { state: { source }, isKnown, trainedLength } = scene;
  const unknown = source.filter((_, k) => !isKnown[k]).map(quoted);
  const strange = unknown.length ? ` Not in the vocabulary: ${[...new Set(unknown)].join(", ")}; the model reads an unknown symbol there.${scene.hint}` : "";
  const mostly = 3 * unknown.length > source.length ? " These are more than a third of the source, and the training says nothing about the output for such a source." : "";
  const longer = source.length > trainedLength ? ` The source has ${source.length} symbols, more than every training source: the longest has ${trainedLength}.` : "";
  return `${describeAttention(scene)}${describeSymbol(scene)} ${describeOutput(scene)}${strange}${mostly}${longer}`;
}
