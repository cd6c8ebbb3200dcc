// Models that the page evaluates with ONNX Runtime Web.
import type { AttentionKind, Unpacked, WeightMeaning } from "../content";
import { unpack } from "../content";
import type { GraphContent, LiveModelContent, LiveRun } from "./content";
import type { Force } from "./force";
import { packForce } from "./force";
import type { ModelTensor, Session } from "./runtime";
import { createSession, decodeGzip } from "./runtime";
import { MAX_VALUE } from "./state";

/** Nested arrays of numbers. */
export type Numbers = number[] | Numbers[];

export interface RunOptions {
  force?: Force;
  /** An epoch whose parameters the page has; absent: the epoch with the lowest validation loss. */
  epoch?: number | undefined;
  /** The index or name of a run of the model. */
  run?: number | string | undefined;
  /** What is returned: the forecast alone, with all weights, or also with the intermediate results (absent). */
  outputs?: "forecast" | "weights" | "all" | undefined;
}

/** The attention and the intermediate results of a model for one source. */
export interface Attended {
  /** [layer][head][step][source] of the cross-attention; empty without attention. */
  weights: number[][][][];
  /** All kinds of attention, as `weights`. */
  maps: Partial<Record<AttentionKind, number[][][][]>>;
  /** Intermediate results without the axis of sequences; see seqattn/export/live_parts.py. Empty if they were not asked for. */
  trace: Record<string, Numbers>;
}

/** What a model answers for one source. */
export interface Answer extends Attended {
  /** (T, G), in units of the data. */
  forecast: number[][];
}

export const tensor = (type: ModelTensor["type"], data: ModelTensor["data"], dims: number[]): ModelTensor => ({ type, data, dims });
const MAP_NAMES: Record<string, AttentionKind> = { weights: "cross", encoder_self: "encoder_self", decoder_self: "decoder_self" };
const TRACE = "trace/";
export const FORECAST = "forecast";

/** Return the outputs of a graph to compute, of all its outputs. */
export function chooseOutputs(names: readonly string[], outputs: RunOptions["outputs"]): string[] {
  if (outputs === "forecast") return [FORECAST];
  return names.filter((name) => outputs !== "weights" || !name.startsWith(TRACE));
}

const isFinite = (numbers: Numbers | number): boolean => (Array.isArray(numbers) ? (numbers as (Numbers | number)[]).every(isFinite) : Number.isFinite(numbers));

/** Check that every number of an answer is finite.
 *
 * @throws Error - if one is not.
 */
export function checkAnswer({ forecast, maps }: Pick<Answer, "forecast" | "maps">): void {
  if (isFinite([forecast, ...Object.values(maps)])) return;
  throw new Error("The model gives no number for this source: its values are too far from those of the training.");
}

/** Check that a source has finite values that the page can draw.
 *
 * @throws Error - if it has not.
 */
export function checkValues(values: readonly unknown[]): void {
  for (const value of values) {
    if (typeof value !== "number" || !Number.isFinite(value)) throw new Error("Every value of the source must be a number.");
    if (Math.abs(value) > MAX_VALUE) throw new Error(`${value}: a value of the source must lie between \u2212${MAX_VALUE} and ${MAX_VALUE}.`);
  }
}

/** Return a flat array as nested arrays of a shape. */
export function nest(data: ArrayLike<number>, dims: readonly number[], offset = 0): Numbers {
  if (dims.length === 0) throw new Error("A single number has no nested form.");
  const [count, ...rest] = dims;
  if (rest.length === 0) return Array.from({ length: count }, (_, k) => data[offset + k]);
  const size = rest.reduce((a, b) => a * b, 1);
  return Array.from({ length: count }, (_, k) => nest(data, rest, offset + k * size));
}

/** Return whether the weights of a model can be forced. Fast weights have signed read strengths, which are no distribution. */
export const canForce = ({ layers, config }: Pick<GraphContent, "layers" | "config">): boolean => layers > 0 && config.kind !== "fast_weights";

/** Return what the weights of a model mean. */
export const meaningOf = ({ config }: Pick<GraphContent, "config">): WeightMeaning => (config.kind === "fast_weights" ? "strength" : "distribution");

/** Return the weights and intermediate results among the outputs of a graph for one sequence. */
export function readAttended(results: Record<string, ModelTensor>): Attended {
  const found: Attended = { weights: [], maps: {}, trace: {} };
  for (const [name, { data, dims }] of Object.entries(results)) {
    const nested = (): Numbers => nest(data as Float32Array | Float64Array, dims.slice(1));
    if (name.startsWith(TRACE)) found.trace[name.slice(TRACE.length)] = nested();
    else if (name in MAP_NAMES) found.maps[MAP_NAMES[name]] = nested() as number[][][][];
  }
  found.weights = found.maps.cross ?? [];
  return found;
}

/** A graph with the parameters of its runs. */
export abstract class GraphModel<Content extends GraphContent = GraphContent> {
  private readonly frames = new Map<LiveRun, Unpacked>();

  protected constructor(readonly content: Content, protected readonly session: Session) {}

  /** Unpack the parameters. */
  protected async unpackRuns(): Promise<void> {
    for (const run of this.content.runs) this.frames.set(run, await unpack(run.parameters));
  }

  /** Return a run by its index or name.
   *
   * @throws Error - if the model has no such run.
   */
  findRun(run: number | string = 0): LiveRun {
    const found = typeof run === "number" ? this.content.runs[run] : this.content.runs.find(({ name }) => name === run);
    if (!found) throw new Error(`run ${run}: this model has ${this.content.runs.map(({ name }) => name).join(", ")}.`);
    return found;
  }

  protected parameters(run: LiveRun, epoch: number = run.best_epoch): Float32Array<ArrayBuffer> {
    const frame = run.epochs.indexOf(epoch);
    if (frame < 0) throw new Error(`epoch ${epoch}: the page has the parameters of epochs ${run.epochs.join(", ")}.`);
    const frames = this.frames.get(run)!;
    const [, count] = frames.shape;
    return frames.row(frame, count);
  }

  /** Return the inputs of the graph that do not depend on what a step is. */
  protected feeds(length: number, steps: number, count: number, { force, epoch, run }: RunOptions): Record<string, ModelTensor> {
    const { layers, heads } = this.content;
    const parameters = this.parameters(this.findRun(run), epoch ?? undefined);
    const feeds: Record<string, ModelTensor> = {
      source_lengths: tensor("int64", new BigInt64Array(count).fill(BigInt(length)), [count]),
      parameters: tensor("float32", parameters, [parameters.length]),
      steps: tensor("int64", BigInt64Array.from([BigInt(steps)]), []),
    };
    if (canForce(this.content)) {
      const packed = repeatSteps(packForce(force, { steps, layers, heads, source: length }), steps, count);
      feeds.force = tensor("float32", packed, [steps, count, layers, heads, length]);
    } else if (force !== null && force !== undefined) {
      throw new Error(layers > 0 ? "Fast weights have signed read strengths, not a distribution over the source, so no weights can be forced." : "This model has no attention, so no weights can be forced.");
    }
    return feeds;
  }

  /** Return a parameter of a run at an epoch, as nested arrays; undefined if the model has none of that name. */
  parameter(name: string, run: LiveRun, epoch: number): Numbers | undefined {
    let start = 0;
    for (const [each, shape] of this.content.layout) {
      const size = shape.reduce((a, b) => a * b, 1);
      if (each === name) return nest(this.parameters(run, epoch), shape, start);
      start += size;
    }
    return undefined;
  }
}

/** Return an array (steps, 1, ...) as (steps, count, ...), with each row `count` times. */
function repeatSteps(array: Float32Array<ArrayBuffer>, steps: number, count: number): Float32Array<ArrayBuffer> {
  if (count === 1) return array;
  const size = array.length / steps;
  const repeated = new Float32Array(array.length * count);
  for (let t = 0; t < steps; t += 1) {
    for (let n = 0; n < count; n += 1) repeated.set(array.subarray(t * size, (t + 1) * size), (t * count + n) * size);
  }
  return repeated;
}

/** A model whose steps are vectors. */
export class LiveModel extends GraphModel<LiveModelContent> {
  /** Load a model.
   *
   * @throws Error - if the graph is damaged.
   */
  static async load(content: LiveModelContent): Promise<LiveModel> {
    const model = new LiveModel(content, await createSession(await decodeGzip(content.graph)));
    await model.unpackRuns();
    return model;
  }

  /** Check that a source has the form that the model accepts.
   *
   * @throws Error - if it has not.
   */
  checkSource(source: readonly (readonly number[])[]): void {
    const { features, fixed_source: fixed, max_length: longest } = this.content;
    if (!source.length) throw new Error("The source has no points.");
    if (source.some((point) => point.length !== features.length)) throw new Error(`Every source point must have ${features.length} values: ${features.join(", ")}.`);
    checkValues(source.flat());
    if (fixed !== null && source.length !== fixed) throw new Error(`The linear skip of this model needs sources of ${fixed} points; this one has ${source.length}.`);
    if (longest !== null && source.length > longest) throw new Error(`This Transformer has learned ${longest} positions; the source has ${source.length} points.`);
  }

  /** Forecast a source.
   *
   * @param source - (S, F), in units of the data.
   * @throws Error - if the source, the forced weights, the epoch or the run do not fit the model, or if the answer is not finite.
   */
  async run(source: readonly (readonly number[])[], options: RunOptions = {}): Promise<Answer> {
    this.checkSource(source);
    const { features, steps } = this.content;
    const [S, F] = [source.length, features.length];
    const feeds = { source: tensor("float64", Float64Array.from(source.flat()), [1, S, F]), ...this.feeds(S, steps, 1, options) };
    const results = await this.session.run(feeds, chooseOutputs(this.session.outputNames, options.outputs));
    const { data, dims } = results[FORECAST];
    const answer: Answer = { forecast: nest(data as Float64Array, dims.slice(1)) as number[][], ...readAttended(results) };
    checkAnswer(answer);
    return answer;
  }
}
