// The axis of losses. A logarithmic axis cannot show 0, and with a reference far below the losses, it would leave too little space for the losses.
import { formatNumber } from "./format";
import type { Ticks } from "./ticks";
import { logTicks } from "./ticks";

export type Reference = [name: string, loss: number];

export interface LossAxis {
  /** The type of plotly's axis and its ticks. */
  axis: Ticks & { type: "log" | "linear" };
  /** The references to draw. */
  references: Reference[];
  /** Return whether the axis can show a loss. */
  shows: (loss: number) => boolean;
  /** Return the coordinate of a loss for annotations of plotly. */
  coordinate: (loss: number) => number;
  /** A sentence about the values that the axis omits; "" if the axis shows all values. */
  note: string;
}

/** A logarithmic axis omits a reference below this share of the smallest loss. */
const MIN_SHARE = 1e-6;

/** Return an axis for losses and references.
 *
 * @param wantsLog - Whether the axis is logarithmic if there are positive losses.
 * @param losses - The losses of points and curves, with null or NaN for missing losses.
 * @param references - The names and losses of horizontal lines.
 */
export function lossAxis(wantsLog: boolean, losses: readonly (number | null)[], references: readonly Reference[]): LossAxis {
  const found = losses.filter((loss): loss is number => Number.isFinite(loss));
  const positive = found.filter((loss) => loss > 0);
  const smallest = positive.length ? positive.reduce((a, b) => Math.min(a, b)) : 0;
  if (!wantsLog || !positive.length) {
    const note = wantsLog ? "No loss is above 0, so the scale is linear." : "";
    return { axis: { type: "linear", ...logTicks(false, []) }, references: [...references], shows: Number.isFinite, coordinate: (loss) => loss, note };
  }
  const shown = references.filter(([, loss]) => loss >= MIN_SHARE * smallest);
  const omitted = references.filter(([, loss]) => !(loss >= MIN_SHARE * smallest)).map(([name, loss]) => `${name} (${loss === 0 ? "0" : formatNumber(loss)})`);
  const zeros = found.length - positive.length;
  if (zeros) omitted.push(zeros === 1 ? "1 loss of 0" : `${zeros} losses of 0`);
  return {
    axis: { type: "log", ...logTicks(true, [...positive, ...shown.map(([, loss]) => loss)]) },
    references: shown,
    shows: (loss) => loss > 0,
    coordinate: Math.log10,
    note: omitted.length ? `The logarithmic scale has no place for 0 and for values far below the losses. It omits: ${omitted.join(", ")}.` : "",
  };
}
