// What the pictures of the live explorer show at one moment.
import type { AttentionKind, WeightMeaning } from "../content";
import { largestChange } from "./loss";
import type { MatrixView, WeightScale } from "./matrix";
import { weightScale } from "./matrix";
import type { Answer, Attended } from "./model";
import type { ExplorerState, ViewState } from "./state";

/** The attention of one model, and its name and colour on the page. */
export interface ShownAttention<Answered extends Attended> {
  name: string;
  colour: string;
  answer: Answered;
  /** The model's answer without forced weights; equal to `answer` if none are forced. */
  own: Answered;
  /** What the weights of this model mean. */
  meaning: WeightMeaning;
}

/** The answer of one model of points. */
export interface Shown extends ShownAttention<Answer> {
  /** The divisor of each target feature in the loss of this model. */
  scale: readonly number[];
}

/** What the pictures of an explorer show, for points and symbols alike. */
export interface BaseScene<State extends ViewState = ViewState> {
  /** The state that was answered. */
  state: State;
  /** One to four models; the first is the one whose weights and arithmetic are shown. */
  shown: ShownAttention<Attended>[];
  /** Whether the first answer has the intermediate results of the arithmetic. */
  hasTrace: boolean;
  canForce: boolean;
}

export interface Scene extends BaseScene<ExplorerState> {
  /** The state of the explorer, which may have changed since. */
  current: ExplorerState;
  shown: Shown[];
  features: string[];
  targetFeatures: string[];
  /** The unit of each feature that has one. */
  units: Partial<Record<string, string>>;
  /** Feature -> name with its unit. */
  axisNames: Record<string, string>;
  /** Whether the path is drawn in the plane of two features. */
  plane: boolean;
  /** The true source step of each target step; -1 where there is none; empty if unknown. */
  alignment: number[];
  /** The names of the times of the steps; empty if they are unknown, or if points were added or removed. */
  times: string[];
  /** The length of the longest training source: that of the shown model with the shortest one. */
  trainedLength: number;
}

/** Return the weights [step][attended point] of a kind, layer and head; empty if the answer has none. */
export function weightsOf(answer: Attended, kind: AttentionKind, layer: number, head: number): number[][] {
  return answer.maps[kind]?.[layer]?.[head] ?? [];
}

/** The names of the rows and columns of weights. */
export interface PointNames {
  row: (step: number) => string;
  column: (attended: number) => string;
}

/** Return how a kind of attention names its points: those of the source come first, those of the forecast continue the count. */
export function pointNames({ kind, source }: Pick<ExplorerState, "kind" | "source">): PointNames {
  const ofSource = (k: number): string => `source point ${k + 1}`;
  const ofForecast = (k: number): string => `forecast point ${source.length + k + 1}`;
  return { row: kind === "encoder_self" ? ofSource : ofForecast, column: kind === "decoder_self" ? ofForecast : ofSource };
}

/** Return whether all weights of a row are 0, as those of a head that is knocked out. */
export const isKnockedOut = (row: readonly number[]): boolean => row.length > 0 && row.every((weight) => weight === 0);

/** Return whether the reader forced the weights of a step in the shown layer and head of the first model. */
export const isForced = ({ state: { kind, force, layer, head }, canForce }: Pick<BaseScene, "state" | "canForce">, step: number): boolean =>
  canForce && kind === "cross" && force.get(step + 1, layer, head) !== undefined;

/** Return the scale of the colours of one model's weights, which all pictures share. */
export function scaleOf({ state: { kind, layer, head, isRelative } }: Pick<BaseScene, "state">, { answer, meaning }: Pick<ShownAttention<Attended>, "answer" | "meaning">): WeightScale {
  return weightScale(weightsOf(answer, kind, layer, head), meaning, isRelative);
}

/** Return what the heatmap of one model shows. */
export function matrixOf(scene: Scene, shown: Shown): MatrixView {
  const { state, alignment, canForce } = scene;
  const { kind, source: { length: S } } = state;
  const rows = weightsOf(shown.answer, kind, state.layer, state.head);
  const isCross = kind === "cross";
  const isOfSource = kind === "encoder_self";
  const numbers = (count: number, first: number): string[] => Array.from({ length: count }, (_, k) => String(first + k));
  return {
    rows, scale: scaleOf(scene, shown), names: pointNames(state), isNumbered: true,
    rowLabels: numbers(rows.length, isOfSource ? 1 : S + 1), columnLabels: numbers(rows[0]?.length ?? 0, kind === "decoder_self" ? S + 1 : 1),
    down: isOfSource ? "source point" : "forecast point",
    across: kind === "decoder_self" ? "attended forecast point" : "attended source point",
    chosen: Math.min(state.step, rows.length - 1), canForce: canForce && isCross, isForced: (row) => isForced(scene, row),
    links: isCross ? alignment.flatMap((column, row) => (column < 0 ? [] : [{ row, column, isPossible: false }])) : [],
  };
}

/** Return whether the errors of the shown models have different units, so that they cannot be compared. */
export function hasOwnScales(shown: readonly Pick<Shown, "scale">[]): boolean {
  return shown.some(({ scale }) => scale.some((each, g) => each !== shown[0].scale[g]));
}

/** Return the largest change of a forecast as a share of the range of its feature in the source, the truth and the forecasts. */
export function shareOfRange({ state: { source, truth }, features, targetFeatures }: Scene, one: readonly number[][], other: readonly number[][]): number {
  const shares = targetFeatures.map((name, g) => {
    const change = largestChange(one.map((row) => [row[g]]), other.map((row) => [row[g]]));
    const f = features.indexOf(name);
    const values = [...(f < 0 ? [] : source.map((row) => row[f])), ...[...(truth ?? []), ...one, ...other].map((row) => row[g])].filter(Number.isFinite);
    return change === 0 ? 0 : change / (Math.max(...values) - Math.min(...values));
  });
  return Math.max(0, ...shares);
}
