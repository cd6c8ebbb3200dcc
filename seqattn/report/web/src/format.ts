// Numbers and names as text.

const MINUS = "\u2212";

/** Escape markup, and escape the templates of plotly, which begin with `%{`. */
export function escapeMarkup(words: unknown): string {
  return String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%&#123;");
}

/** Write the hyphen of a negative number as a minus sign. */
export const withMinus = (text: string): string => text.replace("-", MINUS);

/** Format a number with a given number of significant digits. A number that is not finite becomes "none". */
export function formatNumber(x: number | null | undefined, digits = 3): string {
  return Number.isFinite(x) ? withMinus(x!.toPrecision(digits)) : "none";
}

/** Return the exponent of the first significant digit: 2 for 345, -1 for 0.2. */
export const decimalExponent = (x: number): number => Math.floor(Math.log10(Math.abs(x)));

/** Format a number with three digits, or with enough digits to show a hundredth of the spread: 1013.27, not 1.01e+3. */
export function formatValue(x: number, spread: number): string {
  if (!Number.isFinite(x)) return "none";
  const decimals = Math.max(0, x === 0 ? 0 : 2 - decimalExponent(x), spread > 0 ? 2 - decimalExponent(spread) : 0);
  return decimals > 8 || Math.abs(x) >= 1e15 ? formatNumber(x) : withMinus(x.toFixed(decimals));
}

/** Return a text whose first letter is a capital. */
export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Shorten a name. The middle is omitted, because long names often have the same beginning. */
export function shorten(name: string, most = 18): string {
  return name.length > most ? `${name.slice(0, Math.ceil(most / 2) - 1)}\u2026${name.slice(-Math.floor(most / 2))}` : name;
}

/** Return the names of `count` points of a sequence. The first of these points has the number `first`. */
export function pointNames(count: number, first = 1): string[] {
  return Array.from({ length: count }, (_, k) => `point ${first + k}`);
}

/** Return times as text. Dates are numbers of milliseconds since 1970 in UTC. The text has no hours and minutes if all dates are at midnight. */
export function timeNames(times: readonly number[], isDate: boolean): string[] {
  if (!isDate) return times.map((time) => withMinus(String(time)));
  const texts = times.map((time) => new Date(time).toISOString());
  const length = texts.every((text) => text.slice(11, 19) === "00:00:00") ? 10 : 16;
  return texts.map((text) => text.slice(0, length).replace("T", " "));
}

/** Return the message of a failure. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const indexNames = (count: number): string[] => Array.from({ length: count }, (_, k) => String(k));

/** Return the name of each sequence. The name consists of the id, and of the label if the sequence has a label. */
export function sequenceNames(ids: readonly string[], labels: readonly string[]): string[] {
  return ids.map((id, k) => id + (labels[k] ? `: ${labels[k]}` : ""));
}
