import { describe, expect, it } from "vitest";
import { alternativesOf } from "../src/words/alternatives";
import type { WordAnswer } from "../src/words/model";
import { beamSearch, largest, logProbabilities } from "../src/words/decode";
import { isChosen } from "../src/words/scene";
import type { WordLimits, WordState } from "../src/words/state";
import { fromWordFragment, toWordFragment } from "../src/words/state";
import { END, UNKNOWN, visible, Vocabulary } from "../src/words/vocabulary";
import { ForcedRows } from "../src/live/weights";

const RESERVED = ["<pad>", "<begin>", "<end>", "<unknown>"];
const of = (unit: "character" | "word" | "bpe", symbols: string[], lowercase = false): Vocabulary => new Vocabulary({ unit, lowercase, symbols: [...RESERVED, ...symbols] });

describe("a vocabulary", () => {
  it("splits text into characters in form C, and a code point is one character", () => {
    const letters = of("character", ["e\u0301".normalize("NFC"), "\u{1f600}"]);
    expect(letters.split("e\u0301\u{1f600}").map((each) => letters.numberOf(each))).toEqual([4, 5]);
  });

  it("splits text into words in lower case, and takes no reserved symbol from a text", () => {
    const words = of("word", ["a", "b"], true);
    expect(words.split("  A b\t<end> ").map((each) => words.numberOf(each))).toEqual([4, 5, UNKNOWN]);
    expect(words.text([4, 5, END, 4])).toBe("a b");
  });

  it("joins the subwords that were learned first, the leftmost first", () => {
    // As `split_word("\u2581abab", rank)` of seqattn/data/subwords.py.
    const parts = of("bpe", ["\u2581", "a", "b", "ba", "ab", "\u2581a", "bab"]);
    expect(parts.split("abab")).toEqual(["\u2581a", "bab"]);
    expect(parts.join(parts.split("abab ba"))).toBe("abab ba");
  });

  it("shows spaces and the reserved symbols", () => {
    expect(["<end>", " ", "x"].map(visible)).toEqual(["end", "\u2423", "x"]);
  });
});

/** Logits of a tiny language of two symbols and an end, which depend on all symbols before. */
function tiny(beginning: readonly number[]): number[] {
  const sum = beginning.reduce((total, symbol, k) => total + (k + 1) * symbol, 0);
  return [0, 0, Math.sin(3 * sum) + 0.3 * beginning.length, -9, Math.cos(5 * sum), Math.sin(7 * sum + 1)];
}

describe("beam search", () => {
  const STEPS = 4;
  const ask = (beginnings: readonly (readonly number[])[]): Promise<number[][]> => Promise.resolve(beginnings.map(tiny));

  /** All outputs with an end, and their scores. */
  function all(beginning: number[] = [], logProbability = 0): { symbols: number[]; score: number }[] {
    if (beginning.at(-1) === END) return [{ symbols: beginning, score: logProbability / ((5 + beginning.length) / 6) ** 0.6 }];
    if (beginning.length === STEPS) return [];
    const next = logProbabilities(tiny(beginning));
    return [END, 3, 4, 5].flatMap((symbol) => all([...beginning, symbol], logProbability + next[symbol]));
  }

  it("finds what an exhaustive search finds, if the beam holds everything", async () => {
    const best = all().sort((a, b) => b.score - a.score).slice(0, 100);
    const found = (await beamSearch(ask, 100, STEPS)).filter(({ symbols }) => symbols.at(-1) === END);
    expect(found.length).toBe(best.length);
    for (const [k, each] of found.entries()) {
      expect(each.symbols).toEqual(best[k].symbols);
      expect(each.score).toBeCloseTo(best[k].score, 9);
    }
  });

  it("begins with the given symbols", async () => {
    const found = await beamSearch(ask, 3, STEPS, [5, 4]);
    expect(found.every(({ symbols }) => symbols[0] === 5 && symbols[1] === 4)).toBe(true);
  });

  it("gives padding and the begin no probability", () => {
    const found = logProbabilities([9, 9, 0, 0, 0, 0]).map(Math.exp);
    expect(found.slice(0, 2)).toEqual([0, 0]);
    expect(found[2]).toBeCloseTo(0.25, 12);
    expect(alternativesOf([9, 9, 0, 0, 1, 0], 2).map(({ symbol }) => symbol)).toEqual([4, 2]);
    expect(largest([1, 3, 3, 2], 3)).toEqual([1, 2, 3]);
  });
});

it("marks each symbol that the reader chose, and none that follows from it", () => {
  const rows = [[0, 0, 0, 0, 9, 1], [0, 0, 0, 0, 1, 9], [0, 0, 9, 0, 1, 1]];
  const of = (symbols: number[]): WordAnswer => ({ symbols, logits: rows, hypotheses: [], weights: [], maps: {}, trace: {} });
  const marks = (symbols: number[]): boolean[] => symbols.map((_, t) => isChosen({ answer: of(symbols), own: of([4, 4, END]) }, t));
  expect(marks([5, 5, 4])).toEqual([true, false, true]);
  expect(marks([4, 4, END])).toEqual([false, false, false]); // a beam writes another symbol than the greedy search
});

describe("a fragment of words", () => {
  const limits: WordLimits = { page: "key", examples: [2], runs: [[[0, 5]]], fixed: null, longest: 3, steps: 4, layers: 1, heads: 2, symbols: 6 };
  const force = new ForcedRows();
  force.set(1, 0, 1, [0.5, 0.5]);
  const state: WordState = {
    example: null, isChanged: true, subjects: [{ model: 0, run: 0, epoch: 5 }], force, kind: "cross", layer: 0, head: 1, step: 2, isRelative: true,
    source: ["a", "\u2423"], given: [4, 5], beam: 5, picture: "lines",
  };

  it("restores everything", () => {
    const found = fromWordFragment(toWordFragment(state, "key"), limits)!;
    const { force: rows, ...others } = found;
    expect(rows.list).toEqual(force.list);
    const { isChanged, force: own, ...expected } = state;
    expect([isChanged, own.size]).toEqual([true, 1]);
    expect(others).toEqual(expected);
  });

  it.each<[string, Partial<WordState>]>([
    ["a source that is too long", { source: ["a", "b", "c", "d"] }], ["no source", { source: [] }], ["an unknown symbol", { given: [6] }], ["more symbols than the model writes", { given: [4, 4, 4, 4, 4] }],
    ["a beam that the page lacks", { beam: 3 }], ["a head that does not exist", { head: 2 }], ["an epoch that the page lacks", { subjects: [{ model: 0, run: 0, epoch: 1 }] }],
  ])("is refused with %s", (_, change) => {
    expect(fromWordFragment(toWordFragment({ ...state, force: new ForcedRows(), ...change }, "key"), limits)).toBeNull();
  });

  it("of another page is refused", () => {
    expect(fromWordFragment(toWordFragment(state, "other"), limits)).toBeNull();
    expect(fromWordFragment("#state=%7B", limits)).toBeNull();
  });
});
