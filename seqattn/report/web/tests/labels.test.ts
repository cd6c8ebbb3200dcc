import { expect, it } from "vitest";
import { labelPositions } from "../src/labels";

// Over a range from 0 to 10 a label is 0.7 high.
const ENDS = [0, 10];

it("puts a label above its line, on the first side", () => {
  expect(labelPositions([5], ENDS, ["right", "left"])).toEqual([["right", "bottom"]]);
});

it("puts the lower of two close labels below its line, then on the other side", () => {
  expect(labelPositions([5, 5.1], ENDS, ["right", "left"])).toEqual([["right", "top"], ["right", "bottom"]]);
  expect(labelPositions([4.9, 5, 5.1], ENDS, ["right", "left"])).toEqual([["left", "bottom"], ["right", "top"], ["right", "bottom"]]);
});

it("gives equal lines different positions while there are any", () => {
  const positions = labelPositions([5, 5, 5, 5], ENDS, ["right", "left"]);
  expect(new Set(positions.map(String)).size).toBe(4);
  expect(labelPositions([5, 5, 5], ENDS, ["right"])[2]).toEqual(["right", "bottom"]);
});
