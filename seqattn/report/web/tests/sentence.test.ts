import { describe as group, expect, it } from "vitest";
import { describeEpochs } from "../src/live/shared_controls";
import { isIndex } from "../src/live/force";
import type { Answer } from "../src/live/model";
import { checkAnswer, checkValues, chooseOutputs } from "../src/live/model";
import type { Scene, Shown } from "../src/live/scene";
import { describe } from "../src/live/sentence";
import type { ExplorerState } from "../src/live/state";
import { ForcedRows } from "../src/live/weights";

function shown(name: string, forecast: number[][], scale: number[]): Shown {
  const answer: Answer = { forecast, weights: [], maps: {}, trace: {} };
  return { name, colour: "", answer, own: answer, scale, meaning: "distribution" };
}

function scene(...models: Shown[]): Scene {
  const state: ExplorerState = { example: 0, source: [[0], [1]], truth: [[1], [2]], isChanged: false, subjects: [], force: new ForcedRows(), kind: "cross", layer: 0, head: 0, step: 0, point: 0, isRelative: false };
  return { state, current: state, shown: models, features: ["x"], targetFeatures: ["x"], units: {}, axisNames: {}, plane: false, hasTrace: false, alignment: [], times: [], canForce: true, trainedLength: 2 };
}

group("a source that is longer than every training source", () => {
  it("is called so", () => {
    const longer = scene(shown("a", [[1], [4]], [1]));
    expect(describe(longer)).not.toContain("training source");
    longer.state.source.push([2]);
    expect(describe(longer)).toContain("The source has 3 points, more than every training source: the longest has 2.");
  });
});

group("the errors of two models", () => {
  it("are in the scale of each model", () => {
    const text = describe(scene(shown("a", [[1], [4]], [1]), shown("b", [[1], [4]], [10])));
    expect(text).toContain("a: Mean squared error of the sequence: 2.00.");
    expect(text).toContain("b: Mean squared error of the sequence: 0.0200 in scaled units (2.00 in units of the data).");
    expect(text).toContain("cannot be compared");
    expect(describe(scene(shown("a", [[1], [4]], [1]), shown("b", [[1], [4]], [1])))).not.toContain("cannot be compared");
  });
});

group("numbers", () => {
  it("have the unit of the feature", () => {
    const found = scene(shown("a", [[1], [4]], [10]));
    found.units = { x: "ppmv" };
    const text = describe(found);
    expect(text).toContain("Forecast: x 1.00 ppmv (truth 1.00).");
    expect(text).toContain("0.0200 in scaled units (2.00 ppmv\u00b2).");
  });
});

group("forced weights", () => {
  it("are not called the choice of the model", () => {
    const forced = scene(shown("a", [[1], [4]], [1]));
    const maps = { cross: [[[[1, 0], [0.25, 0.75]]]] };
    forced.shown[0] = { ...forced.shown[0], answer: { ...forced.shown[0].answer, maps } };
    expect(describe(forced)).toContain("Forecast point 3 attends to source point 1 with 1.000");
    forced.state.force.set(1, 0, 0, [1, 0]);
    expect(describe(forced)).toContain("Forecast point 3 has weights that you forced, so they are not the model's choice: source point 1 with 1.000");
    forced.state.step = 1;
    expect(describe(forced)).toContain("Forecast point 4 attends to source point 2 with 0.750");
  });
});

group("the note below the slider of epochs", () => {
  const run = (name: string, epochs: number[], recorded: number, epoch: number, best = 20): Parameters<typeof describeEpochs>[0][number] => ({ name, epochs, recorded, epoch, best_epoch: best });

  it("names epochs that the page lacks", () => {
    expect(describeEpochs([run("a", [0, 10, 20], 21, 20)])).toBe("The page has the parameters of a at 3 of 21 recorded epochs; all would be too large.");
    expect(describeEpochs([run("a", [0, 10, 20], 3, 20)])).toBe("");
  });

  it("names the epoch of a model that is shown at another one", () => {
    expect(describeEpochs([run("a", [0, 20], 2, 0), run("b", [7], 1, 7, 7)])).toBe("b is shown after epoch 7, which had its lowest validation loss; the page has no other epoch of it.");
    expect(describeEpochs([run("a", [0, 20], 2, 0), run("b", [0, 20], 2, 0)])).toBe("");
    expect(describeEpochs([run("a", [20], 1, 20), run("b", [7], 1, 7, 7)])).toBe("");
  });
});

group("numbers that a model cannot use", () => {
  it.each([[1e308], [-1e16], [Infinity], [NaN], ["1"]])("%s is refused in a source", (value) => {
    expect(() => { checkValues([0, value]); }).toThrow(/value of the source must/);
  });

  it("are refused in an answer", () => {
    expect(() => { checkAnswer({ forecast: [[1], [NaN]], maps: {} }); }).toThrow("gives no number");
    expect(() => { checkAnswer({ forecast: [[1]], maps: { cross: [[[[NaN]]]] } }); }).toThrow("gives no number");
    checkAnswer({ forecast: [[1]], maps: { cross: [[[[1]]]] } });
    checkValues([1e15, -1e15, 0]);
  });
});

it("computes only the outputs that are asked for", () => {
  const names = ["forecast", "weights", "encoder_self", "trace/keys"];
  expect(chooseOutputs(names, undefined)).toEqual(names);
  expect(chooseOutputs(names, "weights")).toEqual(names.slice(0, 3));
  expect(chooseOutputs(names, "forecast")).toEqual(["forecast"]);
});

it("has indices that are whole numbers in range", () => {
  expect([0, 1, 2, -1, 0.5, "0", null, NaN].map((value) => isIndex(value, 2))).toEqual([true, true, false, false, false, false, false, false]);
});
