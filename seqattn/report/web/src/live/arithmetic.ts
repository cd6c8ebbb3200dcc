// The arithmetic of one decoder step as tables: the chain that `seqattn explain` prints, with the page's current numbers.
import { addFastWeights } from "./arithmetic/fast_weights";
import type { Stage, Vector } from "./arithmetic/record";
import { DECIMALS, formatCell } from "./arithmetic/record";
import { addRecurrent } from "./arithmetic/recurrent";
import type { StepInput } from "./arithmetic/step";
import { AttentionStep } from "./arithmetic/step";
import { addTransformer } from "./arithmetic/transformer";

export type { Origin, Ref, Stage } from "./arithmetic/record";
export type { StepInput } from "./arithmetic/step";

/** Rows of source points that a table shows at most. */
export const MAX_POINTS = 8;

/** Explain one step: stages from the source to what the step writes.
 *
 * Each stage is computed from the printed numbers of the stages above it, as in seqattn/analysis/explanation.
 * The stages of the scaling, and the last output of a Transformer, are on the page only.
 *
 * @throws Error - if the model of the page has no attention, or does not return what the stages need.
 */
export function explainStep(input: StepInput): Stage[] {
  if (input.content.layers === 0) throw new Error("This model has no attention.");
  const step = new AttentionStep(input);
  const { kind } = input;
  kind.addSource(step);
  let output: Vector | null = null;
  if (input.content.config.kind === "recurrent") output = addRecurrent(step);
  else if (input.content.config.kind === "fast_weights") output = addFastWeights(step);
  else {
    kind.addDecoderInput(step);
    addTransformer(step);
  }
  kind.addResult(step, output);
  return step.record.stages;
}

/** Return the rows that the tables of points show: all, or those with the largest weights, in their order. */
export function shownRows(weights: readonly number[]): number[] {
  const order = weights.map((_, k) => k);
  if (order.length <= MAX_POINTS) return order;
  return order.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || a - b).slice(0, MAX_POINTS).sort((a, b) => a - b);
}

/** Describe where a number comes from: `0.9364 = 1.0000 / (1.0000 + 0.0679)`. */
export function describeCell(stages: readonly Stage[], stage: number, row: number, column: number): string {
  const { numbers, own, origin, formula, isByModel, digits } = stages[stage];
  const number = formatCell(numbers[row][column], digits);
  const found = origin(row, column);
  let text = found ? `${number} = ${found.expression}` : number;
  if (!found) {
    if (isByModel) text += `, from the model, by parameters that are not printed${formula ? ` (${formula})` : ""}`;
    else text += formula ? ` (${formula})` : ", given";
  }
  const exact = own?.[row]?.[column];
  if (exact !== undefined && Number.isFinite(exact)) text += `. Without rounding, it is ${formatCell(exact, DECIMALS + 4)}.`;
  return text;
}
