import { describe, expect, it } from "vitest";
import { command, GENERATED_FORM, quote, toCsv, toWeightsFile } from "../src/live/csv";

describe("toCsv", () => {
  it("writes generated sequences with the digits of a float64", () => {
    expect(toCsv(GENERATED_FORM, ["x", "y"], [[0.1, 1 / 3], [-1e-7, 12]])).toBe("sequence,step,x,y\ninput,1,0.1,0.3333333333333333\ninput,2,-1e-7,12\n");
  });

  it("quotes names with delimiters, quotes, line ends and spaces at an end", () => {
    const [header] = toCsv({ ...GENERATED_FORM, series: null, time: null }, ["a, b", 'say "x"', " c"], [[1, 2, 3]]).split("\n");
    expect(header).toBe('"a, b","say ""x"""," c"');
    expect(toCsv({ ...GENERATED_FORM, series: null, time: null }, ["a\nb"], [[1]])).toBe('"a\nb"\n1\n');
  });

  it("has the columns, delimiter and decimal mark of the run", () => {
    const form = { ...GENERATED_FORM, series: "unit", time: "when", interval: 5, delimiter: ";", decimal: "," };
    expect(toCsv(form, ["a"], [[1.5], [2]])).toBe("unit;when;a\ninput;5;1,5\ninput;10;2\n");
  });

  it("quotes numbers with decimal commas between commas", () => {
    expect(toCsv({ ...GENERATED_FORM, series: null, time: null, decimal: "," }, ["a", "b"], [[1.5, 2]])).toBe('a,b\n"1,5",2\n');
  });

  it("writes the words of one-hot columns, and refuses points that are none", () => {
    const form = { ...GENERATED_FORM, series: null, time: null, one_hot: { day: ["mo", "tu"] } };
    const features = ["load", "day=mo", "day=tu"];
    expect(toCsv(form, features, [[1, 0, 1], [2, 1, 0]])).toBe("load,day\n1,tu\n2,mo\n");
    expect(() => toCsv(form, features, [[1, 0.5, 1]])).toThrow("Point 1 is no single word of the column day");
    expect(() => toCsv(form, features, [[1, 0, 0]])).toThrow("mo, tu");
  });
});

it("writes forced rows as the file of --attention-override", () => {
  const rows = [{ step: 2, layer: 0, head: 0, weights: [0, 1] }];
  expect(JSON.parse(toWeightsFile(rows))).toEqual({ rows });
});

describe("command", () => {
  const plain = { run: "outputs/squares", form: GENERATED_FORM, epoch: null, isForced: false };

  it("names what differs from the run's own forecast", () => {
    expect(command(plain)).toBe("seqattn predict outputs/squares --input input.csv");
    expect(command({ ...plain, epoch: 0, isForced: true, form: { ...GENERATED_FORM, settings: ["data.time=null"] } }))
      .toBe("seqattn predict outputs/squares --input input.csv --set data.time=null --epoch 0 --attention-override forced:weights.json");
  });

  it("keeps hostile words one word of the shell", () => {
    expect(command({ ...plain, run: "a b; rm -rf '~'" })).toBe("seqattn predict 'a b; rm -rf '\\''~'\\''' --input input.csv");
    expect(quote("$(x)")).toBe("'$(x)'");
  });
});
