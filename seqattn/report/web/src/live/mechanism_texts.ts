// The parts of the mechanism of a step, their numbers, and sentences about them.
import { capitalize, formatNumber, withMinus } from "../format";
import type { StepResult } from "./arithmetic/step";

/** Numbers of a vector that its sentence shows. */
const SHOWN_NUMBERS = 6;
/** The parts of the mechanism, with the beginnings of the names of their stages in the arithmetic. */
export const STAGES = {
  source: ["Source"], states: ["Encoder states"], keys: ["Keys"], query: ["Query", "Decoder state"], scores: ["Scores"], weights: ["Weights", "Strengths"],
  values: ["Weighted values", "Values"], context: ["Context"], result: ["Probabilities", "Forecast"],
} as const;
export type Part = keyof typeof STAGES;

/** The numbers of one step, layer and head. */
export interface Flow {
  labels: string[];
  /** (S, H), (S, K) and (S, V); null where the model has none. */
  states: number[][] | null;
  keys: number[][] | null;
  values: number[][] | null;
  query: number[] | null;
  scores: number[] | null;
  weights: number[];
  context: number[] | null;
  results: StepResult[];
}

export const WORDS: Record<Part, string> = {
  source: "The source, one row for each step.",
  states: "[Encoder states|encoder]: what the encoder wrote while it read each source step. The encoder carries what it has read along, so a state also knows the steps around it.",
  keys: "[Keys|key]: what each source step shows, to be compared with the [query].",
  query: "[Query|query]: what the [decoder] asks for in this step, made from its state, which knows what has been written so far.",
  scores: "[Scores|score]: how well each [key] fits the [query], one number for each source step.",
  weights: "[Attention weights|attention weight]: the [scores|score], made positive so that they add up to 1. They are computed anew in each step, unlike the parameters, which the training fixes.",
  values: "[Values|value]: what is read of each source step. Here they are as strong as their weights.",
  context: "[Context|context]: the sum of the values, each times its weight. It is all that this step reads of the source.",
  result: "What the step writes, computed from the context and the state of the decoder.",
};

const numbersText = (numbers: readonly number[]): string => `${numbers.slice(0, SHOWN_NUMBERS).map((x) => withMinus(x.toFixed(3))).join(", ")}${numbers.length > SHOWN_NUMBERS ? `, \u2026 (${numbers.length} numbers)` : ""}`;

/** Return a text without the marks of terms. */
export const plain = (text: string): string => text.replace(/\[([^\]|]*)(?:\|[^\]]*)?\]/g, "$1");

/** Describe a part in a sentence with its numbers. */
export function describePart(part: Part, flow: Flow): string {
  const vector = part === "query" ? flow.query : part === "context" ? flow.context : null;
  const results = part === "result" ? ` ${flow.results.map(({ name, text }) => `${name}: ${text}`).join(", ")}.` : "";
  return `${WORDS[part]}${vector ? ` ${capitalize(numbersText(vector))}.` : ""}${results} A click shows its arithmetic.`;
}

/** Describe what a source step contributes. */
export function describeRow(row: number, { labels, scores, weights }: Flow, isForced: boolean): string {
  const score = scores ? `score ${formatNumber(scores[row])}, ` : "";
  const weight = withMinus(weights[row].toFixed(3));
  return `${capitalize(labels[row])}: ${score}weight ${weight}${isForced ? ", which you gave it in place of the softmax of the scores" : ""}. So ${weight} times its value goes into the context.`;
}
