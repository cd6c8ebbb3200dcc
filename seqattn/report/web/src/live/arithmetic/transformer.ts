// One query of a Transformer's cross-attention, as seqattn/analysis/explanation/transformer.py.
import { addContext, addHeadContexts, addWeightStages } from "./context";
import type { Vector } from "./record";
import { affine, printedRow, printedRows, refs, rowOf } from "./record";
import { addScaledProducts } from "./scores";
import type { AttentionStep } from "./step";

/** Add the stages of the cross-attention of the layer and head. They do not determine the output. */
export function addTransformer(step: AttentionStep): void {
  const { record, input: { layer, head } } = step;
  const query: Vector = rowOf(record.add("Query", `layer ${layer + 1}, head ${head + 1}: q = W_q x + b_q of the decoder's state`, [step.headQuery], { rows: ["q"], isByModel: true }), 0);
  const keys = record.add("Keys", "k = W_k s + b_k of the encoder's output", step.keys, { isByModel: true });
  const weights = addWeightStages(step, addScaledProducts(step, query, keys));
  const values = record.add("Values", "v = W_v s + b_v of the encoder's output", step.values, { isByModel: true });
  const contexts = addHeadContexts(step, addContext(step, weights, values));
  const { weight, bias } = step.linear(`decoder.${layer}.cross.out`);
  const output = affine(printedRows(weight), printedRow(bias!), contexts.values);
  record.addRow("Cross-attention output", "W_o [contexts] + b_o, W_o and b_o are in the checkpoint file of the run; the rest of the decoder follows", "+", output, {
    isByModel: true, origin: (_, k) => ({ expression: `row ${k + 1} of W_o times [contexts] + b_o, with numbers of the checkpoint file`, cells: refs(contexts) }),
  });
}
