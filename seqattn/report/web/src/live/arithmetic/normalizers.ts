// The normalizers, as the methods `explain` of seqattn/models/attention/normalizers.py.
import type { Origin, StageRecord, Ref, Vector } from "./record";
import { factor, formatCell, printed, printedRow, sumText } from "./record";

export interface NormalizerInput {
  /** The name of the stage. */
  name: string;
  scores: Vector;
  /** False at points that the window of a location leaves out. */
  inside: readonly boolean[];
  /** The model's own weights, if they are those of this stage. */
  own: readonly number[] | undefined;
}

const cell = (stage: number, row: number, column: number): Ref => ({ stage, row, column });
const scoreOrigin = (scores: Vector, row: number): Origin => ({ expression: "the score of this point", cells: [scores.ref(row)] });

/** Add the softmax of printed scores, 0 where `inside` is false; returns the weights (S,). */
export function addSoftmax(record: StageRecord, { name, scores, inside, own }: NormalizerInput): Vector {
  const { values } = scores;
  const largest = Math.max(...values.filter((_, k) => inside[k]));
  const exponentials = printedRow(values.map((score, k) => (inside[k] ? Math.exp(score - largest) : 0)));
  const sum = exponentials.reduce((a, b) => a + b, 0);
  const stage = record.next;
  const origin = (row: number, column: number): Origin => {
    if (column === 0) return scoreOrigin(scores, row);
    if (column === 1 && !inside[row]) return { expression: "0, since the point is outside the window", cells: [] };
    if (column === 1) return { expression: `exp(${formatCell(values[row])} \u2212 ${factor(largest)})`, cells: [cell(stage, row, 0), cell(stage, values.indexOf(largest), 0)] };
    return { expression: `${formatCell(exponentials[row])} / (${sumText(exponentials.map((x) => formatCell(x)))})`, cells: values.map((_, k) => cell(stage, k, 1)) };
  };
  const columns = { score: values, "exp(score - largest)": exponentials, weight: exponentials.map((x) => x / sum) };
  return record.addColumns(name, "softmax: weight = exp(score - largest) / sum of these", columns, { own, origin });
}

/** Add the Euclidean projection of printed scores onto the simplex; returns the weights (S,). */
export function addSparsemax(record: StageRecord, { name, scores, inside, own }: NormalizerInput): Vector {
  const { values } = scores;
  const order = values.map((_, k) => k).filter((k) => inside[k]).sort((a, b) => values[b] - values[a]);
  let total = 0;
  const support = order.filter((point, k) => {
    total += values[point];
    return 1 + (k + 1) * values[point] > total;
  });
  const count = support.length;
  const tau = printed((support.reduce((sum, k) => sum + values[k], 0) - 1) / count);
  const stage = record.next;
  const origin = (row: number, column: number): Origin => {
    if (column === 0) return scoreOrigin(scores, row);
    if (column === 1) return { expression: `(${sumText(support.map((k) => factor(values[k])))} \u2212 1) / ${count}`, cells: support.map((k) => cell(stage, k, 0)) };
    if (!inside[row]) return { expression: "0, since the point is outside the window", cells: [] };
    return { expression: `max(${formatCell(values[row])} \u2212 ${factor(tau)}, 0)`, cells: [cell(stage, row, 0), cell(stage, row, 1)] };
  };
  const formula = `sparsemax: weight = max(score - tau, 0), tau = (sum of the ${count} largest - 1) / ${count}`;
  const weight = values.map((score, k) => (inside[k] ? Math.max(score - tau, 0) : 0));
  return record.addColumns(name, formula, { score: values, tau, weight }, { own, origin });
}

/** Return the threshold for which the sum of max(scaled - tau, 0)^exponent is 1, by bisection. */
function entmaxThreshold(scaled: readonly number[], exponent: number): number {
  let low = Math.max(...scaled) - 1;
  for (let width = 0.5; low + width > low; width /= 2) {
    const total = scaled.reduce((sum, x) => sum + Math.max(x - low - width, 0) ** exponent, 0);
    if (total >= 1) low += width;
  }
  return low;
}

/** Return the function that adds entmax of printed scores with a printed alpha. */
export function entmaxOf(alpha: number): typeof addSoftmax {
  return (record, { name, scores, inside, own }) => {
    const { values } = scores;
    const less = alpha - 1;
    const tau = printed(entmaxThreshold(values.filter((_, k) => inside[k]).map((score) => less * score), 1 / less));
    const stage = record.next;
    const origin = (row: number, column: number): Origin => {
      if (column === 0) return scoreOrigin(scores, row);
      if (column === 1) return { expression: "a key of the config, or learned", cells: [] };
      if (column === 2) return { expression: "the number for which the weights sum to 1", cells: values.map((_, k) => cell(stage, k, 0)) };
      if (!inside[row]) return { expression: "0, since the point is outside the window", cells: [] };
      const base = `max((${formatCell(alpha)} \u2212 1) \u00d7 ${factor(values[row])} \u2212 ${factor(tau)}, 0)`;
      return { expression: `${base}^(1 / (${formatCell(alpha)} \u2212 1))`, cells: [0, 1, 2].map((each) => cell(stage, row, each)) };
    };
    const formula = "entmax: weight = max((alpha - 1) score - tau, 0)^(1 / (alpha - 1)); with tau, the weights sum to 1";
    const weight = values.map((score, k) => (inside[k] ? Math.max(less * score - tau, 0) ** (1 / less) : 0));
    return record.addColumns(name, formula, { score: values, alpha, tau, weight }, { own, origin });
  };
}

/** Add all weight on the largest printed score; returns the weights (S,). */
export function addHard(record: StageRecord, { name, scores, inside, own }: NormalizerInput): Vector {
  const { values } = scores;
  const largest = Math.max(...values.filter((_, k) => inside[k]));
  const chosen = values.findIndex((score, k) => inside[k] && score === largest);
  const stage = record.next;
  const origin = (row: number, column: number): Origin => {
    if (column === 0) return scoreOrigin(scores, row);
    const text = row === chosen ? `1, since ${formatCell(values[row])} is the largest score` : `0, since ${formatCell(values[row])} is not the largest score, ${formatCell(largest)}`;
    return { expression: text, cells: [cell(stage, row, 0), cell(stage, chosen, 0)] };
  };
  const weight = values.map((_, k) => (k === chosen ? 1 : 0));
  return record.addColumns(name, "hard: all weight on the largest score", { score: values, weight }, { own, origin });
}

const NORMALIZERS: Readonly<Record<string, typeof addSoftmax | undefined>> = { softmax: addSoftmax, sparsemax: addSparsemax, hard: addHard };

/** Return the function that adds the stage of a normalizer; undefined for one that does not explain itself. */
export const normalizerOf = (name: string, alpha: number): typeof addSoftmax | undefined => (name === "entmax" ? entmaxOf(alpha) : NORMALIZERS[name]);
