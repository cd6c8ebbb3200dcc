// Location-based addressing, as the methods `explain` of seqattn/models/attention/location_based.py and monotonic.py.
import type { NormalizerInput } from "./normalizers";
import type { Origin, StageRecord, Ref, Vector } from "./record";
import { affine, dot, factor, formatCell, printed, printedRow, sumText } from "./record";
import type { AttentionStep } from "./step";

const CONTENT_WEIGHTS = "Content weights";
type Normalize = (record: StageRecord, input: NormalizerInput) => Vector;

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const modulo = (a: number, b: number): number => ((a % b) + b) % b;

/** Format D of a window as Python's :g does for the integers that it can be. */
const wholeText = (x: number): string => String(x);

/** Add content weights within a predicted window, times its Gaussian; returns the weights (S,). */
export function addLocalWindow(step: AttentionStep, normalize: Normalize, scores: Vector, window: number): Vector {
  const { record } = step;
  const S = scores.values.length;
  const hidden = affine(step.linear("attention.location.predict").weight, null, step.query).map(Math.tanh);
  const fraction = sigmoid(dot(step.linear("attention.location.combine").weight[step.input.head], hidden));
  const centerRow = record.addRow("Window center", "p = (S - 1) sigmoid(v . tanh(W h)), from the checkpoint", "p", [fraction * (S - 1)], { columns: ["p"], isByModel: true });
  const [center] = centerRow.values;
  const inside = scores.values.map((_, s) => Math.abs(s - center) <= window);
  const content = normalize(record, { name: CONTENT_WEIGHTS, scores, inside, own: undefined });
  const gaussian = printedRow(scores.values.map((_, s) => Math.exp(-2 * ((s - center) / window) ** 2)));
  const stage = record.next;
  const origin = (row: number, column: number): Origin => {
    if (column === 0) return { expression: "the content weight of this point", cells: [content.ref(row)] };
    if (column === 1) return { expression: `exp(\u2212(${row} \u2212 ${formatCell(center)})\u00b2 / (2 \u00d7 (${wholeText(window)} / 2)\u00b2))`, cells: [centerRow.ref(0)] };
    return { expression: `${formatCell(content.values[row])} \u00d7 ${formatCell(gaussian[row])}`, cells: [{ stage, row, column: 0 }, { stage, row, column: 1 }] };
  };
  const columns = { content: content.values, window: gaussian, weight: content.values.map((x, s) => x * gaussian[s]) };
  return record.addColumns("Weights", `times exp(-(s - p)^2 / (2 (D/2)^2)), D = ${wholeText(window)}, s from 0`, columns, { own: step.weights, origin });
}

/** Gate, sharpness and shift of one head, from h. */
function addControl(step: AttentionStep): Vector {
  const { weight, bias } = step.linear("attention.location.control");
  const [gate, sharpness, ...shift] = step.headSlice(affine(weight, bias, step.query));
  const largest = Math.max(...shift);
  const exponentials = shift.map((x) => Math.exp(x - largest));
  const sum = exponentials.reduce((a, b) => a + b, 0);
  const reach = Math.floor(shift.length / 2);
  const names = shift.map((_, k) => `s(${k - reach < 0 ? "" : "+"}${k - reach})`);
  const numbers = [sigmoid(gate), 1 + softplus(sharpness), ...exponentials.map((x) => x / sum)];
  return step.record.addRow("Gate, sharpness and shift", "from h, by the checkpoint", "value", numbers, { columns: ["g", "gamma", ...names], isByModel: true });
}

/** Add the previous weights, gated with the content weights, shifted and sharpened; returns the weights (S,). */
export function addLocationShift(step: AttentionStep, normalize: Normalize, scores: Vector): Vector {
  const { record } = step;
  const S = scores.values.length;
  const content = normalize(record, { name: CONTENT_WEIGHTS, scores, inside: scores.values.map(() => true), own: undefined });
  const control = addControl(step);
  const [g, gamma, ...s] = control.values;
  const reach = Math.floor(s.length / 2);
  const previous = printedRow(step.previousWeights ?? scores.values.map((_, k) => (k === S - 1 ? 1 : 0)));
  const gated = printedRow(content.values.map((x, k) => g * x + (1 - g) * previous[k]));
  const from = (row: number): number[] => s.map((_, k) => modulo(row - (k - reach), S));
  const shifted = printedRow(gated.map((_, row) => from(row).reduce((sum, place, k) => sum + s[k] * gated[place], 0)));
  const powers = shifted.map((x) => printed(x ** gamma));
  const total = powers.reduce((a, b) => a + b, 0);
  const stage = record.next;
  const at = (row: number, column: number): Ref => ({ stage, row, column });
  const origins: ((row: number) => Origin)[] = [
    (row) => ({ expression: step.previousWeights ? "the weight of this point in the step before" : row === S - 1 ? "1: before the first step all weight is on the last point" : "0: before the first step all weight is on the last point", cells: [] }),
    (row) => ({ expression: `${formatCell(g)} \u00d7 ${formatCell(content.values[row])} + (1 \u2212 ${formatCell(g)}) \u00d7 ${formatCell(previous[row])}`, cells: [control.ref(0), content.ref(row), at(row, 0)] }),
    (row) => ({ expression: sumText(from(row).map((place, k) => `${formatCell(gated[place])} \u00d7 ${formatCell(s[k])}`)), cells: from(row).flatMap((place, k) => [at(place, 1), control.ref(2 + k)]) }),
    (row) => ({ expression: `${formatCell(shifted[row])}^${factor(gamma)}`, cells: [at(row, 2), control.ref(1)] }),
    (row) => ({ expression: `${formatCell(powers[row])} / (${sumText(powers.map((x) => formatCell(x)))})`, cells: powers.map((_, k) => at(k, 3)) }),
  ];
  const formula = "gated = g content + (1 - g) previous; shifted(i) = sum of gated(i - j) s(j), circular; weight = shifted^gamma / sum of these";
  const columns = { previous, gated, shifted, "shifted^gamma": powers, weight: powers.map((x) => x / total) };
  return record.addColumns("Weights", formula, columns, { own: step.weights, origin: (row, column) => origins[column](row) });
}

/** Add the previous weights, each moved on to the first point whose probability exceeds 1/2; returns the weights (S,). */
export function addMonotonic(step: AttentionStep, scores: Vector): Vector {
  const { record } = step;
  const r = printed(step.vector("attention.location.offset.value")[step.input.head]);
  const previous = printedRow(step.previousWeights ?? scores.values.map((_, k) => (k === 0 ? 1 : 0)));
  const stops = scores.values.map((score) => score + r > 0);
  const p = scores.values.map((score) => sigmoid(score + r));
  /** The points whose previous weight moves on to a point. */
  const from = (row: number): number[] => {
    if (!stops[row]) return [];
    const first = stops.slice(0, row).lastIndexOf(true) + 1;
    return Array.from({ length: row + 1 - first }, (_, k) => first + k);
  };
  const weight = scores.values.map((_, row) => from(row).reduce((sum, k) => sum + previous[k], 0));
  const stage = record.next;
  const at = (row: number, column: number): Ref => ({ stage, row, column });
  const origins: ((row: number) => Origin)[] = [
    (row) => ({ expression: "the score of this point", cells: [scores.ref(row)] }),
    () => ({ expression: "a learned number of this head", cells: [] }),
    (row) => ({ expression: `1 / (1 + exp(\u2212(${formatCell(scores.values[row])} + ${factor(r)})))`, cells: [at(row, 0), at(row, 1)] }),
    (row) => ({ expression: step.previousWeights ? "the weight of this point in the step before" : row === 0 ? "1: before the first step all weight is on the first point" : "0: before the first step all weight is on the first point", cells: [] }),
    (row) => (stops[row]
      ? { expression: sumText(from(row).map((k) => formatCell(previous[k]))), cells: [at(row, 2), ...from(row).map((k) => at(k, 3))] }
      : { expression: `0, since ${formatCell(p[row])} is not above 1/2`, cells: [at(row, 2)] }),
  ];
  const formula = "p = 1 / (1 + exp(-(score + r))); each previous weight moves on to the first point with p > 1/2, starting at its own point";
  const columns = { score: scores.values, r, p, previous, weight };
  return record.addColumns("Weights", formula, columns, { own: step.weights, origin: (row, column) => origins[column](row) });
}
