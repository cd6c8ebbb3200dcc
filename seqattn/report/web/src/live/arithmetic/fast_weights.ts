// One read of a fast weight memory, as seqattn/analysis/explanation/fast_weights.py.
import { addOutput, addSum, addWeighted } from "./context";
import type { Matrix, Origin, Ref, Vector } from "./record";
import { affine, dot, factor, formatCell, printed, printedRow, productsText, refs, rowOf } from "./record";
import type { AttentionStep } from "./step";

const EPSILON = 1e-5;

interface Memory {
  /** (L, H): the states of the source, then those of the steps before this one. */
  states: number[][];
  /** (L,): rate decay^age. */
  factors: number[];
  rows: string[];
}

function memoryOf(step: AttentionStep): Memory {
  const { step: t, content: { config } } = step.input;
  const written = step.trace("readout").slice(0, t);
  const factors = step.trace("factors")[0][0][t];
  const later = written.map((_, k) => Number(config.rate) * Number(config.decay) ** (t - 1 - k));
  return { states: [...step.states, ...written], factors: [...factors, ...later], rows: [...step.input.kind.sourceNames, ...written.map((_, k) => `step ${k + 1}`)] };
}

/** W h + C x, which the inner loop holds. */
function preactivation(step: AttentionStep): number[] {
  const { step: t } = step.input;
  const { states } = step;
  const hidden = t > 0 ? step.trace("readout")[t - 1] : states[states.length - 1];
  const { weight, bias } = step.linear("decoder_input");
  const projected = affine(weight, bias, step.decoderInput);
  return affine(step.linear("decoder_state").weight, null, hidden).map((x, k) => x + projected[k]);
}

function addStrengths(step: AttentionStep, states: Matrix, h: Vector, { factors, rows }: Memory): Vector {
  const products = states.values.map((state) => printed(dot(state, h.values)));
  const rates = printedRow(factors);
  const stage = step.record.next;
  const at = (row: number, column: number): Ref => ({ stage, row, column });
  const { rate, decay } = step.input.content.config;
  const origin = (row: number, column: number): Origin => {
    const state = rowOf(states, row);
    if (column === 0) return { expression: productsText(state.values, h.values), cells: [...refs(state), ...refs(h)] };
    if (column === 1) return { expression: `${String(rate)} \u00d7 ${String(decay)}^${rows.length - 1 - row}`, cells: [] };
    return { expression: `${factor(products[row])} \u00d7 ${formatCell(rates[row])}`, cells: [at(row, 0), at(row, 1)] };
  };
  const columns = { "h(tau) . h": products, "rate decay^age": rates, strength: products.map((x, k) => x * rates[k]) };
  const own = rows.map((_, k) => step.weights[k] ?? NaN); // the page has those of the source
  const strengths = step.record.addColumns("Strengths", "strength = rate decay^age (h(tau) . h)", columns, { rows, own, origin });
  step.record.stages[stage].hasPointRows = true;
  return strengths;
}

/** The argument of the tanh of a new state, (H,). */
interface Preactivation {
  values: number[];
  formula: string;
  origin: (column: number) => Origin;
}

/** Add the layer norm of z (H,), and return it. */
function addNorm(step: AttentionStep, z: Preactivation): Preactivation {
  const { record } = step;
  const [gain, bias] = ["gain", "bias"].map((name) => printedRow(step.vector(`decoder_norm.${name}.value`)));
  const table = record.add("Layer norm's input, gain and bias", z.formula, [z.values, gain, bias], {
    rows: ["z", "gain", "bias"], origin: (row, column) => (row === 0 ? z.origin(column) : null),
  });
  const input = rowOf(table, 0);
  const mean = z.values.reduce((a, b) => a + b, 0) / z.values.length;
  const variance = z.values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / z.values.length;
  const moments = record.addRow("Mean and deviation of z", "", "z", [mean, Math.sqrt(variance + EPSILON)], {
    columns: ["mean", "deviation"],
    origin: (_, column) => ({ expression: column === 0 ? `the mean of the ${z.values.length} numbers of z` : `sqrt(the mean of (z \u2212 mean)\u00b2 + ${EPSILON})`, cells: refs(input) }),
  });
  const [m, deviation] = moments.values;
  const values = printedRow(z.values.map((x, k) => ((x - m) / deviation) * gain[k] + bias[k]));
  return {
    values, formula: "(z - mean) / deviation * gain + bias",
    origin: (k) => ({
      expression: `(${formatCell(z.values[k])} \u2212 ${factor(m)}) / ${formatCell(deviation)} \u00d7 ${factor(gain[k])} + ${factor(bias[k])}`,
      cells: [0, 1, 2].map((row) => table.ref(row, k)).concat(refs(moments)),
    }),
  };
}

/** Add all stages of a step, and return its output (G,). */
export function addFastWeights(step: AttentionStep): Vector {
  const { record, input: { content: { config }, step: t } } = step;
  step.input.kind.addDecoderInput(step);
  const held = record.addRow("Input to the inner loop", "W h + C x, held through the inner loop", "held", preactivation(step), { isByModel: true });
  const readings = Number(config.inner_steps) - 1;
  const h = record.addRow("Query state", `after ${readings} readings`, "h", step.query, { isByModel: true });
  const memory = memoryOf(step);
  const states = record.add("States in memory", "", memory.states, { rows: memory.rows, isByModel: true });
  record.stages[states.stage].hasPointRows = true;
  const strengths = addStrengths(step, states, h, memory);
  const parts = addWeighted(step, "Weighted states", "strength times state", strengths, states, memory.rows);
  record.stages[parts.stage].hasPointRows = true;
  const read = addSum(step, "Read vector", "A h, the sum of the weighted states", "A h", parts, step.context);
  const z: Preactivation = {
    values: printedRow(held.values.map((x, k) => x + read.values[k])), formula: "held + A h",
    origin: (k) => ({ expression: `${formatCell(held.values[k])} + ${factor(read.values[k])}`, cells: [held.ref(k), read.ref(k)] }),
  };
  const norm = step.input.parameter("decoder_norm.gain.value") === undefined ? z : addNorm(step, z);
  const readout = step.trace("readout")[t];
  const state = record.addRow("New state", `tanh(${norm.formula})`, "h'", norm.values.map(Math.tanh), {
    ownRow: readout,
    origin: (_, k) => {
      const { expression, cells } = norm.origin(k);
      return { expression: `tanh(${expression})`, cells };
    },
  });
  return addOutput(step, state, "h'");
}
