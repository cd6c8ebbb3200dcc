// The stages of an explanation, as in seqattn/models/attention/arithmetic.py: each is computed from the printed numbers of the stages above it.
import { withMinus } from "../../format";

export const DECIMALS = 4;
/** Rows and columns of the largest weight matrix that is printed. */
export const MAX_PRINTED_SIDE = 8;
/** Terms of a sum that the origin of a number prints. */
const MAX_TERMS = 8;

/** A cell: row and column of a stage, all counted from 0. */
export interface Ref {
  stage: number;
  row: number;
  column: number;
}

/** Where a number comes from: an expression, and the cells that it reads. */
export interface Origin {
  expression: string;
  cells: Ref[];
}

/** A table of one computed quantity. */
export interface Stage {
  name: string;
  /** How it follows from the stages above; empty for inputs and parameters. */
  formula: string;
  columns: string[];
  rows: string[];
  /** (rows, columns), as printed. */
  numbers: number[][];
  /** The model's own numbers, not rounded, where the model has them; NaN elsewhere. */
  own: number[][] | null;
  /** Where the own numbers are shown: in another column beside the last one, in other rows, or only with the origin of a number. */
  ownAs: "column" | "rows" | "origin";
  /** Whether the numbers follow from parameters that are not printed. */
  isByModel: boolean;
  /** Whether the rows are those of the source (or of a memory), of which only some are shown if there are many. */
  hasPointRows: boolean;
  /** Significant digits of numbers in units of the data; null: `DECIMALS` decimals. */
  digits: number | null;
  origin: (row: number, column: number) => Origin | null;
}

/** A row or a column of a stage. */
export interface Vector {
  values: number[];
  ref: (index: number) => Ref;
}

export interface Matrix {
  values: number[][];
  stage: number;
  ref: (row: number, column: number) => Ref;
}

export interface StageOptions {
  rows?: string[] | undefined;
  columns?: string[] | undefined;
  own?: number[][] | null | undefined;
  ownAs?: Stage["ownAs"];
  isByModel?: boolean;
  digits?: number;
  origin?: Stage["origin"];
}

/** Round to a number of decimals; a half goes to the even digit, as in numpy. */
function round(x: number, decimals: number): number {
  const scaled = x * 10 ** decimals;
  const floor = Math.floor(scaled);
  const part = scaled - floor;
  const isUp = part > 0.5 || (part === 0.5 && floor % 2 !== 0);
  return (isUp ? floor + 1 : floor) / 10 ** decimals;
}

/** Digits that float32 keeps. */
const SIGNIFICANT_DIGITS = 6;
const wholeDigits = (x: number): number => Math.floor(Math.log10(Math.max(1, Math.abs(x)))) + 1;

/** Round to the printed decimals, or to `SIGNIFICANT_DIGITS` if these are fewer digits. */
export function printed(x: number): number {
  const result = round(x, DECIMALS);
  const unit = 10 ** Math.max(0, wholeDigits(result) + DECIMALS - SIGNIFICANT_DIGITS);
  return (unit > 1 ? round(round(result / unit, DECIMALS) * unit, DECIMALS) : result) + 0; // no -0
}

export const printedRow = (row: readonly number[]): number[] => row.map(printed);
export const printedRows = (rows: readonly (readonly number[])[]): number[][] => rows.map(printedRow);

export const dot = (left: readonly number[], right: readonly number[]): number => left.reduce((sum, x, k) => sum + x * right[k], 0);

/** Return W x, or W x + b. */
export const affine = (weight: readonly (readonly number[])[], bias: readonly number[] | null, x: readonly number[]): number[] => weight.map((row, k) => dot(row, x) + (bias ? bias[k] : 0));

/** Format a printed number; `digits`: with so many significant digits. */
export function formatCell(x: number, digits: number | null = null): string {
  if (!Number.isFinite(x)) return "none";
  return withMinus(digits === null ? x.toFixed(Math.min(DECIMALS, Math.max(0, SIGNIFICANT_DIGITS - wholeDigits(x)))) : String(Number(x.toPrecision(digits))));
}

/** Format a number as a factor: negative numbers in brackets. */
export const factor = (x: number): string => (x < 0 ? `(${formatCell(x)})` : formatCell(x));

/** Join terms by plus signs; the middle of a long sum is left out. */
export function sumText(terms: readonly string[]): string {
  if (terms.length <= MAX_TERMS) return terms.join(" + ");
  return `${terms.slice(0, MAX_TERMS - 1).join(" + ")} + \u2026 + ${terms[terms.length - 1]} (${terms.length} terms)`;
}

/** Return the text of a sum of products. */
export const productsText = (left: readonly number[], right: readonly number[]): string => sumText(left.map((x, k) => `${factor(x)} \u00d7 ${factor(right[k])}`));

/** Return the references to all numbers of a vector. */
export const refs = (vector: Vector): Ref[] => vector.values.map((_, k) => vector.ref(k));

export const rowOf = (matrix: Matrix, row: number): Vector => ({ values: matrix.values[row], ref: (k) => matrix.ref(row, k) });
export const columnOf = (matrix: Matrix, column: number): Vector => ({ values: matrix.values.map((row) => row[column]), ref: (k) => matrix.ref(k, column) });

export const pointNames = (count: number): string[] => Array.from({ length: count }, (_, k) => `point ${k + 1}`);
export const columnNumbers = (count: number): string[] => Array.from({ length: count }, (_, k) => String(k + 1));

/** The stages of one step, from the source to the output. */
export class StageRecord {
  readonly stages: Stage[] = [];

  /** @param sourceNames - the names of the source steps. */
  constructor(private readonly sourceNames: readonly string[]) {}

  /** Add a stage of (rows, columns) and return its printed numbers; the rows are the source steps unless they are named. */
  add(name: string, formula: string, numbers: readonly (readonly number[])[], options: StageOptions = {}): Matrix {
    const { rows, columns, own = null, ownAs = "origin", isByModel = false, digits = null, origin = () => null } = options;
    const values = digits === null ? printedRows(numbers) : numbers.map((row) => row.map((x) => Number(x.toPrecision(digits))));
    const stage = this.stages.length;
    this.stages.push({
      name, formula, own, ownAs, isByModel, digits, origin, numbers: values,
      rows: rows ?? this.sourceNames.slice(0, values.length), columns: columns ?? columnNumbers(values[0]?.length ?? 0), hasPointRows: rows === undefined,
    });
    return { values, stage, ref: (row, column) => ({ stage, row, column }) };
  }

  /** Add a stage of one row. */
  addRow(name: string, formula: string, row: string, numbers: readonly number[], options: StageOptions & { ownRow?: readonly number[] | undefined } = {}): Vector {
    const own = options.ownRow ? [[...options.ownRow]] : null;
    return rowOf(this.add(name, formula, [numbers], { rows: [row], own, ownAs: "rows", ...options }), 0);
  }

  /** Add a stage whose last column follows from the others, and return it. `own`: the model's own numbers of that column. */
  addColumns(name: string, formula: string, columns: Readonly<Record<string, readonly number[] | number>>, options: { rows?: string[]; own?: readonly number[] | undefined; isByModel?: boolean; origin?: Stage["origin"] } = {}): Vector {
    const names = Object.keys(columns);
    const lists = Object.values(columns);
    const count = Math.max(...lists.map((list) => (typeof list === "number" ? 1 : list.length)));
    const numbers = Array.from({ length: count }, (_, k) => lists.map((list) => (typeof list === "number" ? list : list[k])));
    const { own, ...others } = options;
    const last = names.length - 1;
    const ownNumbers = own ? [...own].map((x) => names.map((_, column) => (column === last ? x : NaN))) : null;
    return columnOf(this.add(name, formula, numbers, { columns: names, own: ownNumbers, ownAs: "column", ...others }), last);
  }

  /** The index of the next stage. */
  get next(): number {
    return this.stages.length;
  }
}
