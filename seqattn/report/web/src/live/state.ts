// What the live explorer shows, and its form in the fragment of the page's address.
import type { AttentionKind } from "../content";
import type { GraphContent } from "./content";
import type { ForcedRow } from "./force";
import { isIndex } from "./force";
import { ForcedRows } from "./weights";

/** A model at an epoch: indices of the graph and of the run, and the epoch. */
export interface Subject {
  model: number;
  run: number;
  epoch: number;
}

const isSame = (one: Subject, other: Subject): boolean => one.model === other.model && one.run === other.run;

/** Return the subjects without those whose model is there already: a model beside itself shows nothing. */
export const distinct = (subjects: readonly Subject[]): Subject[] => subjects.filter((each, k) => subjects.findIndex((other) => isSame(each, other)) === k);

/** Return the subjects with another first one. If it was one of the others, the two change places. */
export function withFirst(subjects: readonly Subject[], first: Subject): Subject[] {
  const [before, ...others] = subjects;
  return distinct([first, ...others.map((each) => (isSame(each, first) ? before : each))]);
}

/** The part of the state that does not depend on what a step is. */
export interface ViewState {
  /** The index of a test sequence; null: a source of the user's own. */
  example: number | null;
  /** Whether the source differs from that of the test sequence. */
  isChanged: boolean;
  /** One to four models; weights are forced in all of them. */
  subjects: Subject[];
  force: ForcedRows;
  kind: AttentionKind;
  layer: number;
  head: number;
  /** The chosen step, counted from 0. */
  step: number;
  /** Whether the scale of the colours ends at the largest weight instead of 1. */
  isRelative: boolean;
}

/** Return a copy of a state. */
export function copyState<State extends ViewState>(state: State): State {
  const { force, ...others } = state;
  return { ...structuredClone(others), force: force.copy() } as State;
}

export interface ExplorerState extends ViewState {
  /** (S, F), in units of the data. */
  source: number[][];
  /** (T, G), NaN where it is not known; null: unknown. */
  truth: number[][] | null;
  /** The chosen source point, counted from 0. */
  point: number;
}

/** The part of the state that a link keeps. Short keys, since it is in the address. */
interface Shared {
  /** The key of the page. */
  p: string;
  /** Example, source if changed, and whether it is changed. */
  e: number | null;
  s?: number[][];
  f?: ForcedRow[];
  m: [model: number, run: number, epoch: number][];
  k: AttentionKind;
  v: [layer: number, head: number, step: number, point: number];
  /** 1: the scale of the colours ends at the largest weight. */
  r?: 1;
}

export const FRAGMENT_PREFIX = "#state=";
const MAX_INDEX = 1e6;
const MAX_POINTS = 5000;
/** As in files of the user's own; larger numbers cannot be drawn. */
export const MAX_VALUE = 1e15;

/** Return the fragment of the address that restores a state on the page with a key. */
export function toFragment(state: ExplorerState, page: string): string {
  const shared: Shared = {
    p: page,
    e: state.example,
    m: state.subjects.map(({ model, run, epoch }) => [model, run, epoch]),
    k: state.kind,
    v: [state.layer, state.head, state.step, state.point],
  };
  if (state.isChanged || state.example === null) shared.s = state.source;
  if (state.isRelative) shared.r = 1;
  if (state.force.size) shared.f = state.force.list;
  return FRAGMENT_PREFIX + encodeURIComponent(JSON.stringify(shared));
}

const isRow = (row: unknown): row is number[] => Array.isArray(row) && row.every((value) => typeof value === "number" && Math.abs(value) <= MAX_VALUE);

/** What a page can show, which a fragment must not exceed. */
export interface Limits {
  /** The key of the page; see `pageKey`. */
  page: string;
  /** The source length of each test sequence. */
  examples: number[];
  /** The recorded epochs of each run of each model. */
  runs: number[][][];
  /** The only source length of all models; null: any up to `longest`. */
  fixed: number | null;
  longest: number | null;
  /** The greatest number of steps, layers and heads of the models. */
  steps: number;
  layers: number;
  heads: number;
}

/** What a page of points can show. */
export interface PointLimits extends Limits {
  features: number;
}

function isSource(source: unknown, { features, fixed, longest }: PointLimits): source is number[][] {
  if (!Array.isArray(source) || source.length < 1 || source.length > (longest ?? MAX_POINTS)) return false;
  return (fixed === null || source.length === fixed) && source.every((row) => isRow(row) && row.length === features);
}
export const isKind = (kind: unknown): kind is AttentionKind => typeof kind === "string" && ["cross", "encoder_self", "decoder_self"].includes(kind);

export function isForced({ step, layer, head, weights }: ForcedRow, { steps, layers, heads }: Limits, points: number): boolean {
  return isRow(weights) && weights.length === points && isIndex(step - 1, steps) && isIndex(layer, layers) && isIndex(head, heads);
}

/** A state that was read from a fragment; `source` is null for that of the example. */
export type RestoredState = Pick<ExplorerState, "example" | "subjects" | "kind" | "layer" | "head" | "step" | "point" | "force" | "isRelative"> & { source: number[][] | null };

export function readSubjects(m: unknown, { runs }: Limits): Subject[] | null {
  if (!Array.isArray(m) || m.length < 1 || m.length > 4 || !m.every(isRow)) return null;
  const subjects = distinct(m.map(([model, run, epoch]) => ({ model, run, epoch })));
  return subjects.every(({ model, run, epoch }) => isIndex(model, runs.length) && isIndex(run, runs[model].length) && runs[model][run].includes(epoch)) ? subjects : null;
}

const isView = (v: unknown): v is Shared["v"] => isRow(v) && v.length === 4 && v.every((value) => isIndex(value, MAX_INDEX));

function check({ p, e, s, f = [], m, k, v, r }: Partial<Shared>, limits: PointLimits): RestoredState | null {
  if (p !== limits.page || (s !== undefined && !isSource(s, limits))) return null;
  if (e === null ? s === undefined : !isIndex(e, limits.examples.length)) return null;
  const points = s ? s.length : limits.examples[e!];
  const subjects = readSubjects(m, limits);
  if (!subjects || !isKind(k) || !isView(v) || !f.every((row) => isForced(row, limits, points))) return null;
  const force = new ForcedRows();
  for (const row of f) force.set(row.step, row.layer!, row.head!, row.weights);
  const [layer, head, step, point] = v;
  return { example: e ?? null, source: s ?? null, subjects, force, kind: k, layer, head, step, point, isRelative: r === 1 };
}

/** Read a fragment that `toFragment` wrote; null if it is none, or does not fit the page. */
export function fromFragment(fragment: string, limits: PointLimits): RestoredState | null {
  if (!fragment.startsWith(FRAGMENT_PREFIX)) return null;
  try {
    return check(JSON.parse(decodeURIComponent(fragment.slice(FRAGMENT_PREFIX.length))) as Partial<Shared>, limits);
  } catch {
    return null;
  }
}

const SAMPLE = 4096;

/** Return a key of the models and parameters of a page, so that a link of another page is not taken for one of this. */
export function pageKey(models: readonly Pick<GraphContent, "sha256" | "runs">[]): string {
  const parts = models.flatMap(({ sha256, runs }) => [sha256, ...runs.flatMap(({ name, seed, best_epoch: best, parameters: { data } }) => [name, seed, best, data.slice(0, SAMPLE), data.slice(-SAMPLE)])]);
  let hash = 0x811c9dc5; // FNV-1a, 32 bits
  for (const character of parts.join("\n")) hash = Math.imul(hash ^ character.codePointAt(0)!, 0x01000193) >>> 0;
  return hash.toString(36);
}
