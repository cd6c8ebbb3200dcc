import { describe, expect, it } from "vitest";
import type { ExplorerState, PointLimits } from "../src/live/state";
import { distinct, fromFragment, pageKey, toFragment, withFirst } from "../src/live/state";
import { ForcedRows } from "../src/live/weights";

const LIMITS: PointLimits = { page: "key", examples: [2, 3], features: 2, runs: [[[0, 20]], [[20]]], fixed: null, longest: null, steps: 2, layers: 1, heads: 1 };

function state(more: Partial<ExplorerState> = {}): ExplorerState {
  return { example: 0, source: [[0, 1], [0.1, 1 / 3]], truth: null, isChanged: true, subjects: [{ model: 0, run: 0, epoch: 20 }], force: new ForcedRows(), kind: "cross", layer: 0, head: 0, step: 1, point: 0, isRelative: false, ...more };
}

const fragment = (shared: unknown): string => `#state=${encodeURIComponent(JSON.stringify(shared))}`;
const GOOD = { p: "key", e: 0, m: [[0, 0, 20]], k: "cross", v: [0, 0, 1, 0] };

describe("a fragment restores", () => {
  it("a changed source, forced weights, models and epochs", () => {
    const force = new ForcedRows();
    force.set(2, 0, 0, [0.25, 0.75]);
    const subjects = [{ model: 0, run: 0, epoch: 0 }, { model: 1, run: 0, epoch: 20 }];
    const found = fromFragment(toFragment(state({ force, subjects, isRelative: true }), "key"), LIMITS)!;
    expect(found).toMatchObject({ example: 0, source: [[0, 1], [0.1, 1 / 3]], subjects, kind: "cross", layer: 0, head: 0, step: 1, point: 0, isRelative: true });
    expect(found.force.list).toEqual(force.list);
  });

  it("a source of the user's own", () => {
    expect(fromFragment(toFragment(state({ example: null }), "key"), LIMITS)).toMatchObject({ example: null, source: [[0, 1], [0.1, 1 / 3]] });
  });

  it("an unchanged sequence without its values", () => {
    const made = toFragment(state({ isChanged: false }), "key");
    expect(made).not.toContain("0.333");
    expect(fromFragment(made, LIMITS)).toMatchObject({ example: 0, source: null });
    expect(fromFragment(fragment(GOOD), LIMITS)).not.toBeNull();
  });
});

describe("a model is never shown beside itself", () => {
  const [a, b, c] = [0, 1, 2].map((model) => ({ model, run: 0, epoch: 20 }));

  it("after a choice of the first model", () => {
    expect(withFirst([a, b], b)).toEqual([b, a]);
    expect(withFirst([a, b], c)).toEqual([c, b]);
    expect(withFirst([a, b, c], c)).toEqual([c, b, a]);
    expect(withFirst([a], b)).toEqual([b]);
  });

  it("after a choice of the second model, or at another epoch", () => {
    expect(distinct([a, { ...a, epoch: 0 }])).toEqual([a]);
    expect(distinct([a, { ...a, run: 1 }])).toHaveLength(2);
  });

  it("after a link", () => {
    expect(fromFragment(fragment({ ...GOOD, m: [[0, 0, 20], [0, 0, 0], [1, 0, 20]] }), LIMITS)!.subjects.map(({ model }) => model)).toEqual([0, 1]);
  });
});

describe("a fragment is ignored that", () => {
  it.each([
    ["is none", "#summary"], ["is empty", "#state="], ["is no JSON", "#state=%7B"], ["has a broken escape", "#state=%E0%A4%A"],
    ["is markup", "#state=<script>alert(1)</script>"], ["is null", fragment(null)], ["is a number", fragment(7)], ["is a list", fragment([])],
    ["was cut off", toFragment(state(), "key").slice(0, -9)],
  ])("%s", (_, text) => {
    expect(fromFragment(text, LIMITS)).toBeNull();
  });

  it.each<[string, Record<string, unknown>]>([
    ["belongs to another page", { p: "other" }], ["has no page", { p: undefined }],
    ["has an unknown sequence", { e: 2 }], ["has a negative sequence", { e: -1 }], ["has half a sequence", { e: 0.5 }], ["has a sequence in words", { e: "0" }],
    ["has neither sequence nor source", { e: null }], ["has no sequence", { e: undefined }],
    ["has a source without points", { s: [] }], ["has a source in words", { s: "abc" }], ["has points of another size", { s: [[1, 2, 3]] }],
    ["has a value in words", { s: [["1", 2]] }], ["has no value", { s: [[null, 2]] }], ["has a value too large to draw", { s: [[1e300, 2]] }],
    ["has too many points", { s: new Array(5001).fill([0, 0]) }],
    ["has no model", { m: [] }], ["has an unknown model", { m: [[2, 0, 20]] }], ["has an unknown run", { m: [[0, 1, 20]] }], ["has an unknown epoch", { m: [[0, 0, 7]] }],
    ["has too many models", { m: new Array(5).fill([0, 0, 20]) }], ["has a model named __proto__", { m: [["__proto__", 0, 20]] }],
    ["has another attention", { k: "constructor" }], ["has no view", { v: undefined }], ["has half a view", { v: [0, 0] }], ["has a view below 0", { v: [0, 0, -1, 0] }],
    ["forces no list", { f: { length: 1 } }], ["forces nothing", { f: [null] }], ["forces too many weights", { f: [{ step: 1, layer: 0, head: 0, weights: [1, 0, 0] }] }],
    ["forces step 0", { f: [{ step: 0, layer: 0, head: 0, weights: [1, 0] }] }], ["forces an unknown step", { f: [{ step: 3, layer: 0, head: 0, weights: [1, 0] }] }],
    ["forces an unknown layer", { f: [{ step: 1, layer: 1, head: 0, weights: [1, 0] }] }], ["forces all heads", { f: [{ step: 1, layer: 0, weights: [1, 0] }] }],
    ["forces weights in words", { f: [{ step: 1, layer: 0, head: 0, weights: ["1", 0] }] }],
  ])("%s", (_, damage) => {
    expect(fromFragment(fragment({ ...GOOD, ...damage }), LIMITS)).toBeNull();
  });

  it("has a source length that a model cannot read", () => {
    const three = fragment({ ...GOOD, s: [[0, 0], [1, 1], [2, 2]] });
    expect(fromFragment(three, LIMITS)).not.toBeNull();
    expect(fromFragment(three, { ...LIMITS, fixed: 2 })).toBeNull();
    expect(fromFragment(three, { ...LIMITS, longest: 2 })).toBeNull();
  });
});

it("gives the parameters of a page a key", () => {
  const model = (data: string): Parameters<typeof pageKey>[0][number] => ({ sha256: "abc", runs: [{ name: "a", seed: 1, best_epoch: 3, epochs: [3], recorded: 1, parameters: { shape: [1, 1], bits: 32, data } }] });
  expect(pageKey([model("x")])).toBe(pageKey([model("x")]));
  expect(pageKey([model("x")])).not.toBe(pageKey([model("y")]));
});
