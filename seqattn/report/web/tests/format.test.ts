import { describe, expect, it } from "vitest";
import { decimalExponent, escapeMarkup, formatNumber, formatValue, pointNames, sequenceNames, shorten, timeNames } from "../src/format";

describe("formatNumber", () => {
  it("keeps three significant digits, and writes a minus sign", () => {
    expect(formatNumber(0.010234)).toBe("0.0102");
    expect(formatNumber(-1.5)).toBe("\u22121.50");
    expect(formatNumber(1234.5, 2)).toBe("1.2e+3");
  });

  it("says none where there is no number", () => {
    for (const x of [NaN, Infinity, null, undefined]) expect(formatNumber(x)).toBe("none");
  });
});

describe("formatValue", () => {
  it.each([
    [1013.27, 5, "1013.27"], // a hundredth of the spread
    [1013.27, 0, "1013"],
    [0.0123456, 0, "0.0123"],
    [0, 0, "0"],
    [0, 2, "0.00"],
    [-0.5, 0, "\u22120.500"],
    [1e16, 1, "1.00e+16"],
    [1, 1e-9, "1.00"], // too many decimals
    [NaN, 1, "none"],
  ])("formats %d with a spread of %d as %s", (x, spread, text) => {
    expect(formatValue(x, spread)).toBe(text);
  });
});

it("finds the exponent of the first digit", () => {
  expect([345, 0.2, -0.01, 1].map(decimalExponent)).toEqual([2, -1, -2, 0]);
});

it("escapes markup and templates, and nothing twice", () => {
  expect(escapeMarkup("<b>&amp;%{x} 5%")).toBe("&lt;b&gt;&amp;amp;%&#123;x} 5%");
  expect(escapeMarkup(7)).toBe("7");
});

it("shortens in the middle to the given length", () => {
  expect(shorten("abcdefghij", 10)).toBe("abcdefghij");
  expect(shorten("abcdefghijk", 10)).toBe("abcd\u2026ghijk");
  expect(shorten("abcdefghijk", 9)).toBe("abcd\u2026hijk");
});

it("names points and sequences", () => {
  expect(pointNames(3)).toEqual(["point 1", "point 2", "point 3"]);
  expect(pointNames(2, 5)).toEqual(["point 5", "point 6"]);
  expect(sequenceNames(["a", "b"], ["", "square"])).toEqual(["a", "b: square"]);
});

describe("timeNames", () => {
  const [day, noon] = [Date.UTC(2024, 1, 29), Date.UTC(2024, 1, 29, 12, 30)];

  it("leaves hours out if all dates are at midnight", () => {
    expect(timeNames([day], true)).toEqual(["2024-02-29"]);
    expect(timeNames([day, noon], true)).toEqual(["2024-02-29 00:00", "2024-02-29 12:30"]);
  });

  it("keeps numbers", () => {
    expect(timeNames([-1, 1.5], false)).toEqual(["\u22121", "1.5"]);
  });
});
