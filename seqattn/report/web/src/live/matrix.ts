// What a heatmap of weights shows, for sequences of points and of symbols alike.
import type { WeightMeaning } from "../content";
import type { PointNames } from "./scene";
import { weightColour } from "./svg";

/** Which colour a weight has. */
export interface WeightScale {
  low: number;
  high: number;
  /** What the colour bar says. */
  title: string;
  colour: (weight: number) => [number, number, number];
}

/** A known link between a target step and a source step. */
export interface Link {
  row: number;
  column: number;
  /** Whether the link is only possible. */
  isPossible: boolean;
}

export interface MatrixView {
  /** [step][attended step]. */
  rows: readonly (readonly number[])[];
  scale: WeightScale;
  /** Full names, for tooltips and screen readers. */
  names: PointNames;
  rowLabels: readonly string[];
  columnLabels: readonly string[];
  /** Whether labels are numbers, of which some may be left out. */
  isNumbered: boolean;
  /** The names of the axes. */
  down: string;
  across: string;
  /** The chosen row. */
  chosen: number;
  /** Whether a click on a cell forces its row. */
  canForce: boolean;
  /** Which rows are forced. */
  isForced: (row: number) => boolean;
  links: readonly Link[];
}

/** Return the scale of the colours of weights.
 *
 * The scale ends at 1, or at the largest weight if the reader wants that. Read strengths have no limit, so their scale
 * always ends at the largest one, on both sides of 0.
 */
export function weightScale(rows: readonly (readonly number[])[], meaning: WeightMeaning, isRelative: boolean): WeightScale {
  const largest = Math.max(1e-6, ...rows.map((row) => Math.max(...row.map(Math.abs))));
  if (meaning === "strength") return { low: -largest, high: largest, title: "read strength", colour: (weight) => weightColour(weight, largest, true) };
  const high = isRelative ? largest : 1;
  const title = isRelative ? "weight, relative to the largest" : "weight";
  return { low: 0, high, title, colour: (weight) => weightColour(weight, high, false) };
}
