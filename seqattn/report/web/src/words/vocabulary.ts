// Text as symbols of a vocabulary and back, as in seqattn/data/tokens.py and seqattn/data/subwords.py.
import type { VocabularyContent } from "../live/content";

export const [PAD, BEGIN, END, UNKNOWN] = [0, 1, 2, 3];
const RESERVED = 4;
const WORD_BEGIN = "\u2581";
/** Takes the place of `WORD_BEGIN` inside a word. */
const REPLACEMENT = "\ufffd";

/** Return the subwords of a marked word: of all neighbours that form a subword, those that were learned first are joined first. */
function splitWord(word: string, rank: ReadonlyMap<string, number>): string[] {
  const parts = Array.from(word);
  for (;;) {
    let best = Infinity;
    let place = -1;
    for (let k = 0; k + 1 < parts.length; k += 1) {
      const found = rank.get(parts[k] + parts[k + 1]) ?? Infinity;
      if (found < best) [best, place] = [found, k];
    }
    if (place < 0) return parts;
    parts.splice(place, 2, parts[place] + parts[place + 1]);
  }
}

/** The symbols of one side of a model. */
export class Vocabulary {
  private readonly numbers: ReadonlyMap<string, number>;
  private readonly rank: ReadonlyMap<string, number>;

  constructor(readonly content: VocabularyContent) {
    const entries = content.symbols.map((symbol, k): [string, number] => [symbol, k]);
    this.numbers = new Map(entries);
    this.rank = new Map(entries.slice(RESERVED));
  }

  get size(): number {
    return this.content.symbols.length;
  }

  /** Return the number of a symbol. Symbols that are written like a reserved one are unknown. */
  numberOf(symbol: string): number {
    return Math.max(this.numbers.get(symbol) ?? UNKNOWN, UNKNOWN);
  }

  /** Return the symbols of a text in Unicode normalization form C. */
  split(text: string): string[] {
    const { unit, lowercase } = this.content;
    const composed = text.normalize("NFC");
    const written = lowercase ? composed.toLowerCase() : composed;
    if (unit === "character") return Array.from(written);
    const words = written.split(/\s+/u).filter(Boolean);
    if (unit !== "bpe") return words;
    return words.flatMap((word) => splitWord(WORD_BEGIN + word.replaceAll(WORD_BEGIN, REPLACEMENT), this.rank));
  }

  /** Return symbols as text. */
  join(symbols: readonly string[]): string {
    const { unit } = this.content;
    if (unit === "character") return symbols.join("");
    if (unit !== "bpe") return symbols.join(" ");
    return symbols.join("").split(WORD_BEGIN).filter(Boolean).join(" ");
  }

  /** Return symbols as a text that is split into the same symbols again. An unknown symbol of a test sequence is one character that no vocabulary has. */
  write(symbols: readonly string[]): string {
    const isSplit = this.content.unit === "character" || this.content.unit === "bpe";
    return this.join(symbols.map((symbol) => (isSplit && symbol === this.content.symbols[UNKNOWN] ? REPLACEMENT : symbol)));
  }

  /** Return the symbol with a number. */
  symbol(number: number): string {
    return this.content.symbols[number];
  }

  /** Return the symbols of numbers up to the end of the sequence. */
  symbols(numbers: readonly number[]): string[] {
    const end = numbers.findIndex((number) => number === END || number === PAD);
    return (end < 0 ? numbers : numbers.slice(0, end)).map((number) => this.symbol(number));
  }

  /** Return numbers as text, up to the end of the sequence. */
  text(numbers: readonly number[]): string {
    return this.join(this.symbols(numbers));
  }
}

/** Return a symbol as it is shown: spaces are visible, and the reserved symbols have names without brackets. */
export function visible(symbol: string): string {
  if (/^<(pad|begin|end|unknown)>$/.test(symbol)) return symbol.slice(1, -1);
  if (symbol === " ") return "\u2423";
  return /^\s+$/u.test(symbol) ? "\u2423".repeat(symbol.length) : symbol;
}
