// What the live explorer shows, and its form in the fragment of the page's address.
import type { AttentionKind } from "../content";
import type { ForcedRow } from "./force";
import { ForcedRows } from "./weights";

/** A model at an epoch: indices of the graph and of the run, and the epoch. */
export interface Subject {
  model: number;
  run: number;
  epoch: number;
}

export interface ExplorerState {
  /** The index of a test sequence; null: a source of the user's own. */
  example: number | null;
  /** (S, F), in units of the data. */
  source: number[][];
  /** (T, G), NaN where it is not known; null: unknown. */
  truth: number[][] | null;
  /** Whether the source differs from that of the test sequence. */
  isChanged: boolean;
  /** One to four models; weights are forced in all of them. */
  subjects: Subject[];
  force: ForcedRows;
  kind: AttentionKind;
  layer: number;
  head: number;
  /** The chosen step and source point, counted from 0. */
  step: number;
  point: number;
}

/** The part of the state that a link keeps. Short keys, since it is in the address. */
interface Shared {
  /** Example, source if changed, and whether it is changed. */
  e: number | null;
  s?: number[][];
  f?: ForcedRow[];
  m: [model: number, run: number, epoch: number][];
  k: AttentionKind;
  v: [layer: number, head: number, step: number, point: number];
}

const PREFIX = "#state=";
const MAX_INDEX = 1e6;

/** Return the fragment of the address that restores a state. */
export function toFragment(state: ExplorerState): string {
  const shared: Shared = {
    e: state.example,
    m: state.subjects.map(({ model, run, epoch }) => [model, run, epoch]),
    k: state.kind,
    v: [state.layer, state.head, state.step, state.point],
  };
  if (state.isChanged || state.example === null) shared.s = state.source;
  if (state.force.size) shared.f = state.force.list;
  return PREFIX + encodeURIComponent(JSON.stringify(shared));
}

const isRow = (row: unknown): row is number[] => Array.isArray(row) && row.every((value) => typeof value === "number" && Number.isFinite(value));
const isIndex = (value: unknown, count: number): value is number => typeof value === "number" && Number.isInteger(value) && value >= 0 && value < count;

export interface Limits {
  examples: number;
  features: number;
  /** The number of runs and the recorded epochs of each model. */
  runs: number[][][];
}

const isSource = (source: unknown, features: number): source is number[][] => Array.isArray(source) && source.length > 0 && source.every((row) => isRow(row) && row.length === features);
const isKind = (kind: unknown): kind is AttentionKind => typeof kind === "string" && ["cross", "encoder_self", "decoder_self"].includes(kind);
const isForced = ({ step, layer, head, weights }: ForcedRow): boolean => isRow(weights) && [step, layer, head].every((value) => isIndex(value, MAX_INDEX));

/** A state that was read from a fragment; `source` is null for that of the example. */
export type RestoredState = Pick<ExplorerState, "example" | "subjects" | "kind" | "layer" | "head" | "step" | "point" | "force"> & { source: number[][] | null };

function readSubjects(m: unknown, { runs }: Limits): Subject[] | null {
  if (!Array.isArray(m) || m.length < 1 || m.length > 4 || !m.every(isRow)) return null;
  const subjects = m.map(([model, run, epoch]) => ({ model, run, epoch }));
  return subjects.every(({ model, run, epoch }) => isIndex(model, runs.length) && isIndex(run, runs[model].length) && runs[model][run].includes(epoch)) ? subjects : null;
}

function check({ e, s, f = [], m, k, v }: Partial<Shared>, limits: Limits): RestoredState | null {
  const hasExample = e === null ? s !== undefined : isIndex(e, limits.examples);
  const hasSource = s === undefined || isSource(s, limits.features);
  const subjects = readSubjects(m, limits);
  if (!hasExample || !hasSource || !subjects || !isKind(k) || !isRow(v) || !v.every((value) => isIndex(value, MAX_INDEX)) || !f.every(isForced)) return null;
  const force = new ForcedRows();
  for (const row of f) force.set(row.step, row.layer!, row.head!, row.weights);
  const [layer, head, step, point] = v;
  return { example: e ?? null, source: s ?? null, subjects, force, kind: k, layer, head, step, point };
}

/** Read a fragment that `toFragment` wrote; null if it is none, or does not fit the page. */
export function fromFragment(fragment: string, limits: Limits): RestoredState | null {
  if (!fragment.startsWith(PREFIX)) return null;
  try {
    return check(JSON.parse(decodeURIComponent(fragment.slice(PREFIX.length))) as Partial<Shared>, limits);
  } catch {
    return null;
  }
}
