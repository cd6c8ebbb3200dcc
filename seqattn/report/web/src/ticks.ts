// Ticks of the axes, as values of plotly's axis objects.
import { decimalExponent } from "./format";

export interface Ticks {
  tickformat: string;
  dtick?: number | string;
}

/** Return the ticks of a log axis: 1, 2 and 5 of each power of ten, or equal steps in a small range. */
export function logTicks(log: boolean, values: readonly (number | null | undefined)[]): Ticks {
  if (!log) return { tickformat: "~g" };
  const real = values.filter((x): x is number => typeof x === "number" && x > 0);
  const [low, high] = [Math.min(...real), Math.max(...real)];
  if (real.length < 2 || low === high || high > 5 * low) return { dtick: "D2", tickformat: "~g" };
  const rough = (high - low) / 3;
  const power = 10 ** decimalExponent(rough);
  const step = power * [5, 2, 1].find((digit) => digit * power <= rough * 1.0001)!;
  return { dtick: `L${step}`, tickformat: "~g" };
}

/** Return integer ticks for epochs or steps. */
export function integerTicks(count: number): Ticks {
  return { tickformat: "d", ...(count <= 12 ? { dtick: 1 } : {}) };
}
