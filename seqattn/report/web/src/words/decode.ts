// Beam search over a model's next symbols, as in seqattn/models/decoding.py.
import { BEGIN, END, PAD } from "./vocabulary";

/** The default of `seqattn predict --length-penalty`. */
export const LENGTH_PENALTY = 0.6;

/** An output of a model. */
export interface Hypothesis {
  /** Numbers of the symbols; the last one is END if the output has ended. */
  symbols: number[];
  /** The natural logarithm of its probability. */
  logProbability: number;
  /** By which outputs are ranked (Wu et al. 2016, eq. 14, without the coverage penalty). */
  score: number;
}

/** Return the logarithms of the probabilities of logits. Padding and the begin of a sequence have probability 0. */
export function logProbabilities(logits: readonly number[]): number[] {
  const isPossible = (symbol: number): boolean => symbol !== PAD && symbol !== BEGIN;
  const largest = logits.reduce((most, x, k) => (isPossible(k) && x > most ? x : most), -Infinity);
  const sum = logits.reduce((total, x, k) => (isPossible(k) ? total + Math.exp(x - largest) : total), 0);
  const normalizer = largest + Math.log(sum);
  return logits.map((x, k) => (isPossible(k) ? x - normalizer : -Infinity));
}

/** Return the indices of the `count` largest values; of equal ones the first. */
export function largest(values: readonly number[], count: number): number[] {
  const found: number[] = [];
  for (const [k, value] of values.entries()) {
    if (value === -Infinity || (found.length === count && value <= values[found[count - 1]])) continue;
    let place = found.length;
    while (place > 0 && values[found[place - 1]] < value) place -= 1;
    found.splice(place, 0, k);
    found.length = Math.min(found.length, count);
  }
  return found;
}

const penalty = (length: number): number => ((5 + length) / 6) ** LENGTH_PENALTY;

/** Return the best outputs, the best first.
 *
 * @param ask - returns the logits (N, V) of the symbols that follow N beginnings of equal length.
 * @param beam - the number of beginnings that are kept, and of outputs.
 * @param steps - the largest length of an output.
 * @param given - the first symbols of all outputs.
 */
export async function beamSearch(ask: (beginnings: readonly (readonly number[])[]) => Promise<number[][]>, beam: number, steps: number, given: readonly number[] = []): Promise<Hypothesis[]> {
  let kept: Hypothesis[] = [{ symbols: [], logProbability: 0, score: 0 }];
  let ended: Hypothesis[] = [];
  const rank = (found: Hypothesis[]): Hypothesis[] => found.sort((a, b) => b.score - a.score).slice(0, beam);
  for (let t = 0; t < steps && kept.length; t += 1) {
    const logits = await ask(kept.map(({ symbols }) => symbols));
    const candidates = kept.flatMap(({ symbols, logProbability }, k) => {
      const next = logProbabilities(logits[k]);
      const chosen = t < given.length ? [given[t]] : largest(next, 2 * beam);
      return chosen.map((symbol) => ({ symbols: [...symbols, symbol], logProbability: logProbability + next[symbol], score: 0 }));
    });
    const best = candidates.sort((a, b) => b.logProbability - a.logProbability).slice(0, 2 * beam);
    for (const each of best) each.score = each.logProbability / penalty(t + 1);
    ended = rank([...ended, ...best.filter(({ symbols }) => symbols[t] === END)]);
    kept = best.filter(({ symbols }) => symbols[t] !== END).slice(0, beam);
    // A log-probability never rises, and the longest output has the largest divisor.
    if (ended.length === beam && kept.length && ended[beam - 1].score >= kept[0].logProbability / penalty(steps)) return ended;
  }
  // Outputs without an end are used only if there are fewer ended ones than asked for.
  for (const each of kept) each.score = each.logProbability / penalty(steps);
  return [...ended, ...kept].slice(0, beam);
}
