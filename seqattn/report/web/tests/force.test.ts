import { describe, expect, it } from "vitest";
import { packForce } from "../src/live/force";
import { oneHotRow, setWeight, shuffleRow } from "../src/live/weights";

const SHAPE = { steps: 2, layers: 1, heads: 2, source: 3 };

describe("packForce", () => {
  it("is NaN without forced rows", () => {
    for (const force of [null, undefined, [null], [[null, null]], { rows: [] }]) {
      expect([...packForce(force, SHAPE)].every(Number.isNaN)).toBe(true);
    }
  });

  it("puts a row at its step, layer and head", () => {
    const rows = { rows: [{ step: 2, layer: 0, head: 1, weights: [0, 1, 0] }] };
    const packed = packForce(rows, SHAPE);
    expect([...packed.slice(9, 12)]).toEqual([0, 1, 0]);
    expect([...packed.slice(0, 9)].every(Number.isNaN)).toBe(true);
    expect(packForce([[null, [null, [0, 1, 0]]]], SHAPE)).toEqual(packed);
  });

  it("applies a row without layer and head to all", () => {
    const packed = packForce({ rows: [{ step: 1, weights: [1, 0, 0] }] }, SHAPE);
    expect([...packed.slice(0, 6)]).toEqual([1, 0, 0, 1, 0, 0]);
  });

  it.each([
    [{ rows: [{ step: 3, weights: [1, 0, 0] }] }, "the forecast has 2 steps"],
    [{ rows: [{ step: 1, head: 1, weights: [1, 0, 0] }, { step: 1, weights: [0, 1, 0] }] }, "step 1, layer 0, head 1: has two rows"],
    [{ rows: [{ step: 0, weights: [1, 0, 0] }] }, "the forecast has 2 steps"],
    [{ rows: [{ step: 1, head: 2, weights: [1, 0, 0] }] }, "head 2: the model has 2"],
    [{ rows: [{ step: 1, weights: [1, 0] }] }, "has 2 weights; the source has 3 points"],
    [{ rows: [{ step: 1, weights: [1, NaN, 0] }] }, "every weight must be a number"],
    [[[1, 0, 0]], "must be [layer][head][step][source]"],
  ])("refuses %j", (force, reason) => {
    expect(() => packForce(force as never, SHAPE)).toThrow(reason);
  });
});

describe("rows of weights", () => {
  it("keeps the sum at 1 when a weight is set", () => {
    expect(setWeight([0.5, 0.25, 0.25], 0, 0.8)).toEqual([0.8, 0.09999999999999998, 0.09999999999999998]);
    expect(setWeight([1, 0, 0], 0, 0.4)).toEqual([0.4, 0.3, 0.3]);
    expect(setWeight([0.3, 0.7], 1, 2)).toEqual([0, 1]);
    expect(setWeight([1], 0, 0.2)).toEqual([1]);
  });

  it("permutes and selects", () => {
    expect(shuffleRow([1, 2, 3], () => 0)).toEqual([2, 3, 1]);
    expect(oneHotRow(3, 1)).toEqual([0, 1, 0]);
  });
});
