// The panel "The arithmetic of this step": one table per stage, and where each number comes from.
import { byId, textElement } from "../dom";
import { messageOf } from "../format";
import { formatCell } from "./arithmetic/record";
import type { Ref, Stage, StepInput } from "./arithmetic";
import { describeCell, explainStep, MAX_POINTS, shownRows } from "./arithmetic";
import type { AnyExplorer } from "./explorer_base";
import type { Numbers } from "./model";
import type { BaseScene } from "./scene";

const HINT = "Move over a number, or choose one with Tab and the arrow keys: this line shows where it comes from.";
const KEYS: Readonly<Record<string, readonly [rows: number, columns: number] | undefined>> = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
};

/** The cells of a stage on the page. */
interface Table {
  cells: Map<string, HTMLTableCellElement>;
  /** The shown rows, as indices of the stage's rows. */
  rows: number[];
  own: HTMLTableCellElement[];
}

const key = (row: number, column: number): string => `${row}/${column}`;
const hasOwn = (stage: Stage): boolean => stage.own !== null && stage.ownAs !== "origin";

/** What the panel needs of an explorer of one kind. */
export interface ArithmeticSource {
  /** Return what the stages start from.
   *
   * @param parameter - returns a parameter of the first model.
   */
  input: (parameter: (name: string) => Numbers | undefined) => StepInput;
  /** The name of the chosen step. */
  name: () => string;
}

export class ArithmeticPanel {
  private readonly details = byId("live-arithmetic") as HTMLDetailsElement;
  private readonly place = byId("live-arithmetic-stages");
  private readonly line = byId("live-arithmetic-line");
  private stages: Stage[] = [];
  private tables: Table[] = [];
  /** The names, rows and columns of the tables on the page. Tables of the same form get new numbers only. */
  private form = "";
  private chosen: Ref | null = null;
  /** Called with the name of the stage whose number is chosen; null if none is. */
  onChoose: (stage: string | null) => void = () => undefined;
  private isPending = false;
  private readonly parameters = new Map<string, Numbers | undefined>();
  private parametersOf = "";

  constructor(private readonly explorer: AnyExplorer, private readonly source: ArithmeticSource) {
    explorer.useTrace(() => this.details.open);
    this.details.addEventListener("toggle", () => { this.show(); });
    this.place.addEventListener("pointerover", (event) => { this.choose(this.find(event.target)); });
    this.place.addEventListener("pointerleave", () => { this.choose(this.find(document.activeElement)); });
    this.place.addEventListener("focusin", (event) => { this.choose(this.find(event.target)); });
    this.place.addEventListener("focusout", () => { this.choose(null); });
    this.place.addEventListener("keydown", (event) => { this.move(event); });
  }

  /** Follow an answer; many in one frame are shown once. Nothing is computed while the panel is closed. */
  follow(): void {
    if (!this.details.open || this.isPending) return;
    this.isPending = true;
    requestAnimationFrame(() => {
      this.isPending = false;
      this.show();
    });
  }

  /** Open the panel at the first stage whose name begins with one of some words. */
  async reveal(names: readonly string[]): Promise<void> {
    this.details.open = true;
    await this.explorer.update();
    this.show();
    const stage = this.stages.findIndex(({ name }) => names.some((each) => name.startsWith(each)));
    const cell = this.place.querySelector<HTMLElement>(`[data-stage="${stage}"] td[data-cell]`);
    cell?.scrollIntoView({ block: "center" });
    cell?.focus();
  }

  private show(): void {
    const { scene } = this.explorer;
    if (!this.details.open || !scene) return;
    if (!scene.hasTrace) {
      void this.explorer.update(); // an answer with the intermediate results comes back to `follow`
      return;
    }
    const title = byId("live-arithmetic-title");
    try {
      const rows = this.explain(scene);
      title.textContent = describeStep(this.explorer, this.source.name(), rows);
    } catch (error) {
      this.place.replaceChildren();
      [this.stages, this.tables, this.form] = [[], [], ""];
      title.textContent = messageOf(error);
    }
    this.choose(this.chosen);
  }

  /** Show the stages, and return the shown rows of the weights and their count. */
  private explain({ state }: BaseScene): { shown: number; count: number } {
    if (state.kind === "encoder_self") throw new Error("The arithmetic is that of the attention to the source. Choose that attention to see it.");
    this.stages = explainStep(this.source.input((name) => this.parameter(name)));
    const weights = this.stages.find(({ name }) => name === "Weights" || name === "Strengths")!.numbers.map((row) => row[row.length - 1]);
    const rows = shownRows(weights);
    this.render(rows);
    return { shown: rows.length, count: weights.length };
  }

  /** Return a parameter of the first model. */
  parameter(name: string): Numbers | undefined {
    const [{ model, run, epoch }] = this.explorer.scene!.state.subjects;
    const live = this.explorer.models[model];
    const frame = JSON.stringify([model, run, epoch]);
    if (frame !== this.parametersOf) this.parameters.clear();
    this.parametersOf = frame;
    if (!this.parameters.has(name)) this.parameters.set(name, live.parameter(name, live.findRun(run), epoch));
    return this.parameters.get(name);
  }

  /** Return the shown rows of a stage. Fast weights have stages of the source alone, and of the whole memory. */
  private static rowsOf(stage: Stage, shown: readonly number[]): number[] {
    const all = stage.rows.map((_, k) => k);
    if (!stage.hasPointRows || all.length <= MAX_POINTS) return all;
    const some = shown.filter((row) => row < all.length);
    return some.length ? some : all.slice(0, MAX_POINTS);
  }

  private render(shown: readonly number[]): void {
    const rows = this.stages.map((stage) => ArithmeticPanel.rowsOf(stage, shown));
    const form = JSON.stringify(this.stages.map((stage, k) => [stage.name, stage.formula, stage.columns, rows[k].map((row) => stage.rows[row]), hasOwn(stage)]));
    if (form !== this.form) {
      this.tables = [];
      this.place.replaceChildren(...this.stages.map((stage, k) => this.build(stage, k, rows[k])));
      this.form = form;
    }
    for (const [k, stage] of this.stages.entries()) this.fill(stage, this.tables[k], rows[k]);
  }

  /** Write the numbers of a stage into its cells. */
  private fill(stage: Stage, table: Table, rows: readonly number[]): void {
    const set = (cell: HTMLElement, text: string): void => { if (cell.textContent !== text) cell.textContent = text; };
    table.rows = [...rows];
    for (const [place, row] of rows.entries()) {
      for (const [column, x] of stage.numbers[row].entries()) set(table.cells.get(key(place, column))!, formatCell(x, stage.digits));
    }
    const own = !hasOwn(stage) ? [] : stage.ownAs === "column" ? rows.map((row) => stage.own![row][stage.columns.length - 1]) : stage.own!.flat();
    for (const [k, cell] of table.own.entries()) set(cell, Number.isFinite(own[k]) ? formatCell(own[k], stage.digits) : "");
  }

  private build(stage: Stage, index: number, rows: readonly number[]): HTMLElement {
    const block = document.createElement("div");
    block.className = "stage";
    block.dataset.stage = String(index);
    const heading = textElement("h3", stage.name);
    heading.id = `live-stage-${index}`;
    block.append(heading);
    if (stage.formula) block.append(formulaElement(stage.formula));
    const table = document.createElement("table");
    table.setAttribute("aria-labelledby", heading.id);
    table.setAttribute("role", "grid");
    const built: Table = { cells: new Map(), rows: [...rows], own: [] };
    const isColumn = hasOwn(stage) && stage.ownAs === "column";
    const head = table.createTHead().insertRow();
    head.append(headerCell("", "col"), ...stage.columns.map((name) => headerCell(name, "col")), ...(isColumn ? [headerCell("not rounded", "col")] : []));
    if (isColumn) head.lastElementChild!.classList.add("exact");
    const body = table.createTBody();
    for (const [place, row] of rows.entries()) {
      const line = body.insertRow();
      line.append(headerCell(stage.rows[row], "row"));
      for (const column of stage.columns.keys()) {
        const cell = line.insertCell();
        cell.className = "number";
        cell.tabIndex = place === 0 && column === 0 ? 0 : -1;
        cell.dataset.cell = key(place, column);
        built.cells.set(key(place, column), cell);
      }
      if (isColumn) built.own.push(ownCell(line));
    }
    if (hasOwn(stage) && !isColumn) {
      const line = body.insertRow();
      line.className = "exact";
      line.append(headerCell("not rounded", "row"));
      built.own.push(...stage.columns.map(() => ownCell(line)));
    }
    block.append(table);
    this.tables[index] = built;
    return block;
  }

  /** Return the number that an element of the panel shows; null if it shows none. */
  private find(element: EventTarget | null): Ref | null {
    const cell = element instanceof Element ? element.closest<HTMLElement>("td[data-cell]") : null;
    const block = cell?.closest<HTMLElement>("[data-stage]");
    if (!cell || !block || !this.place.contains(cell)) return null;
    const [place, column] = cell.dataset.cell!.split("/").map(Number);
    const stage = Number(block.dataset.stage);
    return { stage, row: this.tables[stage].rows[place], column };
  }

  private cellOf({ stage, row, column }: Ref): HTMLTableCellElement | undefined {
    const table = this.tables[stage] as Table | undefined;
    return table?.cells.get(key(table.rows.indexOf(row), column));
  }

  /** Show where a number comes from, and mark the cells that it is computed from. */
  private choose(ref: Ref | null): void {
    for (const cell of this.place.querySelectorAll(".chosen, .origin")) cell.classList.remove("chosen", "origin");
    this.chosen = ref && this.cellOf(ref) ? ref : null;
    this.onChoose(this.chosen && this.stages[this.chosen.stage].name);
    if (!this.chosen) {
      this.line.textContent = this.stages.length ? HINT : "";
      return;
    }
    const { stage, row, column } = this.chosen;
    this.cellOf(this.chosen)!.classList.add("chosen");
    for (const each of this.stages[stage].origin(row, column)?.cells ?? []) this.cellOf(each)?.classList.add("origin");
    this.line.textContent = describeCell(this.stages, stage, row, column);
  }

  /** Move the focus within a table by the arrow keys. */
  private move(event: KeyboardEvent): void {
    const direction = KEYS[event.key];
    const cell = event.target instanceof Element ? event.target.closest<HTMLElement>("td[data-cell]") : null;
    const table = this.tables[Number(cell?.closest<HTMLElement>("[data-stage]")?.dataset.stage)] as Table | undefined;
    if (!direction || !cell || !table) return;
    const [place, column] = cell.dataset.cell!.split("/").map(Number);
    const next = table.cells.get(key(place + direction[0], column + direction[1]));
    event.preventDefault();
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

/** Return a formula whose indices are drawn below the line. The underscore stays in the text, for those who copy it. */
function formulaElement(formula: string): HTMLElement {
  const code = document.createElement("code");
  for (const [k, part] of formula.split(/(?<=[A-Za-z])_([A-Za-z0-9]+)/).entries()) {
    if (k % 2 === 0) {
      code.append(part);
      continue;
    }
    const index = document.createElement("sub");
    const underscore = textElement("span", "_");
    underscore.className = "spoken";
    index.append(underscore, part);
    code.append(index);
  }
  return code;
}

function headerCell(text: string, scope: string): HTMLTableCellElement {
  const cell = textElement("th", text);
  cell.scope = scope;
  if (scope === "col") cell.className = "number";
  return cell;
}

function ownCell(line: HTMLTableRowElement): HTMLTableCellElement {
  const cell = line.insertCell();
  cell.className = "number exact";
  return cell;
}

/** Describe what the tables show. */
function describeStep({ first: { layers, heads }, state, scene }: AnyExplorer, name: string, { shown, count }: { shown: number; count: number }): string {
  const all = scene!.shown;
  const places = [name];
  if (layers > 1) places.push(`layer ${state.layer + 1}`);
  if (heads > 1) places.push(`head ${state.head + 1}`);
  if (all.length > 1) places.push(all[0].name);
  let text = `Attention to the source: ${places.join(", ")}. Each number is computed from the rounded numbers above it; "not rounded" marks the same numbers as the model computes them, without rounding in between.`;
  if (shown < count) text += ` The tables show the ${shown} of ${count} source steps with the largest weights; sums run over all of them.`;
  return text;
}

/** Show the arithmetic of the chosen step after each answer. */
export function addArithmetic(explorer: AnyExplorer, source: ArithmeticSource): ArithmeticPanel {
  const panel = new ArithmeticPanel(explorer, source);
  explorer.onAnswer(() => { panel.follow(); });
  return panel;
}
