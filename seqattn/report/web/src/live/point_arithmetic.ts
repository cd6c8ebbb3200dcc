// The stages of an explanation that are about points, in units of the data.
import { formatValue } from "../format";
import type { Numbers } from "./model";
import type { ArithmeticSource } from "./arithmetic_panel";
import { pointNames as rowNames } from "./arithmetic/record";
import type { Vector } from "./arithmetic/record";
import type { PointData } from "./arithmetic/scaling";
import { addForecast, addSkip, addSource } from "./arithmetic/scaling";
import type { AttentionStep, StepInput, StepKind, StepResult } from "./arithmetic/step";
import type { LiveExplorer } from "./explorer";
import { pointNames } from "./scene";

/** Steps that are points. */
export class PointKind implements StepKind {
  readonly outputName = "Predicted point";
  readonly rowsNote = "";

  constructor(private readonly data: PointData) {}

  get sourceNames(): string[] {
    return rowNames(this.data.source.length);
  }

  get outputs(): StepKind["outputs"] {
    const { target_features: names } = this.data.content;
    return { indices: [...names.keys()], names };
  }

  addSource(step: AttentionStep): void {
    addSource(step, this.data);
  }

  addDecoderInput(step: AttentionStep): void {
    step.record.addRow("Decoder input", "", "point", step.decoderInput, { columns: this.data.content.target_features });
  }

  results(step: AttentionStep): StepResult[] {
    const { forecast, content: { target_features: names } } = this.data;
    return names.map((name, g) => ({ name, text: formatValue(forecast[step.input.step][g], 1), share: null }));
  }

  addResult(step: AttentionStep, output: Vector | null): void {
    const { data } = this;
    const { step: t } = step.input;
    const skipped = data.content.config.skip === "linear" ? addSkip(step, data, output) : output;
    const point = skipped ?? step.record.addRow("Predicted point", "from the layers that follow", "y", step.trace("output")[t], { columns: data.content.target_features, isByModel: true });
    addForecast(step, data, point);
  }
}

/** Return what the arithmetic of the explorer of points starts from. */
export function pointArithmetic(explorer: LiveExplorer): ArithmeticSource {
  return {
    name: () => pointNames({ kind: "cross", source: explorer.scene!.state.source }).row(explorer.scene!.state.step),
    input: (parameter: (name: string) => Numbers | undefined): StepInput => {
      const { state: { step, layer, head, source, subjects, force }, shown: [{ answer }] } = explorer.scene!;
      const { content } = explorer.models[subjects[0].model];
      const isForced = explorer.canForce && force.get(step + 1, layer, head) !== undefined;
      return { content, kind: new PointKind({ content, source, forecast: answer.forecast }), answer, step, layer, head, isForced, parameter };
    },
  };
}
