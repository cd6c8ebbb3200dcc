// Scaling from the units of the data to those of the model, and back; and the linear skip (seqattn/analysis/explanation/skip.py).
import type { LiveModelContent } from "../content";
import type { Origin, Ref, Vector } from "./record";
import { affine, columnNumbers, factor, formatCell, MAX_PRINTED_SIDE, printedRow, printedRows, rowOf } from "./record";
import type { AttentionStep } from "./step";
import { addWeights, affineOrigin } from "./step";

/** Significant digits of numbers in units of the data. */
export const DIGITS = 8;
/** The largest relative range of float64 values that may be rounding of equal values; see seqattn/data/instance.py. */
const ROUNDING = 4 * Number.EPSILON;

export interface SequenceScaling {
  /** Of each source feature, from the source itself: 0 and 1 without `relative` and `instance`. */
  shift: number[];
  scale: number[];
}

/** A source (S, F) and its forecast (T, G), in units of the data, and the model. */
export interface PointData {
  content: LiveModelContent;
  source: readonly (readonly number[])[];
  forecast: readonly (readonly number[])[];
}

type Content = Pick<LiveModelContent, "scaling" | "features" | "target_features">;

/** Return the shift and the scale of a source that come from itself, as `Scaling.sequence_scalers`. */
export function sequenceScaling(source: readonly (readonly number[])[], { scaling, features }: Content): SequenceScaling {
  const none = { shift: features.map(() => 0), scale: features.map(() => 1) };
  if (scaling.relative) return { ...none, shift: [...source[source.length - 1]] };
  if (!scaling.instance) return none;
  for (const [f] of features.entries()) {
    const values = source.map((row) => row[f]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const isConstant = high - low <= ROUNDING * Math.max(Math.abs(low), Math.abs(high));
    const spread = isConstant ? 1 : high - low;
    const unit = values.map((x) => (x - low) / spread);
    const mean = unit.reduce((a, b) => a + b, 0) / unit.length;
    const deviation = spread * Math.sqrt(unit.reduce((sum, x) => sum + (x - mean) ** 2, 0) / unit.length);
    none.shift[f] = low + spread * mean;
    if (!isConstant) none.scale[f] = deviation / scaling.source.scale[f];
  }
  return none;
}

/** Return a source (S, F) in scaled units. */
export function scaleSource(source: readonly (readonly number[])[], content: Content): number[][] {
  const { shift, scale } = sequenceScaling(source, content);
  const { shift: fittedShift, scale: fittedScale } = content.scaling.source;
  return source.map((row) => row.map((x, f) => ((x - shift[f]) / scale[f] - fittedShift[f]) / fittedScale[f]));
}

export function isScaled({ scaling }: Content): boolean {
  const isFitted = [scaling.source, scaling.target].some(({ shift, scale }) => shift.some((x) => x !== 0) || scale.some((x) => x !== 1));
  return isFitted || scaling.relative || scaling.instance;
}

/** The names of shift and scale that come from the source itself; null for those that do not exist. */
function sequenceNames({ scaling }: Content): { shift: string | null; scale: string | null } {
  if (scaling.relative) return { shift: "last source value", scale: null };
  return scaling.instance ? { shift: "mean of the source", scale: "scale of the source" } : { shift: null, scale: null };
}

const text = (x: number): string => formatCell(x, DIGITS);
const term = (x: number): string => (x < 0 ? `(${text(x)})` : text(x));

/** Add the source points, in scaled units, and before them those in units of the data. */
export function addSource(step: AttentionStep, { content, source }: PointData): void {
  const { record } = step;
  const { features } = content;
  const scaled = scaleSource(source, content);
  if (!isScaled(content)) {
    record.add("Source points", "", scaled, { columns: features });
    return;
  }
  const points = record.add("Source, in units of the data", "", source, { columns: features, digits: DIGITS });
  const names = sequenceNames(content);
  const own = sequenceScaling(source, content);
  const { shift, scale } = content.scaling.source;
  const columns = [...(names.shift ? [names.shift] : []), ...(names.scale ? [names.scale] : []), "shift", "scale"];
  const rows = features.map((_, f) => [...(names.shift ? [own.shift[f]] : []), ...(names.scale ? [own.scale[f]] : []), shift[f], scale[f]]);
  const table = record.add("Scaling of the source", "", rows, { rows: features, columns, digits: DIGITS });
  const inner = names.scale ? `(value - ${names.shift}) / ${names.scale}` : names.shift ? `value - ${names.shift}` : "value";
  record.add("Source points", `scaled = (${inner} - shift) / scale`, scaled, {
    columns: features,
    origin: (row, f) => {
      const used = rowOf(table, f);
      const [first, second] = used.values;
      const value = text(points.values[row][f]);
      const middle = names.scale ? `(${value} \u2212 ${term(first)}) / ${text(second)}` : names.shift ? `${value} \u2212 ${term(first)}` : value;
      const cells = [points.ref(row, f), ...used.values.map((_, k) => used.ref(k))];
      return { expression: `(${middle} \u2212 ${term(shift[f])}) / ${text(scale[f])}`, cells };
    },
  });
}

/** Add the forecast (G,) in units of the data, from the output (G,) of the model. */
export function addForecast(step: AttentionStep, { content, source, forecast }: PointData, output: Vector): void {
  const { step: t } = step.input;
  const { target_features: features, features: sourceFeatures, scaling } = content;
  const own = forecast[t];
  const add = (formula: string, columns: string[], numbers: number[][], origin: (row: number, column: number) => Origin | null): void => {
    const last = columns.length - 1;
    step.record.add("Forecast, in units of the data", formula, numbers, {
      rows: features, columns, origin, ...(isScaled(content) ? { digits: DIGITS } : {}),
      own: own.map((x) => columns.map((_, column) => (column === last ? x : NaN))), ownAs: "column",
    });
  };
  const copied = (row: number): Origin => ({ expression: "the output of the model", cells: [output.ref(row)] });
  if (!isScaled(content)) {
    add("the output itself, since the data are not scaled", ["forecast"], output.values.map((x) => [x]), copied);
    return;
  }
  const names = sequenceNames(content);
  const ofSource = sequenceScaling(source, content);
  const index = features.map((name) => sourceFeatures.indexOf(name));
  const shifts = index.map((f) => (f < 0 ? 0 : ofSource.shift[f]));
  const scales = index.map((f) => (f < 0 ? 1 : ofSource.scale[f]));
  const { shift, scale } = scaling.target;
  const columns = ["y", "scale", "shift", ...(names.scale ? [names.scale] : []), ...(names.shift ? [names.shift] : []), "forecast"];
  const numbers = output.values.map((y, g) => [
    y, scale[g], shift[g], ...(names.scale ? [scales[g]] : []), ...(names.shift ? [shifts[g]] : []), (y * scale[g] + shift[g]) * scales[g] + shifts[g],
  ]);
  const formula = names.scale ? `forecast = (y scale + shift) (${names.scale}) + ${names.shift}` : `forecast = y scale + shift${names.shift ? ` + ${names.shift}` : ""}`;
  const stage = step.record.next;
  add(formula, columns, numbers, (row, column) => {
    if (column === 0) return copied(row);
    if (column < columns.length - 1) return null;
    const [y, a, b, ...others] = numbers[row].slice(0, -1).map(term);
    const scaled = `${y} \u00d7 ${a} + ${b}`;
    const expression = names.scale ? `(${scaled}) \u00d7 ${others[0]} + ${others[1]}` : [scaled, ...others].join(" + ");
    const cells: Ref[] = columns.slice(0, -1).map((_, k) => ({ stage, row, column: k }));
    return { expression, cells };
  });
}

/** Add the shares of network and linear skip, and return their sum (G,). `network` is null if the shown layers do not determine it. */
export function addSkip(step: AttentionStep, { content, source }: PointData, network: Vector | null): Vector {
  const { record, input: { step: t } } = step;
  const columns = content.target_features;
  const scaled = scaleSource(source, content);
  const share = network ?? record.addRow("Network's share", "from the layers that follow", "network", step.trace("output")[t], { columns, isByModel: true });
  const weight = (step.parameter("skip.weight") as number[][][][])[t].map((rows) => rows.flat());
  const bias = (step.parameter("skip.bias") as number[][])[t];
  const formula = `W x + b of this step; x = all ${source.length} source points, one after the other`;
  const linear = addSkipShare();
  const table = [share.values, linear.values, share.values.map((x, k) => x + linear.values[k])];
  const stage = record.next;
  const parts = record.add("Parts of the forecast", "forecast = network + skip", table, {
    rows: ["network", "skip", "forecast"], columns,
    origin: (row, column) => {
      if (row < 2) return { expression: row === 0 ? "the network\u2019s share" : "the skip\u2019s share", cells: [(row === 0 ? share : linear).ref(column)] };
      return { expression: `${factor(share.values[column])} + ${factor(linear.values[column])}`, cells: [0, 1].map((r) => ({ stage, row: r, column })) };
    },
  });
  return rowOf(parts, 2);

  function addSkipShare(): Vector {
    if (Math.max(weight.length, weight[0].length) > MAX_PRINTED_SIDE) {
      return record.addRow("Skip's share", `${formula}; the matrix is too large to print; it is in the checkpoint file of the run`, "skip", affine(weight, bias, scaled.flat()), { columns, isByModel: true });
    }
    const [W, b] = [printedRows(weight), printedRow(bias)];
    const x = record.addRow("Source points in one row", "", "x", scaled.flat(), { columns: columnNumbers(scaled.flat().length) });
    const map = addWeights(record, "Skip: the map", W, b, columns);
    return record.addRow("Skip's share", formula, "skip", affine(W, b, x.values), { columns, origin: (_, column) => affineOrigin(map, true, column, x) });
  }
}
