// What an explanation starts from: one step of a model's answer, and the model's parameters.
import type { GraphContent } from "../content";
import type { Attended, Numbers } from "../model";
import type { Matrix, StageOptions, Vector } from "./record";
import { affine, columnNumbers, factor, MAX_PRINTED_SIDE, printedRow, printedRows, productsText, StageRecord, refs, rowOf } from "./record";

/** A part of what a step writes: a number of a point, or a symbol. */
export interface StepResult {
  name: string;
  text: string;
  /** Of a bar; null: no bar. */
  share: number | null;
}

/** The first and the last stages of an explanation, which depend on what a step is. */
export interface StepKind {
  /** The names of the source steps, as rows of tables. */
  sourceNames: string[];
  /** The outputs of the output layer that are shown, as indices, and their names. */
  outputs: { indices: number[]; names: string[] };
  /** The name of what the output layer computes. */
  outputName: string;
  /** Which rows of the output layer are shown, after its name. */
  rowsNote: string;
  addSource(step: AttentionStep): void;
  addDecoderInput(step: AttentionStep): void;
  /** Return what the step writes, for a picture. */
  results(step: AttentionStep): StepResult[];
  /** Add what follows from the output of the network; null if the shown layers do not determine it. */
  addResult(step: AttentionStep, output: Vector | null): void;
}

/** One decoder step, layer and head, counted from 0. */
export interface StepInput {
  content: GraphContent;
  kind: StepKind;
  answer: Attended;
  step: number;
  layer: number;
  head: number;
  /** Whether the weights of this step, layer and head were forced. */
  isForced: boolean;
  /** Return a parameter by its name; undefined if the model has none of that name. */
  parameter: (name: string) => Numbers | undefined;
}

/** The intermediate results without the axis of sequences: S source points, A heads, T steps. */
interface Traces {
  states: number[][];
  keys: number[][][][];
  values: number[][][][];
  /** (layers, T, H); of a Transformer (layers, A, T, K), see `headQuery`. */
  query: number[][][];
  scores: number[][][][];
  factors: number[][][][];
  context: number[][][][];
  readout: number[][];
  input: number[][];
  output: number[][];
  /** (S, E): the vectors of the source symbols. */
  embedded_source: number[][];
}

/** The learned affine map of a module; `bias` is null without one. */
export interface Linear {
  weight: number[][];
  bias: number[] | null;
}

export class AttentionStep {
  readonly record: StageRecord;

  constructor(readonly input: StepInput) {
    this.record = new StageRecord(input.kind.sourceNames);
  }

  /** Return an intermediate result; see seqattn/export/live_parts.py. */
  trace<K extends keyof Traces>(name: K): Traces[K] {
    const found = this.input.answer.trace[name] as Numbers | undefined;
    if (found === undefined) throw new Error(`The model of this page does not return its ${name}.`);
    return found as Traces[K];
  }

  parameter(name: string): Numbers {
    const found = this.input.parameter(name);
    if (found === undefined) throw new Error(`The model has no parameter ${name}.`);
    return found;
  }

  vector(name: string): number[] {
    return this.parameter(name) as number[];
  }

  linear(name: string): Linear {
    return { weight: this.parameter(`${name}.weight`) as number[][], bias: (this.input.parameter(`${name}.bias`) as number[] | undefined) ?? null };
  }

  /** The output layer. One that is tied to the embedding of symbols has its weights, perhaps after a map to its width. */
  get outputLayer(): Linear {
    if (this.has("output")) return this.linear("output");
    const weight = this.parameter("target_modality.embedding.weight") as number[][];
    const bias = this.vector("output.bias");
    return { weight, bias };
  }

  has(name: string): boolean {
    return this.input.parameter(`${name}.weight`) !== undefined;
  }

  /** The number of heads. */
  get heads(): number {
    return Math.max(1, this.input.content.heads);
  }

  /** Return the part of an axis that belongs to the head. */
  headSlice<T>(values: readonly T[]): T[] {
    const width = values.length / this.heads;
    return values.slice(this.input.head * width, (this.input.head + 1) * width);
  }

  /** The encoder states (S, H), the decoder state (H,) and the keys, values, scores and weights of the head, not rounded. */
  get states(): number[][] { return this.trace("states"); }
  get query(): number[] { return this.trace("query")[this.input.layer][this.input.step]; }
  /** The query (K,) of the head of a Transformer. */
  get headQuery(): number[] { return (this.trace("query") as unknown as number[][][][])[this.input.layer][this.input.head][this.input.step]; }
  get keys(): number[][] { return this.trace("keys")[this.input.layer][this.input.head]; }
  get values(): number[][] { return this.trace("values")[this.input.layer][this.input.head]; }
  get scores(): number[] { return this.trace("scores")[this.input.layer][this.input.head][this.input.step]; }
  get weights(): number[] { return this.input.answer.weights[this.input.layer][this.input.head][this.input.step]; }
  get previousWeights(): number[] | null {
    const { answer, layer, head, step } = this.input;
    return step > 0 ? answer.weights[layer][head][step - 1] : null;
  }
  /** The sum of the weights of all steps before this one, for each source point. */
  get coverage(): number[] {
    const { answer, layer, head, step } = this.input;
    const past = answer.weights[layer][head].slice(0, step);
    return this.states.map((_, s) => past.reduce((sum, weights) => sum + weights[s], 0));
  }
  get context(): number[] { return this.contexts[this.input.head]; }
  /** The contexts (A, V) of all heads. */
  /** What the network reads in this step: a point, or the vector of a symbol. */
  get decoderInput(): number[] {
    const { answer: { trace }, step } = this.input;
    return (("embedded_input" in trace ? trace.embedded_input : trace.input) as number[][])[step];
  }
  get contexts(): number[][] { return this.trace("context")[this.input.layer].map((head) => head[this.input.step]); }

  /** Add the decoder state as query (K,). */
  addStateAsQuery(): Vector {
    const query = this.headSlice(this.query);
    const first = this.input.head * query.length;
    return this.record.addRow("Query", "q = h", "q", query, { origin: this.copyOf("Decoder state h", 0, first) });
  }

  /** Add the encoder states as keys (S, K). */
  addStatesAsKeys(): Matrix {
    const keys = this.states.map((state) => this.headSlice(state));
    return this.record.add("Keys", "k = s, the encoder's states", keys, { origin: this.copyOf("Encoder states", null, this.input.head * keys[0].length) });
  }

  /** Return the origin of numbers that are those of another stage, whose name begins with `name`. */
  copyOf(name: string, row: number | null, first = 0): NonNullable<StageOptions["origin"]> {
    const stage = this.record.stages.findIndex((each) => each.name.startsWith(name));
    return (r, c) => (stage < 0 ? null : { expression: `the same number of \u201c${this.record.stages[stage].name}\u201d`, cells: [{ stage, row: row ?? r, column: first + c }] });
  }

  /** Add a projection of the decoder state as query (K,). */
  mapQuery(formula: string, name: string, row = "q"): Vector {
    const map = this.linear(name);
    const ofModel = this.headSlice(affine(map.weight, map.bias, this.query));
    const inputs = this.vectorOf("Decoder state h", this.query);
    return rowOf(this.addMap("Query", formula, map, inputs, [ofModel], { rows: [row], ownAs: "rows" }), 0);
  }

  /** Add a projection of the encoder states, (S, K). */
  mapStates(name: string, formula: string, module: string, ofModel: number[][]): Matrix {
    return this.addMap(name, formula, this.linear(module), this.matrixOf("Encoder states", this.states), ofModel);
  }

  /** Return a stage of vectors that was added before. */
  matrixOf(name: string, numbers: number[][]): Matrix {
    const stage = this.record.stages.findIndex((each) => each.name.startsWith(name));
    return { values: printedRows(numbers), stage, ref: (row, column) => ({ stage, row, column }) };
  }

  vectorOf(name: string, numbers: number[]): Matrix {
    return this.matrixOf(name, [numbers]);
  }

  /** Add the outputs of a linear layer that belong to the head, after its weights if they are small. */
  private addMap(name: string, formula: string, map: Linear, inputs: Matrix, ofModel: number[][], options: StageOptions = {}): Matrix {
    const { record } = this;
    const weight = printedRows(this.headSlice(map.weight));
    if (Math.max(weight.length, weight[0].length) > MAX_PRINTED_SIDE) {
      return record.add(name, `${formula}; the matrix is too large to print; it is in the checkpoint file of the run`, ofModel, { ...options, isByModel: true });
    }
    const bias = map.bias === null ? null : printedRow(this.headSlice(map.bias));
    const table = addWeights(record, `${name}: the map`, weight, bias, columnNumbers(weight.length));
    const numbers = inputs.values.map((x) => affine(weight, bias, x));
    return record.add(name, formula, numbers, { ...options, own: ofModel, origin: (row, column) => affineOrigin(table, bias !== null, column, rowOf(inputs, row)) });
  }
}

/** Add a stage with the weights of a linear layer and its bias. */
export function addWeights(record: StageRecord, name: string, weight: number[][], bias: number[] | null, rows: string[]): Matrix {
  const columns = columnNumbers(weight[0].length);
  const table = bias === null ? weight : weight.map((row, k) => [...row, bias[k]]);
  return record.add(name, "", table, { rows, columns: bias === null ? columns : [...columns, "bias"] });
}

/** Return the origin of one output of a linear layer whose weights are a stage. */
export function affineOrigin(table: Matrix, hasBias: boolean, output: number, input: Vector): { expression: string; cells: ReturnType<typeof refs> } {
  const row = rowOf(table, output);
  const weights = row.values.slice(0, input.values.length);
  const bias = hasBias ? ` + ${factor(row.values[row.values.length - 1])}` : "";
  return { expression: productsText(weights, input.values) + bias, cells: [...refs(row), ...refs(input)] };
}
