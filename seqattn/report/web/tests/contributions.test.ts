import { describe, expect, it } from "vitest";
import type { ContributionsOfSequence } from "../src/content";
import { describeContributions, stepNames } from "../src/contributions";

const weights = [[0.25, 0.75, 0], [0.5, 0.125, 0.375]];
const gradient = [[-0.5, 0.25, 0.25], [1, 0, 0]];
const sequence = (more: Partial<ContributionsOfSequence>): ContributionsOfSequence =>
  ({ example: 0, name: "0", source: [], output: [], maps: { "attention weights": weights, "gradient x input": gradient }, error: 1e-5, ...more });

describe("the names of steps", () => {
  it("are symbols, of which spaces and the end are visible", () => {
    const names = stepNames(sequence({ source: ["a", " ", "b"], output: ["c", "<end>"] }));
    expect(names).toMatchObject({ rowLabels: ["c", "end"], columnLabels: ["a", "\u2423", "b"], isNumbered: false, down: "output", across: "source" });
  });

  it("are numbers of points, which the forecast continues", () => {
    expect(stepNames(sequence({}))).toMatchObject({ rowLabels: ["4", "5"], columnLabels: ["1", "2", "3"], isNumbered: true, down: "forecast point" });
  });
});

describe("the numbers of a cell", () => {
  it("are those of all heatmaps", () => {
    const points = sequence({});
    expect(describeContributions(points, stepNames(points), [0, 0])).toBe("Forecast point 4; source point 1: attention weight 0.2500, gradient x input \u22120.5000.");
    const words = sequence({ source: ["x", "y", "z"], output: ["a", "<end>"] });
    expect(describeContributions(words, stepNames(words), [1, 2])).toBe("Output symbol 2, \u201cend\u201d; source symbol 3, \u201cz\u201d: attention weight 0.3750, gradient x input 0.0000.");
  });
});
