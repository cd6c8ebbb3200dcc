// Changes of a row of weights.
import type { ForcedRow } from "./force";

/** Return equal weights. */
export const uniformRow = (count: number): number[] => new Array<number>(count).fill(1 / count);

/** Return all weight on one source step. */
export const oneHotRow = (count: number, index: number): number[] => Array.from({ length: count }, (_, k) => (k === index ? 1 : 0));

/** Return a row with another weight at one place. The other weights keep their proportions, and the sum stays 1. */
export function setWeight(row: readonly number[], index: number, weight: number): number[] {
  const chosen = Math.min(1, Math.max(0, weight));
  const others = row.reduce((sum, each, k) => (k === index ? sum : sum + Math.max(0, each)), 0);
  return row.map((each, k) => {
    if (k === index) return row.length === 1 ? 1 : chosen;
    return others > 0 ? (Math.max(0, each) / others) * (1 - chosen) : (1 - chosen) / (row.length - 1);
  });
}

/** Return a row in a random order. */
export function shuffleRow(row: readonly number[], random: () => number = Math.random): number[] {
  const shuffled = [...row];
  for (let k = shuffled.length - 1; k > 0; k -= 1) {
    const other = Math.floor(random() * (k + 1));
    [shuffled[k], shuffled[other]] = [shuffled[other], shuffled[k]];
  }
  return shuffled;
}

/** The forced rows of the explorer, one per step, layer and head. */
export class ForcedRows {
  private readonly rows = new Map<string, Required<ForcedRow>>();

  static key = (step: number, layer: number, head: number): string => `${step}/${layer}/${head}`;

  get(step: number, layer: number, head: number): number[] | undefined {
    return this.rows.get(ForcedRows.key(step, layer, head))?.weights;
  }

  set(step: number, layer: number, head: number, weights: number[]): void {
    this.rows.set(ForcedRows.key(step, layer, head), { step, layer, head, weights });
  }

  delete(step: number, layer: number, head: number): void {
    this.rows.delete(ForcedRows.key(step, layer, head));
  }

  /** Return a copy. */
  copy(): ForcedRows {
    const copy = new ForcedRows();
    for (const { step, layer, head, weights } of this.rows.values()) copy.set(step, layer, head, weights);
    return copy;
  }

  clear(): void {
    this.rows.clear();
  }

  get size(): number {
    return this.rows.size;
  }

  get list(): Required<ForcedRow>[] {
    return [...this.rows.values()].sort((a, b) => a.step - b.step || a.layer - b.layer || a.head - b.head);
  }
}
