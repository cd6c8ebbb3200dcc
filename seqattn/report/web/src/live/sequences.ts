// The test sequences that the live explorer starts from.
import type { Examples, Unpacked } from "../content";
import { unpack } from "../content";
import { sequenceNames, timeNames } from "../format";
import type { LiveModelContent } from "./content";

export class Sequences {
  readonly names: string[];

  private constructor(
    readonly examples: Examples,
    private readonly sources: Unpacked,
    private readonly targets: Unpacked,
    private readonly alignments: number[][] | null,
    private readonly stepTimes: [source: Unpacked, target: Unpacked] | null,
  ) {
    this.names = sequenceNames(examples.ids, examples.labels);
  }

  static async load(examples: Examples, alignment: number[][] | null): Promise<Sequences> {
    const times: [Unpacked, Unpacked] | null = examples.times && [await unpack(examples.times.source), await unpack(examples.times.target)];
    return new Sequences(examples, await unpack(examples.source), await unpack(examples.target), alignment, times);
  }

  get count(): number {
    return this.names.length;
  }

  /** Return the source (S, F) of a sequence. */
  source(index: number): number[][] {
    return points(this.sources, index, this.examples.source_lengths[index], this.examples.features.length);
  }

  /** Return the true target (T, G) of a sequence; NaN where it was not observed. */
  target(index: number): number[][] {
    return points(this.targets, index, this.examples.target_lengths[index], this.examples.target_features.length);
  }

  /** Return the names of the times of the source and target steps; empty if the times are unknown. */
  times(index: number): string[] {
    const { stepTimes, examples: { times, source_lengths: S, target_lengths: T } } = this;
    if (!stepTimes || !times) return [];
    const [source, target] = stepTimes.map((array, side) => Array.from({ length: [S, T][side][index] }, (_, k) => array.at(index, k)));
    return timeNames([...source, ...target], times.is_date);
  }

  /** Return the true source step of each target step; -1 where there is none. */
  alignment(index: number): number[] {
    return this.alignments ? this.alignments[index].slice(0, this.examples.target_lengths[index]) : [];
  }
}

function points(array: Unpacked, index: number, count: number, features: number): number[][] {
  return Array.from({ length: count }, (_, k) => Array.from({ length: features }, (_unused, f) => array.at(index, k, f)));
}

/** Return a source of `count` points for a blank canvas: on a circle in the plane, else a level line. */
export function blankSource(model: LiveModelContent, plane: boolean, count: number): number[][] {
  const { shift, scale } = model.scaling.source;
  const at = (f: number, offset: number): number => shift[f % shift.length] + offset * scale[f % scale.length];
  return Array.from({ length: count }, (_, k) => {
    const angle = Math.PI * (0.75 - (2 * k) / count);
    if (plane) return [at(0, Math.cos(angle)), at(1, Math.sin(angle))];
    return model.features.map((_name, f) => at(f, 0));
  });
}
