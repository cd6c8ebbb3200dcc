// Forced weights: rows that replace the model's own weights in one decoder step, layer and head.

/** A row of forced weights. Steps count from 1, as in `seqattn explain --step`; layers and heads from 0. */
export interface ForcedRow {
  step: number;
  /** Absent: all layers. */
  layer?: number;
  /** Absent: all heads. */
  head?: number;
  weights: number[];
}

/** A nested array whose levels may be null, which stands for the model's own weights. */
export type Nested = (Nested | number | null)[] | null;

/** What `run` accepts as `force`: nested arrays, or rows as in the file of `predict --attention-override`. */
export type Force = Nested | { rows: ForcedRow[] } | null | undefined;

export interface ForceShape {
  steps: number;
  layers: number;
  heads: number;
  source: number;
}

/** Return whether a nested array has no number. */
const isEmpty = (array: Nested | number): boolean => (Array.isArray(array) ? array.every(isEmpty) : array === null);

/** Return the number of nested levels of an array, from its first entries that are not null. */
function depth(array: Nested | number): number {
  if (!Array.isArray(array)) return 0;
  return 1 + Math.max(0, ...array.filter((entry) => entry !== null).map(depth));
}

export const isIndex = (value: unknown, count: number): boolean => typeof value === "number" && Number.isInteger(value) && value >= 0 && value < count;

/** Check that the model has the step, layer and head of a row. */
function checkPlace({ step, layer, head }: ForcedRow, { steps, layers, heads }: ForceShape): void {
  if (!isIndex(step - 1, steps)) throw new Error(`force, step ${step}: the forecast has ${steps} steps.`);
  if (layer !== undefined && !isIndex(layer, layers)) throw new Error(`force, step ${step}, layer ${layer}: the model has ${layers}, counted from 0.`);
  if (head !== undefined && !isIndex(head, heads)) throw new Error(`force, step ${step}, head ${head}: the model has ${heads}, counted from 0.`);
}

function checkRow(row: readonly unknown[], source: number, place: string): number[] {
  if (row.length !== source) throw new Error(`${place}: has ${row.length} weights; the source has ${source} points.`);
  return row.map((weight) => {
    if (typeof weight !== "number" || !Number.isFinite(weight)) throw new Error(`${place}: every weight must be a number.`);
    return weight;
  });
}

function* rowsOfNested(force: Nested, shape: ForceShape): Generator<ForcedRow> {
  if (isEmpty(force)) return;
  const levels = depth(force);
  let nested = force;
  if (levels === 2) {
    if (shape.layers !== 1 || shape.heads !== 1) throw new Error(`force: the model has ${shape.layers} layers and ${shape.heads} heads, so it must be [layer][head][step][source].`);
    nested = [[force]];
  } else if (levels !== 4) throw new Error("force: must be [layer][head][step][source], or [step][source] for one layer and head.");
  for (const [layer, heads] of (nested as Nested[]).entries()) {
    for (const [head, steps] of ((heads ?? []) as Nested[]).entries()) {
      for (const [step, weights] of ((steps ?? []) as Nested[]).entries()) {
        if (weights === null || weights.every((weight) => weight === null)) continue;
        yield { step: step + 1, layer, head, weights: weights as number[] };
      }
    }
  }
}

/** Return whether `force` has the form of the file of `predict --attention-override forced:FILE`. */
const isRows = (force: Force): force is { rows: ForcedRow[] } => typeof force === "object" && force !== null && "rows" in force;

/** Return the input `force` (T, 1, layers, A, S) of the live graph; NaN is the model's own weight.
 *
 * @throws Error - if a row has another length than the source, or belongs to no step, layer or head of the model, or if a place has two rows.
 */
export function packForce(force: Force, shape: ForceShape): Float32Array<ArrayBuffer> {
  const { steps, layers, heads, source } = shape;
  const packed = new Float32Array(steps * layers * heads * source).fill(NaN);
  if (force === null || force === undefined) return packed;
  for (const row of isRows(force) ? force.rows : rowsOfNested(force, shape)) {
    const { step, layer, head } = row;
    checkPlace(row, shape);
    const weights = checkRow(row.weights, source, `force, step ${step}`);
    for (let l = layer ?? 0; l <= (layer ?? layers - 1); l += 1) {
      for (let h = head ?? 0; h <= (head ?? heads - 1); h += 1) {
        const first = (((step - 1) * layers + l) * heads + h) * source;
        if (!Number.isNaN(packed[first])) throw new Error(`force, step ${step}, layer ${l}, head ${h}: has two rows.`);
        packed.set(weights, first);
      }
    }
  }
  return packed;
}
