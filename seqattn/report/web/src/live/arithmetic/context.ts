// Weights, context and output layer, which several kinds of models share.
import { addLocalWindow, addLocationShift, addMonotonic } from "./locations";
import { normalizerOf } from "./normalizers";
import type { Matrix, Vector } from "./record";
import { affine, columnNumbers, columnOf, factor, printed, printedRow, printedRows, refs, sumText } from "./record";
import type { AttentionStep } from "./step";
import { addWeights, affineOrigin } from "./step";

/** What the panel writes in place of a formula where the user chose the weights. */
export const FORCED = "forced by you";

/** Add the weights (S,) of the head: forced, or from its printed scores. */
export function addWeightStages(step: AttentionStep, scores: Vector): Vector {
  const { record } = step;
  if (step.input.isForced) return addForced(step);
  const { normalizer = "softmax", alpha, location } = step.input.content.config.attention ?? {};
  const normalize = normalizerOf(normalizer, alphaOf(step, alpha));
  if (!normalize) return record.addColumns("Weights", `by ${normalizer}, which does not explain its arithmetic`, { weight: step.weights }, { isByModel: true });
  if (location?.kind === "local") return addLocalWindow(step, normalize, scores, Number(location.window));
  if (location?.kind === "location_shift") return addLocationShift(step, normalize, scores);
  if (location?.kind === "monotonic") return addMonotonic(step, scores);
  return normalize(record, { name: "Weights", scores, inside: scores.values.map(() => true), own: step.weights });
}

/** Return alpha of entmax, as printed: that of the config, or that of the head. */
function alphaOf(step: AttentionStep, alpha: number | "learned" | null | undefined): number {
  if (alpha !== "learned") return alpha ?? 1.5;
  const theta = step.input.parameter("attention.normalizer.theta.value") as number[];
  return printed(1.01 + 0.99 / (1 + Math.exp(-theta[step.input.head])));
}

export function addForced(step: AttentionStep): Vector {
  return step.record.addColumns("Weights", FORCED, { weight: step.weights }, { origin: () => ({ expression: "a weight that you forced", cells: [] }) });
}

/** Add weights (S,) times vectors (S, V). */
export function addWeighted(step: AttentionStep, name: string, formula: string, weights: Vector, values: Matrix, rows?: string[]): Matrix {
  const numbers = values.values.map((row, s) => row.map((x) => weights.values[s] * x));
  return step.record.add(name, formula, numbers, {
    rows, origin: (row, column) => ({ expression: `${factor(weights.values[row])} \u00d7 ${factor(values.values[row][column])}`, cells: [weights.ref(row), values.ref(row, column)] }),
  });
}

/** Add the sum of the rows of a stage. */
export function addSum(step: AttentionStep, name: string, formula: string, row: string, parts: Matrix, own: readonly number[]): Vector {
  const sums = parts.values[0].map((_, k) => parts.values.reduce((sum, part) => sum + part[k], 0));
  return step.record.addRow(name, formula, row, sums, {
    ownRow: own,
    origin: (_, column) => {
      const terms = columnOf(parts, column);
      return { expression: sumText(terms.values.map(factor)), cells: refs(terms) };
    },
  });
}

/** Add the sum of values (S, V) weighted by weights (S,), and return it, (V,). */
export function addContext(step: AttentionStep, weights: Vector, values: Matrix): Vector {
  const parts = addWeighted(step, "Weighted values", "weight times value", weights, values);
  return addSum(step, "Context", "the sum of the weighted values", "c", parts, step.context);
}

/** Add the contexts of all heads, and return their concatenation, (A V,). */
export function addHeadContexts(step: AttentionStep, context: Vector): Vector {
  const { head } = step.input;
  const contexts = printedRows(step.contexts);
  contexts[head] = context.values;
  const table = step.record.add("Contexts of all heads", `this is head ${head + 1}, the others likewise`, contexts, {
    rows: contexts.map((_, k) => `head ${k + 1}`), isByModel: true,
    origin: (row, column) => (row === head ? { expression: "the context of this head", cells: [context.ref(column)] } : null),
  });
  const V = context.values.length;
  return { values: table.values.flat(), ref: (k) => table.ref(Math.floor(k / V), k % V) };
}

/** Return the input of an output layer with the vectors of an embedding: a map comes first if the widths differ. */
function addTiedInput(step: AttentionStep, vector: Vector, name: string): [vector: Vector, name: string] {
  if (!step.has("output.inner")) return [vector, name];
  const { weight, bias } = step.linear("output.inner");
  const formula = `u = W_u ${name} + b_u, W_u and b_u are in the checkpoint file of the run`;
  return [step.record.addRow("Input of the output layer", formula, "u", affine(weight, bias, vector.values), { columns: columnNumbers(weight.length), isByModel: true }), "u"];
}

/** Add the output layer, applied to a printed vector, and return the outputs that are shown. */
export function addOutput(step: AttentionStep, vector: Vector, name: string): Vector {
  const { record, input: { kind: { outputs: { indices, names }, outputName, rowsNote }, content, step: t } } = step;
  const [input, inputName] = addTiedInput(step, vector, name);
  const { weight, bias } = step.outputLayer;
  const [W, b] = [printedRows(indices.map((k) => weight[k])), printedRow(indices.map((k) => bias![k]))];
  const table = addWeights(record, `Output layer W, b${rowsNote}`, W, b, names);
  const own = step.trace("output")[t];
  const stage = content.config.skip === "linear" ? "Network's share" : outputName;
  return record.addRow(stage, `y = W ${inputName} + b`, "y", affine(W, b, input.values), {
    columns: names, ownRow: indices.map((k) => own[k]), origin: (_, column) => affineOrigin(table, true, column, input),
  });
}

/** Return several vectors one after the other. */
export function concatenate(...vectors: Vector[]): Vector {
  const places = vectors.flatMap((vector) => vector.values.map((_, k) => vector.ref(k)));
  return { values: vectors.flatMap((vector) => vector.values), ref: (k) => places[k] };
}

