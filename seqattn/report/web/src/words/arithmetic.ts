// The stages of an explanation that are about symbols: their vectors, and the probabilities of the best ones.
import type { ArithmeticSource } from "../live/arithmetic_panel";
import type { Vector } from "../live/arithmetic/record";
import { columnNumbers, factor, formatCell } from "../live/arithmetic/record";
import type { AttentionStep, StepInput, StepKind, StepResult } from "../live/arithmetic/step";
import type { Numbers } from "../live/model";
import { largest } from "./decode";
import type { WordExplorer } from "./explorer";
import { probabilities } from "./model";
import { symbolNames } from "./scene";
import { BEGIN, END, PAD, visible } from "./vocabulary";

/** Symbols whose logits are shown. */
const MAX_SYMBOLS = 5;

/** Steps that are symbols. */
class SymbolKind implements StepKind {
  readonly outputName = "Logits";
  readonly rowsNote = ": rows of the best symbols";
  readonly outputs: StepKind["outputs"];

  /**
   * @param source - the symbols of the source.
   * @param previous - the symbol that the decoder reads.
   * @param nameOf - returns a symbol of the target by its number.
   */
  constructor(private readonly source: readonly string[], private readonly previous: string, private readonly logits: readonly number[], nameOf: (symbol: number) => string) {
    const indices = largest(logits.map((x, k) => (k === PAD || k === BEGIN ? -Infinity : x)), MAX_SYMBOLS);
    this.outputs = { indices, names: indices.map((k) => visible(nameOf(k))) };
  }

  get sourceNames(): string[] {
    return this.source.map((symbol, k) => `${k + 1} ${visible(symbol)}`);
  }

  addSource(step: AttentionStep): void {
    step.record.add("Source symbols", "their rows of the embedding matrix", step.trace("embedded_source"));
  }

  addDecoderInput(step: AttentionStep): void {
    const vector = step.decoderInput;
    step.record.addRow("Decoder input", "its row of the embedding matrix", visible(this.previous), vector, { columns: columnNumbers(vector.length) });
  }

  results(): StepResult[] {
    const found = probabilities(this.logits);
    return this.outputs.indices.map((k, place) => ({ name: this.outputs.names[place], text: found[k].toFixed(3), share: found[k] }));
  }

  addResult(step: AttentionStep, output: Vector | null): void {
    const { record } = step;
    const { indices, names } = this.outputs;
    const own = step.trace("output")[step.input.step];
    const y = output ?? record.addRow(this.outputName, "from the layers that follow", "y", indices.map((k) => own[k]), { columns: names, isByModel: true });
    const possible = this.logits.filter((_, k) => k !== PAD && k !== BEGIN);
    const most = Math.max(...possible);
    const logZ = most + Math.log(possible.reduce((sum, x) => sum + Math.exp(x - most), 0));
    const Z = record.addRow("Normalization", `log Z = the logarithm of the sum of exp(logit) over the ${possible.length} symbols that can be written`, "log Z", [logZ], { columns: ["all symbols"], isByModel: true });
    const stage = record.next;
    record.addColumns("Probabilities", "probability = exp(logit - log Z)", {
      "logit": y.values, "log Z": y.values.map(() => Z.values[0]), "probability": y.values.map((x) => Math.exp(x - Z.values[0])),
    }, {
      rows: names, own: indices.map((k) => Math.exp(own[k] - logZ)),
      origin: (row, column) => {
        if (column === 0) return { expression: "the logit", cells: [y.ref(row)] };
        if (column === 1) return { expression: "the same for all symbols", cells: [Z.ref(0)] };
        return { expression: `exp(${formatCell(y.values[row])} \u2212 ${factor(Z.values[0])})`, cells: [0, 1].map((k) => ({ stage, row, column: k })) };
      },
    });
  }
}

/** Return what the arithmetic of the explorer of symbols starts from. */
export function wordArithmetic(explorer: WordExplorer): ArithmeticSource {
  return {
    name: () => symbolNames(explorer.scene!).row(explorer.scene!.state.step),
    input: (parameter: (name: string) => Numbers | undefined): StepInput => {
      const { state: { step, layer, head, source, subjects, force }, shown: [{ answer }] } = explorer.scene!;
      const { content, target } = explorer.models[subjects[0].model];
      const isForced = explorer.canForce && force.get(step + 1, layer, head) !== undefined;
      const previous = step === 0 ? target.symbol(BEGIN) : target.symbol(answer.symbols[step - 1] ?? END);
      return { content, kind: new SymbolKind(source, previous, answer.logits[step], (k) => target.symbol(k)), answer, step, layer, head, isForced, parameter };
    },
  };
}
