import { describe, expect, it } from "vitest";
import { splitTerms, TERMS } from "../src/live/glossary";
import type { Answer } from "../src/live/model";
import { wrap } from "../src/live/picture";
import type { Scene, Shown } from "../src/live/scene";
import type { ExplorerState } from "../src/live/state";
import type { TourContent } from "../src/live/content";
import type { Facts } from "../src/live/tour_texts";
import { afterEpoch, afterForce, afterLook, afterMove, afterPlain, tourSteps } from "../src/live/tour_texts";
import { ForcedRows } from "../src/live/weights";

const FACTS: Facts = { plane: true, attention: "distribution", canForce: true, hasEpochs: true, hasSteps: true, isNumbered: true, plain: "no attention", attending: null, isOtherShown: false, isRecurrent: true, isTouch: false, data: null };
const DATA: TourContent = { start: null, average: "Over 9 sequences, 1 with its own weights.", conclusion: ["So it needs them."], commands: [["Train it:", "seqattn train a/config.yaml --set model.attention=null"]], record: [["Record it:", "seqattn train a/config.yaml --set training.record_attention=5"]] };
const ALL: Facts[] = [true, false].flatMap((plane) => (["none", "distribution", "strength"] as const).flatMap((attention) => [true, false].flatMap((hasEpochs) => [null, "p"].map((plain) => ({ plane, attention, canForce: attention === "distribution", hasEpochs, hasSteps: true, isNumbered: true, plain, attending: null, isOtherShown: false, isRecurrent: true, isTouch: false, data: hasEpochs ? DATA : null })))));

const termsOf = (text: string): string[] => splitTerms(text).filter((_, k) => k % 2).map((part) => part.split("|").at(-1)!);
const names = TERMS.map(({ name }) => name);

describe("tourSteps", () => {
  it.each(ALL)("has the steps of the page, whose terms are in the glossary: %o", (facts) => {
    const steps = tourSteps(facts);
    expect(steps).toHaveLength(3 + Number(facts.canForce) + Number(facts.hasEpochs));
    for (const { about, title } of steps) {
      expect(title).not.toBe("");
      expect(names).toEqual(expect.arrayContaining(termsOf(about)));
    }
  });

  it("has no step that the page cannot do", () => {
    const named = (facts: Partial<Facts>): string => tourSteps({ ...FACTS, ...facts }).map(({ step, task }) => (task === null ? `(${step})` : step)).join(" ");
    expect(named({})).toBe("move look forbid before compare");
    expect(named({ hasEpochs: false, plain: null })).toBe("move look forbid (compare)");
    expect(named({ attention: "none", canForce: false, plain: null })).toBe("move look before (compare)");
    expect(named({ attention: "strength", canForce: false, hasSteps: false })).toBe("move before compare");
  });

  it("speaks of no mark that the page lacks", () => {
    const words = JSON.stringify(tourSteps({ ...FACTS, isNumbered: false, plain: null, data: DATA }));
    expect(words).not.toMatch(/numbered|bright cell|dark cell|You have changed/);
    expect(tourSteps(FACTS)[0].about).toContain("numbered circles");
  });

  it("says how to make what is missing", () => {
    const steps = tourSteps({ ...FACTS, hasEpochs: false, plain: null, data: DATA });
    expect(steps[3].commands).toEqual([...DATA.commands, ...DATA.record]);
    expect(tourSteps({ ...FACTS, plain: null, data: DATA })[4].commands).toEqual(DATA.commands);
  });

  it("ends with the answer of the data, if there is one", () => {
    const data = { ...DATA, conclusion: ["So it needs them.", "This has one seed."] };
    expect(tourSteps({ ...FACTS, plain: null, data })[4]).toMatchObject({ verdict: "So it needs them.", conclusion: [DATA.average, "This has one seed."] });
    expect(tourSteps({ ...FACTS, data })[4]).toMatchObject({ verdict: "So it needs them.", conclusion: ["This has one seed."] });
    expect(tourSteps({ ...FACTS, plain: null })[4]).toMatchObject({ verdict: undefined, conclusion: [] });
  });

  it("leads from a model without attention to one with it", () => {
    const none = { ...FACTS, attention: "none" as const, canForce: false, plain: null, data: DATA };
    const beside = tourSteps({ ...none, attending: "squares" });
    expect(beside[1].action).toEqual({ name: "Show squares instead", act: "attending" });
    expect(beside[3].task).toContain("Choose squares under Compare with");
    expect(tourSteps({ ...none, attending: "squares", isOtherShown: true })[3].task).toMatch(/^Go through/);
    const alone = tourSteps(none);
    expect(alone[1].commands).toEqual(DATA.commands);
    expect(alone[3].commands).toEqual(DATA.commands);
  });

  it("does not take the loss of one trained model for a need of attention", () => {
    expect(tourSteps(FACTS)[2].about).toContain("how much this one model depends on the look");
    expect(tourSteps(FACTS)[2].about).toContain("Whether attention is needed is the question of the last step");
  });

  it("has no keys for a touch screen", () => {
    expect(JSON.stringify(tourSteps(FACTS))).toContain("With the keyboard");
    expect(JSON.stringify(tourSteps({ ...FACTS, isTouch: true }))).not.toContain("keyboard");
  });

  it("continues a path only in a plane", () => {
    expect(JSON.stringify(tourSteps({ ...FACTS, plane: false }))).not.toContain("the path");
    expect(tourSteps(FACTS)[0].about).toContain("continues the path");
  });
});

const answer = (forecast: number[][], weights: number[][] = [[0.9, 0.1], [0.5, 0.5]]): Answer => ({ forecast, weights: [[weights]], maps: { cross: [[weights]] }, trace: {} });

const shown = (name: string, forced: Answer, own = forced, scale = [1]): Shown => ({ name, colour: "#000", answer: forced, own, scale, meaning: "distribution" });

function scene(forecast: number[][], more: Partial<Scene> = {}): Scene {
  const one = answer(forecast);
  const state: ExplorerState = { example: 0, source: [[0], [1]], truth: [[1], [2]], isChanged: false, subjects: [{ model: 0, run: 0, epoch: 0 }], force: new ForcedRows(), kind: "cross", layer: 0, head: 0, step: 0, point: 1, isRelative: false };
  return {
    state, current: state,
    shown: [shown("a", one)],
    features: ["x"], targetFeatures: ["x"], units: {}, axisNames: {}, plane: false, hasTrace: true, alignment: [], times: [], canForce: true, trainedLength: 2, ...more,
  };
}

describe("the words after a step have the current numbers", () => {
  it("after a move", () => {
    expect(afterMove(scene([[1], [2.5]]), [[1], [2]])).toBe("You moved source point 2, and the forecast moved by up to 0.50. The model computed it again. So this point matters to the forecast.");
    const changed = scene([[1], [2.5]]);
    changed.state.truth = null;
    expect(afterMove(changed, [[1], [2]])).toContain("The crosses are gone");
    expect(afterMove(changed, [[1], [2]], { data: { ...DATA, outside: "No such training data." } })).toContain("continues. No such training data. Next starts");
    expect(afterMove(scene([[1], [2.001]]), [[1], [2]])).toContain("That is little");
  });

  it("after a look", () => {
    expect(afterLook(scene([[1], [2]], { alignment: [0, 1] }), FACTS)).toBe("Forecast point 3 gives source point 1 the largest weight, 0.900 of 1. It reads from other points, too, but less. The truth depends on that point: it has the orange frame.");
    expect(afterLook(scene([[1], [2]], { alignment: [1, 1] }), FACTS)).toContain("The truth depends on point 2");
    expect(afterLook(scene([[1], [2]]), { ...FACTS, attention: "strength" })).toBe("Forecast point 3 reads source point 1 most strongly: 0.900.");
    expect(afterLook(scene([[1], [2]]), { ...FACTS, attention: "none" })).toContain("Forecast point 3 is x 1.00.");
  });

  it("after a look of a scene whose points look at different source points", () => {
    const each = answer([[1], [2]], [[0.05, 0.95], [0.8, 0.2]]);
    expect(afterLook(scene([], { shown: [shown("a", each)] }), FACTS)).toBe("Forecast point 3 gives source point 2 the largest weight, 0.950 of 1. So it looks almost only there. No two forecast points look most at the same source point.");
  });

  it("after a look at weights that are not clear", () => {
    const seen = (...rows: number[][]): string => afterLook(scene([], { shown: [shown("a", answer([[1], [2]], rows))] }), FACTS);
    expect(seen([0.7, 0.3], [0.5, 0.5])).toContain("It reads from other points, too, but less.");
    expect(seen([0.55, 0.45], [0.5, 0.5])).toContain("looks everywhere almost alike");
    expect(seen([0.7, 0.3], [0.45, 0.55])).not.toContain("No two");
    expect(seen([1, 0], [0, 1])).toContain("1.000 of 1. So it looks only there.");
    expect(seen([1], [1])).toContain("There is no other source point.");
  });

  it("after a look at equal largest weights", () => {
    const seen = (attention: Facts["attention"], ...rows: number[][]): string => afterLook(scene([], { shown: [shown("a", answer([[1], [2]], rows))], alignment: [0, 1] }), { ...FACTS, attention });
    expect(seen("distribution", [0.5, 0.5], [0.5, 0.5])).toBe("Forecast point 3 gives 2 source points the largest weight, 0.500 of 1. So it looks everywhere almost alike. The truth depends on point 1: it has the orange frame.");
    expect(seen("distribution", [0.45, 0.45, 0.1], [0, 0.5, 0.5])).not.toContain("No two");
    expect(seen("strength", [-0.5, 0.5], [0.5, 0.5])).toBe("Forecast point 3 reads 2 source points most strongly: \u22120.500, 0.500.");
  });

  it("after a look at forced weights", () => {
    const forced = scene([], { shown: [shown("a", answer([[1], [2]], [[1, 0], [0.2, 0.8]]))] });
    forced.state.force.set(1, 0, 0, [1, 0]);
    expect(afterLook(forced, FACTS)).toMatch(/^You forced the weights of forecast point 3, so they do not show where the model looks/);
    forced.state.step = 1;
    expect(afterLook(forced, FACTS)).toMatch(/less\. You forced the weights of another forecast point, which may change these\.$/);
  });

  it("after forcing the weights that the model gives anyway", () => {
    const [own, forced] = [answer([[1], [2]]), answer([[1], [2.0001]], [[0.91, 0.09], [0.5, 0.5]])];
    expect(afterForce(scene([], { shown: [shown("a", forced, own)] }))).toContain("The model gives almost the same weights without you");
  });

  it("after forcing weights", () => {
    const [own, forced] = [answer([[1], [2.1]]), answer([[1], [3]])];
    const text = afterForce(scene([[1], [3]], { shown: [shown("a", forced, own)] }));
    expect(text).toBe("The dashed line is the forecast with the model's [own weights]. With yours, it moves by up to 0.90. The [mean squared error] of this sequence goes from 0.0050 to 0.50. So this trained model depends on what it reads there. A model without attention may still forecast as well: see the last step.");
    expect(afterForce(scene([[1], [3]], { shown: [shown("a", forced, own)] }), { data: DATA })).toContain(DATA.average);
  });

  it("after a change of the epoch", () => {
    expect(afterEpoch(scene([[0], [0]]), [[1], [2]], 7)).toBe("Before training, the [mean squared error] of this sequence is 2.5; with the trained model (after epoch 7) it is 0.0. All that the model can do, it has learned.");
    expect(afterEpoch(scene([[1], [2]]), [[1], [2]], 0)).toBe("This is the trained model again, after epoch 0, which had the lowest validation loss. The [mean squared error] of this sequence is 0.0.");
    const changed = scene([[0], [0]]);
    changed.state.truth = null;
    expect(afterEpoch(changed, [[1], [2]], 7)).toContain("is up to 2.0 away");
  });

  it("with a plain model", () => {
    const both = [answer([[1], [2]]), answer([[1], [4]])].map((each, k) => shown("ab"[k], each));
    expect(afterPlain(scene([], { shown: both }))).toContain("a 0.0, b 2.0. So a is closer to the truth here.");
    expect(afterPlain(scene([], { shown: both }), [[0], [1], [0]])).toContain("Closest to the truth in the 3 sequences that you have seen: a in 2, b in 1.");
    expect(afterPlain(scene([], { shown: both }), [[0], [0, 1]])).toContain("in the 2 sequences that you have seen: a in 1, b in 0; in 1, equally close.");
    expect(afterPlain(scene([], { shown: [both[0], { ...both[0], name: "b" }] }))).toContain("So a and b are equally close to the truth here.");
  });
});

describe("a change is compared with", () => {
  const thousands = (forecast: number[][]): Scene => {
    const made = scene(forecast);
    Object.assign(made.state, { source: [[1000], [2000]], truth: null });
    return made;
  };

  it("the range of the values, not with a fixed number", () => {
    expect(afterMove(thousands([[1000], [2001]]), [[1000], [2000]])).toContain("That is little");
    expect(afterMove(thousands([[1000], [2400]]), [[1000], [2000]])).toContain("this point matters");
    const small = scene([[0], [0.002]]);
    Object.assign(small.state, { source: [[0], [0.01]], truth: null });
    expect(afterMove(small, [[0], [0.001]])).toContain("this point matters");
    const [own, forced] = [answer([[1000], [2000]]), answer([[1000], [2002]])];
    const each = thousands([]);
    forced.maps.cross = [[[[0.1, 0.9], [0.5, 0.5]]]];
    expect(afterForce({ ...each, shown: [shown("a", forced, own)] })).toContain("hardly depends on this look");
  });

  it("the scale of the model that is shown", () => {
    const [own, forced] = [answer([[1], [2.1]]), answer([[1], [3]])];
    expect(afterForce(scene([], { shown: [shown("a", forced, own, [10])] }))).toContain("from 0.000050 to 0.0050");
    const both = [shown("a", answer([[1], [2.2]]), undefined, [1]), shown("b", answer([[1], [2.4]]), undefined, [100])];
    expect(afterPlain(scene([], { shown: both }))).toContain("(all in the scaled units of a): a 0.020, b 0.080. So a is closer");
  });
});

it("has a definition of one or two sentences for each term, in alphabetical order", () => {
  for (const { definition } of TERMS) expect(names).toEqual(expect.arrayContaining(termsOf(definition)));
  for (const { definition } of TERMS) expect(definition.split(/[.:] /).length).toBeLessThanOrEqual(3);
  expect(names).toEqual([...names].sort());
  for (const wanted of ["encoder", "decoder", "attention", "attention weight", "query", "key", "value", "score", "softmax", "context", "entropy", "teacher forcing", "free running", "noise floor", "baseline", "epoch", "mean squared error"]) expect(names).toContain(wanted);
});

it("breaks texts into lines", () => {
  expect(wrap("one two three four", 9)).toEqual(["one two", "three", "four"]);
});
