// The types of the JSON data in the page, which seqattn/report/content writes, and functions that unpack the arrays.

import type { LiveContent } from "./live/content";

/** A compressed array in base64. The values are float32 or float64 (32 or 64 bits; all first bytes, then all second bytes, ...), or integers that represent values from `low` to `high` (8 or 16 bits). */
export interface Packed {
  shape: number[];
  bits: 8 | 16 | 32 | 64;
  data: string;
  low?: number;
  high?: number;
  decimals?: number;
}

/** An unpacked array. Cells without a value are NaN. */
export interface Unpacked {
  shape: number[];
  low: number;
  high: number;
  decimals: number;
  at(...indices: number[]): number;
  /** Return the numbers of one row of a float32 array (rows, count). */
  row(index: number, count: number): Float32Array<ArrayBuffer>;
}

export type WeightMeaning = "distribution" | "strength";
export type AttentionKind = "cross" | "encoder_self" | "decoder_self";

/** The times of the source and target steps as numbers. A date is a number of milliseconds since 1970 in UTC. */
export interface Times {
  is_date: boolean;
  source: Packed;
  target: Packed;
}

export interface Examples {
  ids: string[];
  labels: string[];
  features: string[];
  target_features: string[];
  units: Record<string, string>;
  /** The name with the unit of each feature that has a unit, by feature name. */
  named: Record<string, string>;
  /** Whether the path is drawn in the plane of the two features. */
  plane: boolean;
  source: Packed;
  target: Packed;
  forecast: Packed;
  /** The times of the steps; null if the steps are counted from 1. */
  times: Times | null;
  source_lengths: number[];
  target_lengths: number[];
  losses: (number | null)[];
  total: number;
}

export interface Curves {
  epoch: number[];
  training: number[];
  validation: number[];
  teacher_forced: number[];
  best_epoch?: number;
  floor?: number | null;
  baseline?: [name: string, loss: number];
}

export interface AttentionHistory {
  epochs: number[];
  ids: string[];
  labels: string[];
  source_lengths: number[];
  target_lengths: number[];
  alignment: number[][] | null;
  meaning: WeightMeaning;
  weights: Packed;
}

/** Losses by group: [group, number of sequences, mean loss]. */
export interface GroupLosses {
  name: string;
  rows: [group: string, count: number, loss: number][];
}

/** The results of a finished run. */
export interface Results {
  unit_of_one: string;
  examples: Examples;
  maps: Partial<Record<AttentionKind, Packed>>;
  meaning: WeightMeaning;
  alignment: number[][] | null;
  worst: number[];
  classes: GroupLosses[];
  by_step: number[];
}

/** The attention weights and the contributions of source steps to the output of one test sequence. */
export interface ContributionsOfSequence {
  /** The index of the test sequence. */
  example: number;
  name: string;
  /** The symbols; empty for vectors. */
  source: string[];
  output: string[];
  /** Method -> [output step][source step], shares of the row. */
  maps: Record<string, number[][]>;
  /** The largest difference between the sum of the integrated gradients and the difference that they divide. */
  error: number;
}

export interface Contributions {
  /** Whether an output step is a symbol, not a vector. */
  of_symbols: boolean;
  is_signed: boolean;
  sequences: ContributionsOfSequence[];
}

export interface RunContent extends Partial<Results> {
  kind: "run";
  name: string;
  /** The folder that was given to `seqattn report`. */
  path?: string;
  unit: string;
  /** The name of the loss; absent in pages of earlier versions. */
  loss_name?: string;
  /** The summary of a run of symbols; null or absent for points. */
  symbols?: object | null;
  curves: Curves;
  attention_history?: AttentionHistory | null;
  /** null if the model has no gradient, or if its sequences are too long. */
  contributions?: Contributions | null;
  live?: LiveContent | null;
}

export type FinishedRun = RunContent & Results;

/** Return whether a run has forecasts to show. */
export const hasResults = (content: RunContent): content is FinishedRun => content.examples !== undefined;

export interface SeedPoint {
  seed: number;
  loss: number;
  forced: number;
  best_epoch: number;
  beats: boolean;
  path: string;
  link: string;
  page: boolean;
  curve?: [epoch: number, loss: number][];
  weights?: (number | null)[][];
  part?: string;
  signed?: boolean;
}

export interface Variant {
  name: string;
  points: SeedPoint[];
  missing: number[];
  diverged?: number;
  /** null if the value is infinite, because too many seeds diverged. */
  median: number | null;
  interval?: [low: number | null, high: number | null] | null;
}

export interface ComparisonContent {
  kind: "comparison";
  name: string;
  unit: string;
  /** The name of the loss; absent in pages of earlier versions. */
  loss_name?: string;
  path: string;
  variants: Variant[];
  references: [name: string, loss: number][];
  live?: LiveContent | null;
}

/** The content of a page that shows several runs side by side. */
export interface RunsContent {
  kind: "runs";
  name: string;
  unit: string;
  live: LiveContent;
}

export type Content = RunContent | ComparisonContent | RunsContent;

export function readContent(): Content {
  return JSON.parse(document.getElementById("data")!.textContent) as Content;
}

/** Decode base64. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const { fromBase64 } = Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  if (fromBase64) return fromBase64.call(Uint8Array, text);
  const letters = atob(text); // browsers before 2025
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k);
  return bytes;
}

/** Decompress bytes.
 *
 * @throws TypeError - the bytes are not a whole stream of the format.
 */
export async function decompress(bytes: Uint8Array<ArrayBuffer>, format: CompressionFormat): Promise<ArrayBuffer> {
  const { readable, writable } = new DecompressionStream(format);
  const writer = writable.getWriter();
  // A failure reaches the reader, too, so that the writer's own need not be handled.
  const ignore = (): void => undefined;
  writer.write(bytes).catch(ignore);
  writer.close().catch(ignore);
  // Firefox reports a failure that a Response reads to the console, even if it is handled.
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const reader = readable.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) chunks.push(next.value);
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole.buffer;
}

/** Return numbers of a size in bytes, of which all first bytes come first, then all second bytes, and so on. */
function joinBytes(planes: Uint8Array<ArrayBuffer>, size: number): ArrayBuffer {
  const joined = new Uint8Array(planes.length);
  const count = planes.length / size;
  for (let byte = 0; byte < size; byte += 1) {
    for (let k = 0; k < count; k += 1) joined[k * size + byte] = planes[byte * count + k];
  }
  return joined.buffer;
}

export async function unpack(packed: Packed): Promise<Unpacked> {
  const bytes = await decompress(decodeBase64(packed.data), "deflate");
  const raw = packed.bits >= 32 ? joinBytes(new Uint8Array(bytes), packed.bits / 8) : bytes;
  const kinds = { 8: Uint8Array, 16: Uint16Array, 32: Float32Array, 64: Float64Array };
  const values = new kinds[packed.bits](raw);
  const strides = packed.shape.map((_, k) => packed.shape.slice(k + 1).reduce((a, b) => a * b, 1));
  const most = packed.bits === 16 ? 65534 : 254;
  const { low = NaN, high = NaN, decimals = NaN } = packed;
  const decode = packed.bits >= 32
    ? (code: number): number => code
    : (code: number): number => (code > most ? NaN : low + (code / most) * (high - low));
  return {
    shape: packed.shape, decimals, low, high,
    at: (...indices) => decode(values[indices.reduce((sum, index, k) => sum + index * strides[k], 0)]),
    row: (index, count) => Float32Array.from(values.subarray(index * count, (index + 1) * count)),
  };
}

/** Select a matrix of an array by the first indices, and return its leading rows and columns with null for NaN. */
export function matrix(array: Unpacked, rows: number, columns: number, ...indices: number[]): (number | null)[][] {
  return Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => {
    const value = array.at(...indices, r, c);
    return Number.isNaN(value) ? null : value;
  }));
}
