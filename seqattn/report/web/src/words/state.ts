// What the explorer of symbols shows, and its form in the fragment of the page's address.
import type { AttentionKind } from "../content";
import type { ForcedRow } from "../live/force";
import { isIndex } from "../live/force";
import type { Limits, ViewState } from "../live/state";
import { FRAGMENT_PREFIX, isForced, isKind, readSubjects } from "../live/state";
import { ForcedRows } from "../live/weights";

export type Picture = "heatmap" | "lines" | "heads";

export interface WordState extends ViewState {
  /** The symbols of the source, as they are written. */
  source: string[];
  /** Numbers of the first symbols of the output, which the reader chose. */
  given: number[];
  /** The number of beginnings that the search keeps; 1: greedy. */
  beam: number;
  picture: Picture;
}

/** The sizes of the beam that the page offers. */
export const BEAMS = [1, 2, 5, 10];
export const PICTURES: readonly Picture[] = ["heatmap", "lines", "heads"];
const MAX_SYMBOLS = 2000;

/** The part of the state that a link keeps. Short keys, since it is in the address. */
interface Shared {
  p: string;
  e: number | null;
  s?: string[];
  g?: number[];
  b?: number;
  f?: ForcedRow[];
  m: [model: number, run: number, epoch: number][];
  k: AttentionKind;
  v: [layer: number, head: number, step: number, picture: number];
  r?: 1;
}

/** Return the fragment of the address that restores a state on the page with a key. */
export function toWordFragment(state: WordState, page: string): string {
  const shared: Shared = {
    p: page, e: state.example, m: state.subjects.map(({ model, run, epoch }) => [model, run, epoch]), k: state.kind,
    v: [state.layer, state.head, state.step, PICTURES.indexOf(state.picture)],
  };
  if (state.isChanged || state.example === null) shared.s = state.source;
  if (state.given.length) shared.g = state.given;
  if (state.beam > 1) shared.b = state.beam;
  if (state.force.size) shared.f = state.force.list;
  if (state.isRelative) shared.r = 1;
  return FRAGMENT_PREFIX + encodeURIComponent(JSON.stringify(shared));
}

/** What a page of symbols can show. */
export interface WordLimits extends Limits {
  /** Size of the smallest target vocabulary. */
  symbols: number;
}

/** A state that was read from a fragment; `source` is null for that of the example. */
export type RestoredWords = Omit<WordState, "source" | "isChanged"> & { source: string[] | null };

const isText = (s: unknown, { longest }: Limits): s is string[] => Array.isArray(s) && s.length >= 1 && s.length <= (longest ?? MAX_SYMBOLS) && s.every((symbol) => typeof symbol === "string" && symbol !== "");
const areIndices = (list: unknown, counts: readonly number[]): list is number[] => Array.isArray(list) && list.length === counts.length && list.every((value, k) => isIndex(value, counts[k]));

/** Return whether the source of a fragment fits the page. */
function hasSource({ p, e, s }: Partial<Shared>, limits: WordLimits): boolean {
  if (p !== limits.page || (s !== undefined && !isText(s, limits))) return false;
  return e === null ? s !== undefined : isIndex(e, limits.examples.length);
}

/** Return whether chosen symbols and forced weights fit the page. */
function hasChoices({ e, s, g = [], b = 1, f = [] }: Partial<Shared>, limits: WordLimits): boolean {
  const length = s ? s.length : limits.examples[e!];
  if (!Array.isArray(g) || !Array.isArray(f) || !BEAMS.includes(b) || g.length > limits.steps) return false;
  return g.every((symbol) => isIndex(symbol, limits.symbols)) && f.every((row) => isForced(row, limits, length));
}

function check(shared: Partial<Shared>, limits: WordLimits): RestoredWords | null {
  const { e, s, g = [], b = 1, f = [], m, k, v, r } = shared;
  const { layers, heads } = limits;
  if (!hasSource(shared, limits) || !hasChoices(shared, limits) || !isKind(k)) return null;
  const subjects = readSubjects(m, limits);
  if (!subjects || !areIndices(v, [Math.max(1, layers), Math.max(1, heads), MAX_SYMBOLS, PICTURES.length])) return null;
  const force = new ForcedRows();
  for (const row of f) force.set(row.step, row.layer!, row.head!, row.weights);
  const [layer, head, step, picture] = v;
  return { example: e ?? null, source: s ?? null, given: g, beam: b, subjects, force, kind: k, layer, head, step, picture: PICTURES[picture], isRelative: r === 1 };
}

/** Read a fragment that `toWordFragment` wrote; null if it is none, or does not fit the page. */
export function fromWordFragment(fragment: string, limits: WordLimits): RestoredWords | null {
  if (!fragment.startsWith(FRAGMENT_PREFIX)) return null;
  try {
    return check(JSON.parse(decodeURIComponent(fragment.slice(FRAGMENT_PREFIX.length))) as Partial<Shared>, limits);
  } catch {
    return null;
  }
}
