import { describe, expect, it } from "vitest";
import type { Stage, StepInput } from "../src/live/arithmetic";
import { PointKind } from "../src/live/point_arithmetic";
import { describeCell, explainStep, shownRows } from "../src/live/arithmetic";
import { formatCell, printed } from "../src/live/arithmetic/record";
import type { AttentionConfig, LiveModelContent, ModelConfig } from "../src/live/content";
import type { Numbers } from "../src/live/model";

const IDENTITY = [[1, 0], [0, 1]];
const STATES = [[1, 0], [0, 2], [-1, 1]];
const QUERY = [0.5, 1];

interface Parts {
  attention?: AttentionConfig;
  config?: Partial<ModelConfig>;
  scaling?: Partial<LiveModelContent["scaling"]>;
  parameters?: Record<string, Numbers>;
  keys?: number[][];
  scores?: number[];
  step?: number;
  isForced?: boolean;
  weights?: number[][];
}

/** A step of a model with H = 2 and one feature, whose intermediate results are small numbers. */
function stepOf({ attention = { score: "dot" }, config = {}, scaling = {}, parameters = {}, keys = STATES, scores = [0.5, 2, 0.5], step = 0, isForced = false, weights = [[0.1543, 0.6914, 0.1543], [0.2, 0.3, 0.5]] }: Parts = {}): StepInput {
  const none = { shift: [0], scale: [1] };
  const all: Record<string, Numbers> = { "output.weight": [[1, 2, 3, 4]], "output.bias": [0.5], ...parameters };
  const twice = <T>(x: T): T[] => [x, x];
  const source = [[2], [6], [4]];
  const forecast = twice([3.5]);
  const content = {
      layers: 1, heads: 1, features: ["x"], target_features: ["x"], config: { kind: "recurrent", context: "output", attention, ...config },
      scaling: { source: none, target: none, relative: false, instance: false, ...scaling },
    } as unknown as LiveModelContent;
  return {
    content, kind: new PointKind({ content, source, forecast }),
    answer: {
      weights: [[weights]], maps: {},
      trace: {
        states: STATES, keys: [[keys]], values: [[STATES]], query: [twice(QUERY)], scores: [[twice(scores)]], context: [[twice([0, 1.5371])]],
        readout: twice([0, 1.5371, 0.5, 1]), input: twice([4]), output: twice([9]),
      },
    },
    step, layer: 0, head: 0, isForced, parameter: (name) => all[name],
  };
}

const stagesOf = (parts?: Parts): Stage[] => explainStep(stepOf(parts));
const find = (stages: readonly Stage[], name: string): Stage => stages.find((stage) => stage.name === name)!;
const lastColumn = (stage: Stage): number[] => stage.numbers.map((row) => row[row.length - 1]);

/** Check that all references of a stage's numbers are cells of the explanation. */
function checkOrigins(stages: readonly Stage[]): void {
  for (const [index, stage] of stages.entries()) {
    for (const [row, numbers] of stage.numbers.entries()) {
      for (const column of numbers.keys()) {
        for (const ref of stage.origin(row, column)?.cells ?? []) {
          expect(ref.stage, stage.name).toBeLessThanOrEqual(index);
          expect(stages[ref.stage].numbers[ref.row]?.[ref.column], `${stage.name} ${row}/${column}`).toBeTypeOf("number");
        }
        expect(describeCell(stages, index, row, column)).not.toMatch(/NaN|undefined/);
      }
    }
  }
}

it("rounds halves to even, as numpy does, and knows no -0", () => {
  expect([0.03125, 0.09375, -0.00001, 1.23456].map(printed)).toEqual([0.0312, 0.0938, 0, 1.2346]);
  expect(Object.is(printed(-0.00001), 0)).toBe(true);
  expect(formatCell(-1.5)).toBe("\u22121.5000");
  expect(formatCell(1013.25, 8)).toBe("1013.25");
});

describe("the chain of a recurrent model", () => {
  it("goes from the source points to the forecast", () => {
    const stages = stagesOf();
    expect(stages.map(({ name }) => name)).toEqual([
      "Source points", "Decoder input", "Encoder states", "Decoder state h, after reading that input", "Query", "Keys", "Scores", "Weights",
      "Values", "Weighted values", "Context", "Joined", "Output layer W, b", "Predicted point", "Forecast, in units of the data",
    ]);
    expect(lastColumn(find(stages, "Scores"))).toEqual([0.5, 2, 0.5]);
    const weights = find(stages, "Weights");
    expect(weights.numbers[1]).toEqual([2, 1, 0.6915]); // 1 / (1 + 2 * 0.2231)
    expect(weights.numbers[0]).toEqual([0.5, 0.2231, 0.1543]);
    expect(find(stages, "Context").numbers).toEqual([[0, 1.5373]]);
    expect(find(stages, "Predicted point").numbers[0][0]).toBeCloseTo(0.5 + 2 * 1.5373 + 3 * 0.5 + 4, 4);
    expect(find(stages, "Predicted point").own).toEqual([[9]]);
    checkOrigins(stages);
  });

  it("says where a number comes from", () => {
    const stages = stagesOf();
    const at = (name: string, row: number, column: number): string => describeCell(stages, stages.indexOf(find(stages, name)), row, column);
    expect(at("Weights", 0, 2)).toBe("0.1543 = 0.2231 / (0.2231 + 1.0000 + 0.2231). Without rounding, it is 0.1543.");
    expect(at("Weights", 0, 1)).toBe("0.2231 = exp(0.5000 \u2212 2.0000)");
    expect(at("Scores", 2, 0)).toBe("0.5000 = 0.5000 \u00d7 (\u22121.0000) + 1.0000 \u00d7 1.0000. Without rounding, it is 0.5.");
    expect(at("Source points", 0, 0)).toBe("2.0000, given");
    expect(at("Encoder states", 0, 0)).toContain("from the model, by parameters that are not printed");
  });

  it("shows forced weights in place of the normalizer", () => {
    const weights = find(stagesOf({ isForced: true, weights: [[0, 0, 1], [0, 0, 1]] }), "Weights");
    expect([weights.formula, weights.columns, lastColumn(weights)]).toEqual(["forced by you", ["weight"], [0, 0, 1]]);
  });

  it("combines context and state, or has a new state", () => {
    const combine = { "combine.weight": [[1, 0, 0, 0], [0, 0, 0, 1]], "combine.bias": [0, 0], "output.weight": [[1, 1]] };
    const tanh = stagesOf({ parameters: combine });
    expect(find(tanh, "Attentional vector a").numbers).toEqual([[0, 0.7616]]);
    checkOrigins(tanh);
    const input = stagesOf({ config: { context: "input" } });
    expect(find(input, "New state h'").isByModel).toBe(true);
    expect(input.map(({ name }) => name)).toContain("Decoder state h, before this step");
  });

  it("takes the output of a model that copies from the model", () => {
    const stages = stagesOf({ config: { copying: true } });
    const output = find(stages, "Predicted point");
    expect([output.isByModel, output.numbers]).toEqual([true, [[9]]]);
    expect(find(stages, "Output layer W, b")).toBeUndefined();
    checkOrigins(stages);
  });

  it("does not print a map over 8 x 8", () => {
    const wide = (columns: number): Parts => ({
      attention: { score: "general" }, keys: STATES, parameters: { "attention.score.key.weight": Array.from({ length: 2 }, () => new Array<number>(columns).fill(0)) },
    });
    expect(stagesOf(wide(2)).map(({ name }) => name)).toContain("Keys: the map");
    const stages = stagesOf(wide(9));
    expect(stages.map(({ name }) => name)).not.toContain("Keys: the map");
    expect(find(stages, "Keys").formula).toMatch(/the matrix is too large to print; it is in the checkpoint file of the run$/);
  });
});

describe("scores", () => {
  const maps = { "attention.score.query.weight": IDENTITY, "attention.score.query.bias": [0, 0], "attention.score.key.weight": IDENTITY, "attention.score.key.bias": [1, 0] };

  it.each<[string, Parts, number[]]>([
    ["dot", {}, [0.5, 2, 0.5]],
    ["uniform", {}, [0, 0, 0]],
    ["scaled_dot", {}, [0.3536, 1.4142, 0.3536]],
    ["scaled_dot", { parameters: maps }, [0.7071, 1.7678, 0.7071]],
    ["general", { parameters: { "attention.score.key.weight": [[2, 0], [0, 1]] } }, [1, 2, 0]],
    ["additive", { parameters: { ...maps, "attention.score.query.bias": undefined as unknown as Numbers, "attention.score.combine.weight": [[1, -1]] } }, [
      0.9866 - 0.7616, 0.9051 - 0.9951, 0.4621 - 0.9640,
    ].map(printed)],
    ["linear", {}, [5, 7.5, 4.5519].map((x) => printed(Math.log(x)))],
    ["cosine", { parameters: { "attention.score.log_temperature.value": [Math.log(0.5)] } }, [0.8944, 1.7888, 0.6324]],
  ])("%s", (score, parts, wanted) => {
    const stages = stagesOf({ ...parts, attention: { score } });
    expect(lastColumn(find(stages, "Scores"))).toEqual(wanted);
    checkOrigins(stages);
  });

  it("coverage, from the weights of the steps before", () => {
    const parameters = { ...maps, "attention.score.query.bias": undefined as unknown as Numbers, "attention.score.combine.weight": [[1, -1]], "attention.score.coverage.weight": [[1], [0]] };
    const stages = stagesOf({ attention: { score: "coverage" }, parameters, step: 1 });
    expect(find(stages, "Coverage").numbers).toEqual([[0.1543], [0.6914], [0.1543]]);
    const first = lastColumn(find(stagesOf({ attention: { score: "coverage" }, parameters }), "Scores"));
    expect(first).toEqual(lastColumn(find(stagesOf({ attention: { score: "additive" }, parameters }), "Scores")));
    expect(lastColumn(find(stages, "Scores"))[1]).toBeGreaterThan(first[1]);
    checkOrigins(stages);
  });

  it("names each factor", () => {
    const columns = (score: string): string[] => find(stagesOf({ attention: { score }, parameters: { "attention.score.log_temperature.value": [0] } }), "Scores").columns;
    expect(columns("scaled_dot")).toEqual(["q . k", "sqrt(K)", "score"]);
    expect(columns("cosine")).toEqual(["cos", "strength", "score"]);
  });

  it("shows the model\u2019s scores if it does not know the score", () => {
    const scores = find(stagesOf({ attention: { score: "own" } }), "Scores");
    expect([scores.isByModel, lastColumn(scores)]).toEqual([true, [0.5, 2, 0.5]]);
  });
});

describe("normalizers and locations", () => {
  it.each<[string, number[]]>([
    ["sparsemax", [0, 1, 0]],
    ["hard", [0, 1, 0]],
  ])("%s", (normalizer, wanted) => {
    const stages = stagesOf({ attention: { score: "dot", normalizer } });
    expect(lastColumn(find(stages, "Weights"))).toEqual(wanted);
    checkOrigins(stages);
  });

  it("sparsemax with several points in its support", () => {
    const stages = stagesOf({ attention: { score: "uniform", normalizer: "sparsemax" } });
    expect(find(stages, "Weights").numbers[0]).toEqual([0, -0.3333, 0.3333]);
    expect(find(stages, "Weights").formula).toBe("sparsemax: weight = max(score - tau, 0), tau = (sum of the 3 largest - 1) / 3");
  });

  it("entmax with a fixed and with a learned alpha", () => {
    const fixed = stagesOf({ attention: { score: "uniform", normalizer: "entmax" } });
    expect(find(fixed, "Weights").numbers[0]).toEqual([0, 1.5, -0.5774, 0.3334]);
    checkOrigins(fixed);
    const learned = stagesOf({ attention: { score: "dot", normalizer: "entmax", alpha: "learned" }, parameters: { "attention.normalizer.theta.value": [Math.log(0.49 / 0.5)] } });
    expect(find(learned, "Weights").numbers.map((row) => row[1])).toEqual([1.5, 1.5, 1.5]);
    expect(lastColumn(find(learned, "Weights"))).toEqual([0.0426, 0.9147, 0.0426]);
    checkOrigins(learned);
  });

  it("a local window", () => {
    const stages = stagesOf({
      attention: { score: "dot", location: { kind: "local", window: 1 } },
      parameters: { "attention.location.predict.weight": IDENTITY, "attention.location.combine.weight": [[0, 0]] },
    });
    expect(find(stages, "Window center").numbers).toEqual([[1]]);
    const weights = find(stages, "Weights");
    expect(weights.columns).toEqual(["content", "window", "weight"]);
    expect(weights.numbers).toEqual([[0.1543, 0.1353, 0.0209], [0.6915, 1, 0.6915], [0.1543, 0.1353, 0.0209]]);
    expect(find(stages, "Content weights").numbers[1][2]).toBe(0.6915);
    checkOrigins(stages);
  });

  it("weights that move on to the first point with p > 1/2", () => {
    const parts = (offset: number): Parts => ({ attention: { score: "dot", location: { kind: "monotonic" } }, parameters: { "attention.location.offset.value": [offset] } });
    const first = stagesOf(parts(-1)); // the scores are 0.5, 2 and 0.5
    expect(find(first, "Weights").columns).toEqual(["score", "r", "p", "previous", "weight"]);
    expect(find(first, "Weights").numbers).toEqual([[0.5, -1, 0.3775, 1, 0], [2, -1, 0.7311, 0, 1], [0.5, -1, 0.3775, 0, 0]]);
    checkOrigins(first);
    const second = stagesOf({ ...parts(-1), step: 1 }); // from soft weights, as if they were forced
    expect(find(second, "Weights").numbers.map((row) => row.slice(3))).toEqual([[0.1543, 0], [0.6914, 0.8457], [0.1543, 0]]);
    checkOrigins(second);
    expect(lastColumn(find(stagesOf(parts(-3)), "Weights"))).toEqual([0, 0, 0]);
  });

  it("a shift of the weights before", () => {
    const parts: Parts = {
      attention: { score: "dot", location: { kind: "location_shift" } },
      parameters: { "attention.location.control.weight": [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], "attention.location.control.bias": [0, -100, -100, -100, 100] },
    };
    const first = find(stagesOf(parts), "Weights"); // gate 0.5, gamma 1, all of the shift is +1
    expect(first.numbers.map((row) => row[0])).toEqual([0, 0, 1]);
    expect(first.numbers.map((row) => row[1])).toEqual([0.0772, 0.3458, 0.5772]);
    expect(lastColumn(first)).toEqual([0.5771, 0.0772, 0.3457]);
    const second = stagesOf({ ...parts, step: 1 });
    expect(find(second, "Weights").numbers.map((row) => row[0])).toEqual([0.1543, 0.6914, 0.1543]);
    checkOrigins(second);
  });
});

describe("scaling", () => {
  const fitted = { source: { shift: [1], scale: [2] }, target: { shift: [1], scale: [2] } };

  it.each<[string, object, number[], number]>([
    ["fitted", {}, [0.5, 2.5, 1.5], 19],
    ["relative", { relative: true }, [-1.5, 0.5, -0.5], 23], // 4 is the last source value
  ])("%s", (_, scaling, source, forecast) => {
    const stages = stagesOf({ scaling: { ...fitted, ...scaling }, parameters: { "output.weight": [[0, 0, 0, 0]], "output.bias": [9] } });
    expect(find(stages, "Source points").numbers.flat()).toEqual(source);
    expect(lastColumn(find(stages, "Forecast, in units of the data"))).toEqual([forecast]);
    checkOrigins(stages);
  });

  it("instance: mean and standard deviation of the source", () => {
    const stages = stagesOf({ scaling: { source: { shift: [0], scale: [2] }, target: { shift: [0], scale: [2] }, instance: true }, parameters: { "output.weight": [[0, 0, 0, 0]], "output.bias": [1] } });
    const deviation = Math.sqrt(8 / 3);
    expect(find(stages, "Source points").numbers.flat()).toEqual([-2, 2, 0].map((x) => printed(x / deviation)));
    expect(lastColumn(find(stages, "Forecast, in units of the data"))[0]).toBeCloseTo(4 + deviation, 6);
    checkOrigins(stages);
  });

  it("adds the linear skip", () => {
    const skip = { "skip.weight": [[[[1], [0], [0]]], [[[1], [0], [0]]]] as unknown as Numbers, "skip.bias": [[0.25], [0.25]] };
    const stages = stagesOf({ config: { skip: "linear" }, parameters: { ...skip, "output.weight": [[0, 0, 0, 0]], "output.bias": [9] } });
    expect(find(stages, "Network's share").numbers).toEqual([[9]]);
    expect(find(stages, "Parts of the forecast").numbers).toEqual([[9], [2.25], [11.25]]);
    checkOrigins(stages);
  });
});

describe("fast weights", () => {
  const parameters = {
    "decoder_input.weight": [[1], [0]], "decoder_input.bias": [0, 0], "decoder_state.weight": IDENTITY, "output.weight": [[1, 1]], "output.bias": [0],
  };
  const build = (norm: boolean): Stage[] => {
    const input = stepOf({ config: { kind: "fast_weights", rate: 0.5, decay: 0.5, inner_steps: 1 }, step: 1, parameters: norm ? { ...parameters, "decoder_norm.gain.value": [1, 2], "decoder_norm.bias.value": [0, 0.5] } : parameters });
    input.answer.trace = { ...input.answer.trace, readout: [[0.5, 0], [0.25, 0]], factors: [[[[0.125, 0.25, 0.5], [0.0625, 0.125, 0.25]]]] };
    return explainStep(input);
  };

  it("reads the states of the source and of earlier steps", () => {
    const stages = build(false);
    const strengths = find(stages, "Strengths");
    expect(strengths.rows).toEqual(["point 1", "point 2", "point 3", "step 1"]);
    expect(strengths.numbers).toEqual([[0.5, 0.0625, 0.0312], [2, 0.125, 0.25], [0.5, 0.25, 0.125], [0.25, 0.5, 0.125]]);
    expect(find(stages, "Input to the inner loop").numbers).toEqual([[4.5, 0]]);
    checkOrigins(stages);
  });

  it("normalizes", () => {
    const stages = build(true);
    expect(find(stages, "New state").formula).toBe("tanh((z - mean) / deviation * gain + bias)");
    expect(find(stages, "New state").numbers[0]).toEqual([Math.tanh(1), Math.tanh(-1.5)].map(printed));
    checkOrigins(stages);
  });
});

it("explains a layer and head of a Transformer, and its last output", () => {
  const parameters = { "decoder.0.cross.out.weight": [[1, 0], [0, 1]], "decoder.0.cross.out.bias": [0, 1] };
  const input = stepOf({ config: { kind: "transformer", attention: null }, parameters });
  input.answer.trace = { ...input.answer.trace, query: [[[QUERY, QUERY]]] };
  const stages = explainStep(input);
  expect(stages.map(({ name }) => name)).toEqual([
    "Source points", "Decoder input", "Query", "Keys", "Scores", "Weights", "Values", "Weighted values", "Context", "Contexts of all heads",
    "Cross-attention output", "Predicted point", "Forecast, in units of the data",
  ]);
  expect(lastColumn(find(stages, "Scores"))).toEqual([0.3536, 1.4142, 0.3536]);
  checkOrigins(stages);
});

it("takes the features of its own head", () => {
  const input = stepOf();
  input.content.heads = 2;
  input.head = 1;
  input.answer.weights = [[[[1, 0, 0]], [[0, 1, 0]]]];
  input.answer.trace = { ...input.answer.trace, keys: [[[[1], [0], [-1]], [[0], [2], [1]]]], values: [[[[1], [0], [-1]], [[0], [2], [1]]]], scores: [[[[0, 0, 0]], [[0, 2, 1]]]], context: [[[[0.5]], [[1.2]]]] };
  const stages = explainStep(input);
  expect(find(stages, "Query").numbers).toEqual([[1]]);
  expect(find(stages, "Keys").numbers.flat()).toEqual([0, 2, 1]);
  expect(find(stages, "Contexts of all heads").numbers[0]).toEqual([0.5]);
  checkOrigins(stages);
});

it("shows the rows with the largest weights of a long source, in their order", () => {
  expect(shownRows([0.2, 0.8])).toEqual([0, 1]);
  expect(shownRows([0, 9, -10, 1, 2, 3, 4, 5, 6, 0])).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

it("says that a model has no attention", () => {
  const input = stepOf();
  input.content.layers = 0;
  expect(() => explainStep(input)).toThrow("This model has no attention.");
});
