// The state of the explorer: the arrays of the test sequences, and the chosen sequence, weights and step.
import type { AttentionKind, Examples, FinishedRun, Unpacked, WeightMeaning } from "../content";
import { matrix, unpack } from "../content";

export const KIND_NAMES: Record<AttentionKind, string> = {
  cross: "decoder to source (cross-attention)", encoder_self: "encoder self-attention", decoder_self: "decoder self-attention",
};

/** The maximum number of features in the path over the steps, and in the sentence below the path. */
export const MAX_ROWS = 4;

export class View {
  example = 0;
  kind: AttentionKind | undefined;
  layer = 0;
  head = 0;
  step = 0;
  /** Whether the colours end at the largest weight of the heatmap, not at 1. */
  endAtLargest = false;

  private constructor(
    readonly examples: Examples,
    readonly source: Unpacked,
    readonly target: Unpacked,
    readonly forecast: Unpacked,
    readonly maps: Partial<Record<AttentionKind, Unpacked>>,
    readonly meaning: WeightMeaning,
    private readonly alignment: number[][] | null,
    private readonly stepTimes: [source: Unpacked, target: Unpacked] | null,
  ) {
    this.kind = this.kinds[0];
  }

  static async of({ examples, maps, meaning, alignment }: FinishedRun): Promise<View> {
    const unpacked: Partial<Record<AttentionKind, Unpacked>> = {};
    for (const [kind, packed] of Object.entries(maps)) unpacked[kind as AttentionKind] = await unpack(packed);
    const [source, target, forecast] = await Promise.all([examples.source, examples.target, examples.forecast].map(unpack));
    const times: [Unpacked, Unpacked] | null = examples.times && [await unpack(examples.times.source), await unpack(examples.times.target)];
    return new View(examples, source, target, forecast, unpacked, meaning, alignment, times);
  }

  get kinds(): AttentionKind[] {
    return Object.keys(this.maps) as AttentionKind[];
  }

  /** The weights of the chosen kind of attention; undefined for a model without attention. */
  get map(): Unpacked | undefined {
    return this.kind && this.maps[this.kind];
  }

  /** The source length S and the target length T of the chosen sequence. */
  get lengths(): [S: number, T: number] {
    return [this.examples.source_lengths[this.example], this.examples.target_lengths[this.example]];
  }

  /** The number of query steps and of attended points. */
  get size(): [rows: number, columns: number] {
    const [S, T] = this.lengths;
    if (this.kind === "encoder_self") return [S, S];
    return this.kind === "decoder_self" ? [T, T] : [T, S];
  }

  /** The weights of the chosen step; empty for a model without attention. */
  get weights(): number[] {
    const { map, size: [, columns] } = this;
    if (!map) return [];
    return Array.from({ length: columns }, (_, c) => map.at(this.example, this.layer, this.head, this.step, c));
  }

  /** The rows of weights of the chosen sequence, layer and head. */
  get rows(): (number | null)[][] {
    return this.map ? matrix(this.map, ...this.size, this.example, this.layer, this.head) : [];
  }

  /** The end of the colour scale: 1, or the largest weight of the heatmap. */
  get largest(): number {
    return this.endAtLargest ? Math.max(1e-6, ...this.rows.flat().filter((weight) => weight !== null)) : 1;
  }

  /** The true source step of each target step, where the task has one. */
  get trueSteps(): number[] {
    return this.kind === "cross" && this.alignment ? this.alignment[this.example].slice(0, this.size[0]) : [];
  }

  /** The horizontal places of the source and target steps: dates as ISO text, numbers, or the steps counted from 1. */
  get places(): [source: (number | string)[], target: (number | string)[]] {
    const [S, T] = this.lengths;
    const { stepTimes, examples: { times } } = this;
    const counted = (first: number, count: number): number[] => Array.from({ length: count }, (_, k) => first + k + 1);
    if (!stepTimes || !times) return [counted(0, S), counted(S, T)];
    const text = (time: number): number | string => (times.is_date ? new Date(time).toISOString() : time);
    const [source, target] = stepTimes.map((array, side) => this.points(array, [S, T][side]));
    return [source.map(text), target.map(text)];
  }

  /** Return the first values of an array (N, L, F) or (N, L) for the chosen sequence. */
  points(array: Unpacked, count: number, ...feature: number[]): number[] {
    return Array.from({ length: count }, (_, k) => array.at(this.example, k, ...feature));
  }

  /** Return the unit of a feature with a space before it, or "". */
  unitOf(feature: string): string {
    return Object.hasOwn(this.examples.units, feature) ? ` ${this.examples.units[feature]}` : "";
  }

  /** Return the name of a feature with its unit. */
  nameOf(feature: string): string {
    return Object.hasOwn(this.examples.units, feature) ? this.examples.named[feature] : feature;
  }

  /** Return the range of a feature in the target and forecast of the sequence, or else in the source. */
  spread(feature: string): number {
    const [S, T] = this.lengths;
    const targetIndex = this.examples.target_features.indexOf(feature);
    const values = targetIndex < 0
      ? this.points(this.source, S, this.examples.features.indexOf(feature))
      : [...this.points(this.target, T, targetIndex).filter(Number.isFinite), ...this.points(this.forecast, T, targetIndex)];
    return Math.max(...values) - Math.min(...values);
  }
}
