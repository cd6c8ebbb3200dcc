// The source as a CSV file, and the command that repeats the page's answer.
import type { InputForm } from "./content";
import type { ForcedRow } from "./force";

/** The form for generated sequences. */
export const GENERATED_FORM: InputForm = { series: "sequence", time: "step", interval: 1, delimiter: ",", decimal: ".", one_hot: {}, window: null, settings: [] };

export const INPUT_FILE = "input.csv";
export const WEIGHTS_FILE = "weights.json";
const ID = "input";

/** Quote a cell of a CSV file if it needs it. */
function cell(text: string, delimiter: string): string {
  const isPlain = text !== "" && text.trim() === text && ![delimiter, '"', "\n", "\r"].some((mark) => text.includes(mark));
  return isPlain ? text : `"${text.replaceAll('"', '""')}"`;
}

/** Return the word of a one-hot column in a row.
 *
 * @throws Error - if no feature of the column is 1, or another one is not 0.
 */
function wordOf(column: string, words: readonly string[], values: readonly number[], step: number): string {
  const chosen = values.indexOf(1);
  if (chosen < 0 || values.some((value, k) => k !== chosen && value !== 0)) {
    throw new Error(`Point ${step + 1} is no single word of the column ${column}: one of its features (${words.join(", ")}) must be 1 and the others 0.`);
  }
  return words[chosen];
}

/** Write a source (S, F) in units of the data as the CSV file that `seqattn predict --input` reads.
 *
 * A number has as many digits as are needed to read back the same float64.
 *
 * @throws Error - if a point is no word of a column of words.
 */
export function toCsv(form: InputForm, features: readonly string[], source: readonly (readonly number[])[]): string {
  const { series, time, interval, delimiter, decimal, one_hot: oneHot } = form;
  const ofWord = new Map(Object.entries(oneHot).flatMap(([column, words]) => words.map((word): [string, string] => [`${column}=${word}`, column])));
  const columns = [...new Set(features.map((name) => ofWord.get(name) ?? name))];
  const header = [...(series === null ? [] : [series]), ...(time === null ? [] : [time]), ...columns];
  const line = (cells: readonly string[]): string => `${cells.map((text) => cell(text, delimiter)).join(delimiter)}\n`;
  const number = (value: number): string => String(value).replace(".", decimal);
  const lines = source.map((row, t) => line([
    ...(series === null ? [] : [ID]),
    ...(time === null ? [] : [String((t + 1) * interval)]),
    ...columns.map((column) => {
      const words = Object.hasOwn(oneHot, column) ? oneHot[column] : undefined;
      if (!words) return number(row[features.indexOf(column)]);
      return wordOf(column, words, words.map((word) => row[features.indexOf(`${column}=${word}`)]), t);
    }),
  ]));
  return line(header) + lines.join("");
}

/** Write forced rows as the file of `predict --attention-override forced:FILE`. */
export const toWeightsFile = (rows: readonly ForcedRow[]): string => `${JSON.stringify({ rows }, null, 1)}\n`;

/** Quote a word for a POSIX shell if it needs it. */
export const quote = (word: string): string => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

export interface Reproduction {
  /** The folder of the run, or a placeholder. */
  run: string;
  form: InputForm;
  /** null: the best epoch. */
  epoch: number | null;
  isForced: boolean;
}

/** Return the command that forecasts the saved input with the saved weights. */
export function command({ run, form, epoch, isForced }: Reproduction): string {
  const words = ["seqattn", "predict", run, "--input", INPUT_FILE];
  for (const setting of form.settings) words.push("--set", setting);
  if (epoch !== null) words.push("--epoch", String(epoch));
  if (isForced) words.push("--attention-override", `forced:${WEIGHTS_FILE}`);
  return words.map(quote).join(" ");
}
