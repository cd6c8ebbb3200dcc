// ONNX Runtime Web, from the elements that the page embeds. Nothing is loaded from elsewhere.
import type * as Ort from "onnxruntime-common";
import { decodeBase64, decompress } from "../content";
import { messageOf } from "../format";

/** The input or output of a model: values in row-major order and their shape. */
export interface ModelTensor {
  type: "float32" | "float64" | "int64";
  data: Float32Array | Float64Array | BigInt64Array;
  dims: readonly number[];
}

/** A model that is ready to run. */
export interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  /** Compute the outputs, all or those that are named. Calls run one after the other. */
  run(inputs: Readonly<Record<string, ModelTensor>>, outputs?: readonly string[]): Promise<Record<string, ModelTensor>>;
  release(): Promise<void>;
}

/** A failure with a sentence for the reader of the page. */
export class RuntimeError extends Error {
  override readonly name = "RuntimeError";
}

type Runtime = typeof Ort;

const SCRIPT_ID = "ort-script";
const WASM_ID = "ort-wasm";
const FATAL = 4;

let runtime: Promise<Runtime> | undefined;

/** Return whether the page contains ONNX Runtime. */
export const hasRuntime = (): boolean => document.getElementById(SCRIPT_ID) !== null;

/** Return the decompressed bytes of base64 text with gzip data. */
export async function decodeGzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await decompress(decodeBase64(text.trim()), "gzip"));
}

async function embedded(id: string): Promise<Uint8Array<ArrayBuffer>> {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  const bytes = await decodeGzip(element.textContent);
  element.remove(); // frees the text, which is larger than the rest of the page
  return bytes;
}

async function load(): Promise<Runtime> {
  const [script, wasm] = await Promise.all([embedded(SCRIPT_ID), embedded(WASM_ID)]);
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  try {
    const ort = await import(address) as Runtime;
    ort.env.wasm.numThreads = 1; // threads need a page from a server, with cross-origin isolation
    ort.env.wasm.wasmBinary = wasm;
    ort.env.logLevel = "fatal";
    return ort;
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Return a tensor of 64-bit integers as numbers. They are numbers of symbols, which are small. */
function toNumbers({ type, data, dims }: ModelTensor): ModelTensor {
  return data instanceof BigInt64Array ? { type: "float64", data: Float64Array.from(data, Number), dims } : { type, data, dims };
}

/** Load ONNX Runtime once.
 *
 * @throws RuntimeError - the page has no intact runtime, or the browser cannot run it.
 */
export async function loadRuntime(): Promise<void> {
  await loaded();
}

function loaded(): Promise<Runtime> {
  runtime ??= load().catch((error: unknown) => {
    throw new RuntimeError(`The model cannot run in this browser: ONNX Runtime did not load (${messageOf(error)}).`);
  });
  return runtime;
}

/** Make a session from the bytes of an ONNX graph.
 *
 * @throws RuntimeError - the runtime does not load, or the bytes are not a graph that it can run.
 */
export async function createSession(graphBytes: Uint8Array): Promise<Session> {
  const ort = await loaded();
  let session: Ort.InferenceSession;
  try {
    // The export has optimized the graph. Another optimization lengthens the load and makes a run no faster.
    session = await ort.InferenceSession.create(graphBytes, { executionProviders: ["wasm"], graphOptimizationLevel: "disabled", logSeverityLevel: FATAL });
  } catch (error) {
    throw new RuntimeError(`The model in this page is damaged: ONNX Runtime cannot read its graph (${messageOf(error)}).`);
  }
  let last: Promise<unknown> = Promise.resolve();
  const runOnce = async (inputs: Readonly<Record<string, ModelTensor>>, outputs: readonly string[]): Promise<Record<string, ModelTensor>> => {
    const feeds: Record<string, Ort.Tensor> = {};
    for (const [name, { type, data, dims }] of Object.entries(inputs)) feeds[name] = new ort.Tensor(type, data, dims);
    const found = await session.run(feeds, outputs);
    return Object.fromEntries(Object.entries(found).map(([name, { type, data, dims }]) => [name, toNumbers({ type, data, dims } as ModelTensor)]));
  };
  return {
    inputNames: session.inputNames,
    outputNames: session.outputNames,
    run: (inputs, outputs = session.outputNames) => {
      const run = last.then(() => runOnce(inputs, outputs));
      last = run.catch(() => undefined);
      return run;
    },
    release: () => session.release(),
  };
}
