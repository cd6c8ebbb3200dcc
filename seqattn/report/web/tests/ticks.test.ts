import { describe, expect, it } from "vitest";
import { integerTicks, logTicks } from "../src/ticks";

describe("logTicks", () => {
  it("has no ticks of its own on a linear axis", () => {
    expect(logTicks(false, [1, 2])).toEqual({ tickformat: "~g" });
  });

  it("steps through 1, 2 and 5 of each power of ten in a wide range", () => {
    for (const values of [[1, 5.1], [0.01, 100], [3], [2, 2]]) expect(logTicks(true, values).dtick).toBe("D2");
  });

  it.each([
    [[0.21, 0.29], 0.02],
    [[1, 4.9], 1],
    [[0.0101, 0.0103], 5e-5],
  ])("takes equal steps in the small range %j", (values, step) => {
    const { dtick } = logTicks(true, values);
    expect(dtick).toMatch(/^L/);
    expect(Number(String(dtick).slice(1))).toBeCloseTo(step, 12);
  });

  it("ignores what a log axis cannot show", () => {
    expect(logTicks(true, [0, -1, null, undefined, NaN, 0.21, 0.29])).toEqual(logTicks(true, [0.21, 0.29]));
    expect(logTicks(true, []).dtick).toBe("D2");
  });
});

it("numbers few epochs one by one", () => {
  expect(integerTicks(12)).toEqual({ tickformat: "d", dtick: 1 });
  expect(integerTicks(13)).toEqual({ tickformat: "d" });
});
