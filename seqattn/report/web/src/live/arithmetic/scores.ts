// The scores, as the methods `explain` of seqattn/models/attention/scores.py.
import type { Matrix, Origin, Vector } from "./record";
import { affine, dot, factor, formatCell, printed, printedRow, productsText, refs, rowOf } from "./record";
import type { AttentionStep } from "./step";

const squares = (x: readonly number[]): string => productsText(x, x);

/** Return q . k of printed numbers with its origin. */
function productOrigin(query: Vector, keys: Matrix, row: number): Origin {
  const key = rowOf(keys, row);
  return { expression: productsText(query.values, key.values), cells: [...refs(query), ...refs(key)] };
}

function addProducts(step: AttentionStep, query: Vector, keys: Matrix): Vector {
  const score = keys.values.map((key) => dot(key, query.values));
  return step.record.addColumns("Scores", "score = q . k", { score }, { own: step.scores, origin: (row) => productOrigin(query, keys, row) });
}

/** Add q . k / sqrt(K) of a printed query (K,) and printed keys (S, K). */
export function addScaledProducts(step: AttentionStep, query: Vector, keys: Matrix): Vector {
  const K = query.values.length;
  const root = printed(Math.sqrt(K));
  const products = keys.values.map((key) => printed(dot(key, query.values)));
  const columns = { "q . k": products, "sqrt(K)": root, score: products.map((x) => x / root) };
  const stage = step.record.next;
  const origin = (row: number, column: number): Origin => {
    if (column === 0) return productOrigin(query, keys, row);
    if (column === 1) return { expression: `sqrt(${K})`, cells: [] };
    return { expression: `${formatCell(products[row])} / ${formatCell(root)}`, cells: [{ stage, row, column: 0 }, { stage, row, column: 1 }] };
  };
  return step.record.addColumns("Scores", `score = q . k / sqrt(K), K = ${K}`, columns, { own: step.scores, origin });
}

/** Add query (K,) and keys (S, K), projected where the model does; `keys` are those of the model. */
function addMaps(step: AttentionStep, keys: number[][]): [Vector, Matrix] {
  if (!step.has("attention.score.query")) return [step.addStateAsQuery(), step.addStatesAsKeys()];
  const query = step.mapQuery("q = W_q h + b_q", "attention.score.query");
  return [query, step.mapStates("Keys", "k = W_k s + b_k of the encoder's states", "attention.score.key", keys)];
}

function addUniform(step: AttentionStep): Vector {
  const score = step.states.map(() => 0);
  return step.record.addColumns("Scores", "0 for every source point", { score }, { own: step.scores });
}

function addScaledDot(step: AttentionStep): Vector {
  const root = Math.sqrt(step.keys[0].length); // the model divides its keys once per source
  const [query, keys] = addMaps(step, step.keys.map((key) => key.map((x) => x * root)));
  return addScaledProducts(step, query, keys);
}

function addAdditive(step: AttentionStep): Vector {
  const { record } = step;
  const query = step.mapQuery("W h", "attention.score.query", "W h");
  const keys = step.mapStates("Keys", "U s + b", "attention.score.key", step.keys);
  const v = record.addRow("Vector v", "", "v", step.headSlice(step.linear("attention.score.combine").weight[0]));
  const hidden = record.add("Hidden layer", "tanh(W h + U s + b)", keys.values.map((key) => key.map((x, k) => Math.tanh(x + query.values[k]))), {
    origin: (row, k) => ({ expression: `tanh(${formatCell(query.values[k])} + ${factor(keys.values[row][k])})`, cells: [query.ref(k), keys.ref(row, k)] }),
  });
  const score = hidden.values.map((row) => dot(row, v.values));
  return record.addColumns("Scores", "score = v . tanh(W h + U s + b)", { score }, { own: step.scores, origin: (row) => productOrigin(v, hidden, row) });
}

function addCoverage(step: AttentionStep): Vector {
  const { record } = step;
  const query = step.mapQuery("W h", "attention.score.query", "W h");
  const keys = step.mapStates("Keys", "U s + b", "attention.score.key", step.keys);
  const coverage = record.add("Coverage", "the sum of the past weights", step.coverage.map((c) => [c]), {
    columns: ["c"], origin: () => ({ expression: "the sum of the weights of this point in the steps before", cells: [] }),
  });
  const w = record.addRow("Vector w", "", "w", step.headSlice(step.linear("attention.score.coverage").weight.map(([x]) => x)));
  const v = record.addRow("Vector v", "", "v", step.headSlice(step.linear("attention.score.combine").weight[0]));
  const formula = "tanh(W h + U s + w c + b)";
  const before = (row: number, k: number): number => keys.values[row][k] + query.values[k] + coverage.values[row][0] * w.values[k];
  const hidden = record.add("Hidden layer", formula, keys.values.map((key, row) => key.map((_, k) => Math.tanh(before(row, k)))), {
    origin: (row, k) => ({
      expression: `tanh(${formatCell(query.values[k])} + ${factor(keys.values[row][k])} + ${factor(w.values[k])} \u00d7 ${factor(coverage.values[row][0])})`,
      cells: [query.ref(k), keys.ref(row, k), w.ref(k), coverage.ref(row, 0)],
    }),
  });
  const score = hidden.values.map((row) => dot(row, v.values));
  return record.addColumns("Scores", `score = v . ${formula}`, { score }, { own: step.scores, origin: (row) => productOrigin(v, hidden, row) });
}

/** Undo the normalization of the model's keys, by the lengths of the projected states. */
function cosineKeys(step: AttentionStep): number[][] {
  if (!step.has("attention.score.key")) return step.keys;
  const { weight, bias } = step.linear("attention.score.key");
  return step.keys.map((key, s) => {
    const projected = step.headSlice(affine(weight, bias, printedRow(step.states[s])));
    return key.map((x) => x * Math.sqrt(dot(projected, projected)));
  });
}

function addCosine(step: AttentionStep): Vector {
  const { record } = step;
  const [q, k] = addMaps(step, cosineKeys(step));
  const length = (x: readonly number[]): number => Math.sqrt(dot(x, x)) || 1;
  const unit = (x: Vector): Origin => ({ expression: `sqrt(${squares(x.values)})`, cells: refs(x) });
  const query = record.addRow("Query, at length 1", "q / |q|", "q", q.values.map((x) => x / length(q.values)), {
    origin: (_, column) => ({ expression: `${formatCell(q.values[column])} / ${unit(q).expression}`, cells: refs(q) }),
  });
  const keys = record.add("Keys, at length 1", "k / |k|", k.values.map((key) => key.map((x) => x / length(key))), {
    own: step.keys,
    origin: (row, column) => ({ expression: `${formatCell(k.values[row][column])} / ${unit(rowOf(k, row)).expression}`, cells: refs(rowOf(k, row)) }),
  });
  const cos = keys.values.map((key) => printed(dot(key, query.values)));
  const temperature = Math.exp(step.vector("attention.score.log_temperature.value")[0]);
  const strength = printed(1 / temperature);
  const stage = record.next;
  const origin = (row: number, column: number): Origin => {
    if (column === 0) return productOrigin(query, keys, row);
    if (column === 1) return { expression: `1 / temperature, with the learned temperature ${formatCell(temperature)}`, cells: [] };
    return { expression: `${factor(cos[row])} \u00d7 ${formatCell(strength)}`, cells: [{ stage, row, column: 0 }, { stage, row, column: 1 }] };
  };
  const formula = "score = cos(q, k) times the learned strength, 1 / temperature";
  return record.addColumns("Scores", formula, { cos, strength, score: cos.map((x) => x * strength) }, { own: step.scores, origin });
}

function addLinear(step: AttentionStep): Vector {
  const { record } = step;
  const map = step.has("attention.score.key") ? step.linear("attention.score.key") : null;
  const states = step.states.map((state) => step.headSlice(map ? affine(map.weight, map.bias, state) : state));
  const [q, k] = addMaps(step, states);
  const phi = (x: number): number => (x > 0 ? x + 1 : Math.exp(x));
  const text = (x: number): string => (x > 0 ? `${formatCell(x)} + 1` : `exp(${formatCell(x)})`);
  const formula = "phi(x) = x + 1 if x > 0, otherwise exp(x)";
  const query = record.addRow("Query, positive", formula, "phi(q)", q.values.map(phi), {
    origin: (_, column) => ({ expression: text(q.values[column]), cells: [q.ref(column)] }),
  });
  const keys = record.add("Keys, positive", formula, k.values.map((key) => key.map(phi)), {
    own: step.keys, origin: (row, column) => ({ expression: text(k.values[row][column]), cells: [k.ref(row, column)] }),
  });
  const products = keys.values.map((key) => printed(dot(key, query.values)));
  const stage = record.next;
  const origin = (row: number, column: number): Origin =>
    column === 0 ? productOrigin(query, keys, row) : { expression: `log(${formatCell(products[row])})`, cells: [{ stage, row, column: 0 }] };
  const columns = { "phi(q) . phi(k)": products, score: products.map((x) => Math.log(Math.max(x, 1e-4))) };
  return record.addColumns("Scores", "score = log(phi(q) . phi(k))", columns, { own: step.scores, origin });
}

const SCORES: Readonly<Record<string, ((step: AttentionStep) => Vector) | undefined>> = {
  uniform: addUniform,
  dot: (step) => addProducts(step, step.addStateAsQuery(), step.addStatesAsKeys()),
  scaled_dot: addScaledDot,
  general: (step) => addProducts(step, step.addStateAsQuery(), step.mapStates("Keys", "k = W s of the encoder's states", "attention.score.key", step.keys)),
  additive: addAdditive,
  coverage: addCoverage,
  cosine: addCosine,
  linear: addLinear,
};

/** Add the stages that compute the scores (S,) of one head from encoder and decoder states. */
export function addScores(step: AttentionStep): Vector {
  const { score } = step.input.content.config.attention!;
  const explain = SCORES[score];
  if (explain) return explain(step);
  return step.record.addColumns("Scores", `by ${score}, which does not explain its arithmetic`, { score: step.scores }, { isByModel: true });
}
