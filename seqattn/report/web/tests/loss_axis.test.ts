import { describe, expect, it } from "vitest";
import { lossAxis } from "../src/loss_axis";

describe("lossAxis", () => {
  it("omits a noise floor of 0 from a logarithmic axis, and says so", () => {
    const axis = lossAxis(true, [0.31, 0.33], [["noise floor", 0], ["mean", 0.36]]);
    expect(axis.axis).toMatchObject({ type: "log", dtick: "L0.01" });
    expect(axis.references).toEqual([["mean", 0.36]]);
    expect(axis.note).toBe("The logarithmic scale has no place for 0 and for values far below the losses. It omits: noise floor (0).");
    expect(axis.coordinate(0.1)).toBeCloseTo(-1, 12);
  });

  it("omits a reference that would squeeze the losses, not one that is a little lower", () => {
    const axis = lossAxis(true, [0.3, NaN, null], [["rounding", 4.4e-30], ["floor", 1e-5], ["negative", -1]]);
    expect(axis.references).toEqual([["floor", 1e-5]]);
    expect(axis.note).toMatch(/It omits: rounding \(4\.40e\u221230\), negative \(\u22121\.00\)\.$/);
  });

  it("shows everything on a linear axis", () => {
    const axis = lossAxis(false, [0, 0.3], [["noise floor", 0]]);
    expect(axis.axis.type).toBe("linear");
    expect(axis.references).toEqual([["noise floor", 0]]);
    expect(axis.note).toBe("");
    expect([axis.shows(0), axis.coordinate(0)]).toEqual([true, 0]);
  });

  it("counts losses of 0 on a logarithmic axis", () => {
    expect(lossAxis(true, [0, 0.3], []).note).toMatch(/omits: 1 loss of 0\.$/);
    const axis = lossAxis(true, [0, 0, 0.3], []);
    expect(axis.note).toMatch(/omits: 2 losses of 0\.$/);
    expect([0, -1, NaN, 0.1].map((loss) => axis.shows(loss))).toEqual([false, false, false, true]);
  });

  it("is linear without a positive loss", () => {
    const axis = lossAxis(true, [0, 0], [["noise floor", 0]]);
    expect(axis.axis.type).toBe("linear");
    expect(axis.references).toEqual([["noise floor", 0]]);
    expect(axis.note).toBe("No loss is above 0, so the scale is linear.");
    expect(lossAxis(true, [], []).axis.type).toBe("linear");
  });

  it("has no note if it shows everything", () => {
    expect(lossAxis(true, [0.1, 0.2], [["noise floor", 0.01]]).note).toBe("");
  });
});
