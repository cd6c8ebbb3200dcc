// Models of symbols that the page evaluates with ONNX Runtime Web.
import type { WordModelContent } from "../live/content";
import type { Attended, Numbers, RunOptions } from "../live/model";
import { chooseOutputs, FORECAST, GraphModel, nest, readAttended, tensor } from "../live/model";
import { createSession, decodeGzip } from "../live/runtime";
import type { Hypothesis } from "./decode";
import { beamSearch, logProbabilities } from "./decode";
import { END, Vocabulary } from "./vocabulary";

/** In the input `given`: the model's own symbol. */
const OWN = -1n;
/** Steps of the first run of greedy decoding. Most outputs end within them, and each run that does not asks for twice as many. */
const FIRST_STEPS = 16;
const LOGITS = "logits";

/** The search for an output. */
export interface Search {
  /** The number of beginnings that are kept; 1: greedy. */
  beam: number;
  /** The first symbols of the output, which the reader chose. */
  given: readonly number[];
}

/** What a model writes for one source. */
export interface WordAnswer extends Attended {
  /** Numbers of the T symbols; the last one is END if the output has ended. */
  symbols: number[];
  /** (T, V). */
  logits: number[][];
  /** The outputs of the beam, the best first; empty for a greedy search. */
  hypotheses: Hypothesis[];
}

/** Return the numbers of the first T steps of attention weights [layer][head][step][attended step]. */
const firstSteps = (maps: number[][][][], T: number, isSelf: boolean): number[][][][] => maps.map((heads) => heads.map((rows) => rows.slice(0, T).map((row) => (isSelf ? row.slice(0, T) : row))));

/** Return an answer without the steps after the end of the output. */
function cut(answer: WordAnswer): WordAnswer {
  const end = answer.symbols.indexOf(END);
  if (end < 0) return answer;
  const T = end + 1;
  const { cross, decoder_self: own } = answer.maps;
  const maps = { ...answer.maps, ...(cross ? { cross: firstSteps(cross, T, false) } : {}), ...(own ? { decoder_self: firstSteps(own, T, true) } : {}) };
  return { ...answer, symbols: answer.symbols.slice(0, T), logits: answer.logits.slice(0, T), maps, weights: maps.cross ?? [] };
}

/** Return the forced rows of the first steps. A run may have fewer steps than the output. */
function withinSteps(force: RunOptions["force"], steps: number): RunOptions["force"] {
  return force && "rows" in force ? { rows: force.rows.filter(({ step }) => step <= steps) } : force;
}

export class WordModel extends GraphModel<WordModelContent> {
  readonly source = new Vocabulary(this.content.source_vocabulary);
  readonly target = new Vocabulary(this.content.target_vocabulary);

  /** Load a model.
   *
   * @throws Error - if the graph is damaged.
   */
  static async load(content: WordModelContent): Promise<WordModel> {
    const model = new WordModel(content, await createSession(await decodeGzip(content.graph)));
    await model.unpackRuns();
    return model;
  }

  /** Check that the model can read a source.
   *
   * @throws Error - if it cannot.
   */
  checkSource(source: readonly number[]): void {
    const { max_length: longest } = this.content;
    if (!source.length) throw new Error("Type a source.");
    if (longest !== null && source.length > longest) throw new Error(`This Transformer has learned ${longest} positions; the source has ${source.length} symbols.`);
  }

  /** Find the output for a source of S symbols.
   *
   * @throws Error - if the source, the forced weights, the epoch or the run do not fit the model.
   */
  async answer(source: readonly number[], { beam, given }: Search, options: RunOptions = {}): Promise<WordAnswer> {
    this.checkSource(source);
    const { steps: most } = this.content;
    if (beam === 1) {
      for (let steps = Math.min(most, FIRST_STEPS); ; steps = Math.min(most, 2 * steps)) {
        const answer = await this.write(source, steps, given, options);
        if (answer.symbols.includes(END) || steps === most) return cut(answer);
      }
    }
    const ask = async (beginnings: readonly (readonly number[])[]): Promise<number[][]> => {
      const results = await this.compute(source, beginnings[0].length + 1, beginnings, options, [LOGITS]);
      const { data, dims: [, steps, V] } = results[LOGITS];
      return beginnings.map((_, n) => nest(data as Float32Array, [V], (n * steps + steps - 1) * V) as number[]);
    };
    const hypotheses = await beamSearch(ask, beam, most, given);
    const [{ symbols }] = hypotheses;
    return { ...await this.write(source, symbols.length, symbols, options), hypotheses };
  }

  /** Write a number of steps, of which the first are given. */
  private async write(source: readonly number[], steps: number, given: readonly number[], options: RunOptions): Promise<WordAnswer> {
    const results = await this.compute(source, steps, [given], options, chooseOutputs(this.session.outputNames, options.outputs === "forecast" ? "weights" : options.outputs));
    const rows = (name: string): Numbers => nest(results[name].data as Float32Array, results[name].dims.slice(1));
    return { symbols: (rows(FORECAST) as number[][]).map(([symbol]) => symbol), logits: rows(LOGITS) as number[][], hypotheses: [], ...readAttended(results) };
  }

  private compute(source: readonly number[], steps: number, beginnings: readonly (readonly number[])[], options: RunOptions, outputs: readonly string[]): ReturnType<WordModel["session"]["run"]> {
    const [S, N] = [source.length, beginnings.length];
    const numbers = beginnings.flatMap(() => source.map(BigInt));
    const given = Array.from({ length: steps }, (_, t) => beginnings.map((symbols) => (t < symbols.length ? BigInt(symbols[t]) : OWN))).flat();
    return this.session.run({
      source: tensor("int64", BigInt64Array.from(numbers), [N, S, 1]),
      given: tensor("int64", BigInt64Array.from(given), [steps, N, 1]),
      ...this.feeds(S, steps, N, { ...options, force: withinSteps(options.force, steps) }),
    }, outputs);
  }
}

/** Return the probability of each symbol after logits (V,). */
export const probabilities = (logits: readonly number[]): number[] => logProbabilities(logits).map(Math.exp);
