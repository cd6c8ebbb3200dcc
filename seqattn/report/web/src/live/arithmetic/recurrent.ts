// One step of a recurrent decoder, as seqattn/analysis/explanation/recurrent.py.
import { addContext, addHeadContexts, addOutput, addWeightStages, concatenate } from "./context";
import type { Matrix, Vector } from "./record";
import { affine, printedRow, printedRows, refs, rowOf } from "./record";
import { addScores } from "./scores";
import type { AttentionStep } from "./step";

function addValues(step: AttentionStep): Matrix {
  if (step.has("attention.value")) return step.mapStates("Values", "v = W_v s + b_v of the encoder's states", "attention.value", step.values);
  const width = step.values[0].length;
  return step.record.add("Values", "the encoder's states", step.values, { origin: step.copyOf("Encoder states", null, step.input.head * width) });
}

/** Add the input of the output layer, from the context and h, and return it with its name. */
function addReadout(step: AttentionStep, query: Vector, context: Vector): [Vector, string] {
  const { record, input: { content } } = step;
  const readout = step.trace("readout")[step.input.step];
  if (content.config.context === "input") {
    const formula = "from the decoder input, the context and h, by the recurrent cell";
    return [record.addRow("New state h'", formula, "h'", readout, { isByModel: true }), "h'"];
  }
  const parts = concatenate(context, query);
  const joined = record.addRow("Joined", "[context; h]", "[c; h]", parts.values, {
    origin: (_, k) => ({ expression: k < context.values.length ? "the same number of the context" : "the same number of the decoder state h", cells: [parts.ref(k)] }),
  });
  if (!step.has("combine")) return [joined, "[context; h]"];
  const { weight, bias } = step.linear("combine");
  const numbers = affine(printedRows(weight), printedRow(bias!), joined.values).map(Math.tanh);
  const attentional = record.addRow("Attentional vector a", "a = tanh(W_a [context; h] + b_a), W_a and b_a are in the checkpoint file of the run", "a", numbers, {
    isByModel: true, ownRow: readout,
    origin: (_, k) => ({ expression: `tanh(row ${k + 1} of W_a times [context; h] + b_a), with numbers of the checkpoint file`, cells: refs(joined) }),
  });
  return [attentional, "a"];
}

/** Add all stages of a step, and return its output (G,); null if the model mixes it with copied symbols. */
export function addRecurrent(step: AttentionStep): Vector | null {
  const { record, input: { content } } = step;
  step.input.kind.addDecoderInput(step);
  record.add("Encoder states", "s, from the source, by the recurrent cell", step.states, { isByModel: true });
  const when = content.config.context === "input" ? "before this step" : "after reading that input";
  const query = rowOf(record.add(`Decoder state h, ${when}`, "", [step.query], { rows: ["h"], isByModel: true }), 0);
  const weights = addWeightStages(step, addScores(step));
  const own = addContext(step, weights, addValues(step));
  const context = step.heads > 1 ? addHeadContexts(step, own) : own;
  const readout = addReadout(step, query, context);
  return content.config.copying === true ? null : addOutput(step, ...readout);
}
