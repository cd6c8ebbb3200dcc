import { describe, expect, it } from "vitest";
import { softmax } from "../src/live/mechanism";
import { weightScale } from "../src/live/matrix";
import type { Flow } from "../src/live/mechanism_texts";
import { describePart, describeRow, plain, WORDS } from "../src/live/mechanism_texts";
import { splitTerms, termsOf } from "../src/live/glossary";

const FLOW: Flow = { labels: ["1 a", "2 b"], states: [[1], [2]], keys: [[1], [2]], values: [[1], [2]], query: [0.5, -0.25], scores: [1, 0], weights: [0.731, 0.269], context: [1.269], results: [{ name: "x", text: "0.900", share: 0.9 }] };

describe("the mechanism", () => {
  it("divides the scores by the temperature before the softmax", () => {
    expect(softmax([1, 0], 1)[0]).toBeCloseTo(1 / (1 + Math.exp(-1)), 12);
    expect(softmax([1, 0], 0.1)[0]).toBeCloseTo(1 / (1 + Math.exp(-10)), 12);
    expect(softmax([1000, 0], 10).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
  });

  it("says what a source step contributes, and whether the reader gave it its weight", () => {
    expect(describeRow(0, FLOW, false)).toBe("1 a: score 1.00, weight 0.731. So 0.731 times its value goes into the context.");
    expect(describeRow(0, FLOW, true)).toContain("which you gave it in place of the softmax of the scores");
  });

  it("shows the numbers of a part", () => {
    expect(describePart("query", FLOW)).toContain("0.500, \u22120.250");
    expect(describePart("result", FLOW)).toContain("x: 0.900");
  });

  it.each([true, false])("speaks in terms of the glossary (symbols: %s)", (hasSymbols) => {
    const names = termsOf(hasSymbols).map(({ name }) => name);
    for (const text of Object.values(WORDS)) {
      expect(plain(text)).not.toMatch(/[[\]|]/);
      for (const [k, part] of splitTerms(text).entries()) if (k % 2) expect(names).toContain(part.split("|").at(-1));
    }
  });

  it("has a glossary of symbols without points", () => {
    expect(termsOf(true).map(({ definition }) => definition).join(" ")).not.toMatch(/\bpoint|\ba output/);
  });
});

describe("the scale of the colours", () => {
  it("ends at 1, or at the largest weight if the reader wants it", () => {
    expect([weightScale([[0.05, 0.06]], "distribution", false).high, weightScale([[0.05, 0.06]], "distribution", true).high]).toEqual([1, 0.06]);
    expect(weightScale([[0.05, 0.06]], "distribution", false).colour(0.06)).toEqual(weightScale([new Array<number>(17).fill(0.06)], "distribution", false).colour(0.06));
  });

  it("is symmetric for read strengths", () => {
    const { low, high } = weightScale([[0.5, -1.84]], "strength", false);
    expect([low, high]).toEqual([-1.84, 1.84]);
  });
});
