// What the output depends on: the attention weights of a test sequence beside the contributions of its source steps.
import type { Contributions, ContributionsOfSequence } from "./content";
import { byId, fill, numberOf, selectById, textElement } from "./dom";
import { shorten, withMinus } from "./format";
import type { Grid } from "./live/heatmap_plot";
import { axisLabels, hasText, labelWidth, MAX_CELL, place, TOP } from "./live/heatmap_plot";
import { inkOn, rgb, svg, weightColour } from "./live/svg";
import { onThemeChange, theme } from "./plots";
import { visible } from "./words/vocabulary";

const MAX_HEIGHT = 360;
const MIN_HEIGHT = 100;
/** Symbols are labels of their own, so a column of a symbol has room for one letter. */
const MIN_SYMBOL_CELL = 11;
const MIN_CELL_HEIGHT = 10;
const MAX_NAME = 40;
const SCALE = { width: 72, height: 10, steps: 24 };

type Cell = readonly [row: number, column: number];

/** The names of the steps of a sequence. */
export interface StepNames {
  rowLabels: string[];
  columnLabels: string[];
  /** Whether the labels of the columns are numbers, of which some may be left out. */
  isNumbered: boolean;
  down: string;
  across: string;
}

/** Return the labels of the rows and columns, which are symbols, or numbers that the output continues. */
export function stepNames({ source, output, maps }: ContributionsOfSequence): StepNames {
  const [rows] = Object.values(maps);
  const numbers = (count: number, first: number): string[] => Array.from({ length: count }, (_, k) => String(first + k));
  const S = rows[0].length;
  return {
    rowLabels: output.length ? output.map(visible) : numbers(rows.length, S + 1),
    columnLabels: source.length ? source.map(visible) : numbers(S, 1),
    isNumbered: !source.length, down: output.length ? "output" : "forecast point", across: source.length ? "source" : "source point",
  };
}

/** Return the numbers of a cell in all heatmaps as text. */
export function describeContributions({ source, output, maps }: ContributionsOfSequence, { rowLabels, columnLabels }: StepNames, [row, column]: Cell): string {
  const name = (kind: string, labels: readonly string[], k: number, isSymbol: boolean): string =>
    isSymbol ? `${kind} symbol ${k + 1}, \u201c${labels[k]}\u201d` : `${kind} point ${labels[k]}`;
  const numbers = Object.entries(maps).map(([method, rows]) => `${method.replace(/weights$/, "weight")} ${withMinus(rows[row][column].toFixed(4))}`);
  const rowName = name(output.length ? "Output" : "Forecast", rowLabels, row, output.length > 0);
  return `${rowName}; ${name("source", columnLabels, column, source.length > 0)}: ${numbers.join(", ")}.`;
}

/** Divide the room of a heatmap. */
function layOut({ rowLabels, columnLabels, isNumbered }: StepNames, width: number): Grid {
  const [rows, columns] = [rowLabels.length, columnLabels.length];
  const left = 30 + labelWidth(rowLabels);
  const cellWidth = Math.min(2 * MAX_CELL, (width - left - 2) / columns);
  const widest = labelWidth(columnLabels);
  const isTurned = !isNumbered && widest > Math.max(cellWidth, MIN_SYMBOL_CELL) - 2;
  const cellHeight = Math.min(Math.max(cellWidth, MIN_CELL_HEIGHT), MAX_CELL, MAX_HEIGHT / rows);
  const height = Math.max(TOP + rows * cellHeight, MIN_HEIGHT) + (isTurned ? widest + 10 : 18) + 24;
  return { rows, columns, cellWidth, cellHeight, left, width, height, isTurned };
}

/** One heatmap: its heading with the scale of its colours, its cells, and an outline of the chosen cell. */
class ContributionsMap {
  readonly figure = document.createElement("div");
  private readonly heading: HTMLElement;
  private readonly picture = svg("svg", { tabindex: 0, role: "grid" });
  private readonly outlines = [4, 2].map((width) => svg("rect", { fill: "none", "stroke-width": width, "pointer-events": "none" }));
  private readonly cellId: string;
  private grid: Grid | null = null;

  constructor(private readonly method: string, private readonly rows: readonly (readonly number[])[], index: number, choose: (cell: Cell) => void, move: (down: number, right: number) => void) {
    this.cellId = `contributions-cell-${index}`;
    this.heading = textElement("h3", method);
    this.figure.append(this.heading, this.picture);
    this.picture.setAttribute("aria-label", `${method}. Arrow keys choose a cell.`);
    const follow = (event: PointerEvent): void => {
      const cell = this.cellAt(event);
      if (cell) choose(cell);
    };
    this.picture.addEventListener("pointermove", follow);
    this.picture.addEventListener("pointerdown", follow); // a finger does not move before it touches
    this.picture.addEventListener("focus", () => { move(0, 0); });
    this.picture.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      move(step[0], step[1]);
    });
  }

  private get isSigned(): boolean {
    return this.rows.some((row) => row.some((value) => value < 0));
  }

  private cellAt(event: PointerEvent): Cell | null {
    const { grid } = this;
    if (!grid) return null;
    const box = this.picture.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - TOP) / grid.cellHeight);
    const column = Math.floor((event.clientX - box.left - grid.left) / grid.cellWidth);
    return row >= 0 && row < grid.rows && column >= 0 && column < grid.columns ? [row, column] : null;
  }

  draw(names: StepNames): void {
    this.heading.replaceChildren(this.method, this.scale());
    const grid = this.grid = layOut(names, this.figure.clientWidth);
    const { picture, rows, isSigned } = this;
    for (const [name, value] of [["viewBox", `0 0 ${grid.width} ${grid.height}`], ["width", String(grid.width)], ["height", String(grid.height)]]) picture.setAttribute(name, value);
    picture.setAttribute("aria-rowcount", String(grid.rows));
    picture.setAttribute("aria-colcount", String(grid.columns));
    const { line } = theme();
    const cells = svg("g", { "aria-hidden": "true" }, svg("rect", { x: grid.left - 1, y: TOP - 1, width: grid.columns * grid.cellWidth + 1, height: grid.rows * grid.cellHeight + 1, fill: "none", stroke: line }));
    for (const [t, row] of rows.entries()) {
      for (const [s, value] of row.entries()) {
        const colour = weightColour(value, 1, isSigned);
        const rect = svg("rect", { class: "cell", fill: rgb(colour) });
        place(rect, grid, t, s);
        cells.append(rect);
        if (hasText(grid)) cells.append(svg("text", { x: grid.left + (s + 0.5) * grid.cellWidth, y: TOP + (t + 0.5) * grid.cellHeight + 5, "text-anchor": "middle", "font-size": 14, fill: inkOn(colour), "pointer-events": "none" }, withMinus(value.toFixed(2))));
      }
    }
    picture.replaceChildren(cells, axisLabels(names, grid), ...this.outlines);
  }

  /** The ends of the colours, and the colours between them. */
  private scale(): SVGElement {
    const { isSigned } = this;
    const { soft, line } = theme();
    const low = isSigned ? -1 : 0;
    const [left, bar] = [isSigned ? 20 : 12, SCALE.width / SCALE.steps];
    const stops = Array.from({ length: SCALE.steps }, (_, k) => svg("rect", { x: left + k * bar, y: 3, width: bar + 0.5, height: SCALE.height, fill: rgb(weightColour(low + ((k + 0.5) / SCALE.steps) * (1 - low), 1, isSigned)) }));
    return svg("svg", { width: left + SCALE.width + 14, height: 16, "font-size": 13, "font-weight": 400, fill: soft, role: "img", "aria-label": `Colours from ${low} to 1` },
      svg("text", { x: left - 4, y: 13, "text-anchor": "end" }, withMinus(String(low))), ...stops,
      svg("rect", { x: left, y: 3, width: SCALE.width, height: SCALE.height, fill: "none", stroke: line }),
      svg("text", { x: left + SCALE.width + 4, y: 13 }, "1"));
  }

  /** Outline a cell, whose numbers screen readers read; null: none. */
  mark(cell: Cell | null, text: string): void {
    const { grid, outlines, picture } = this;
    picture.querySelector("[role=row]")?.remove();
    for (const outline of outlines) outline.setAttribute("visibility", cell ? "visible" : "hidden");
    if (!cell || !grid) return;
    const { ground, ink } = theme();
    for (const [k, outline] of outlines.entries()) {
      place(outline, grid, ...cell);
      outline.setAttribute("stroke", [ground, ink][k]);
    }
    const [row, column] = cell;
    picture.setAttribute("aria-activedescendant", this.cellId);
    picture.append(svg("g", { role: "row", "aria-rowindex": row + 1 }, svg("g", { id: this.cellId, role: "gridcell", "aria-colindex": column + 1, "aria-selected": "true", "aria-label": text })));
  }
}

/** Show the heatmaps of the chosen sequence, and the numbers of the cell at which the reader points. */
export function showContributions({ sequences }: Contributions): void {
  const places = byId("contributions-maps");
  let maps: ContributionsMap[] = [];
  let cell: Cell | null = null;
  const shown = (): ContributionsOfSequence => sequences[numberOf("contributions-example")];

  const mark = (): void => {
    const text = cell ? describeContributions(shown(), stepNames(shown()), cell) : "Point at a cell, or choose one with the arrow keys, to see its numbers in all heatmaps.";
    for (const map of maps) map.mark(cell, text);
    byId("contributions-cell").textContent = text;
  };
  const choose = (next: Cell): void => {
    if (next[0] === cell?.[0] && next[1] === cell[1]) return;
    cell = next;
    mark();
  };
  const move = (down: number, right: number): void => {
    const { rowLabels, columnLabels } = stepNames(shown());
    const [row, column] = cell ?? [0, 0];
    choose([Math.min(rowLabels.length - 1, Math.max(0, row + down)), Math.min(columnLabels.length - 1, Math.max(0, column + right))]);
  };
  const draw = (): void => {
    const names = stepNames(shown());
    const least = names.isNumbered ? 0 : 32 + labelWidth(names.rowLabels) + names.columnLabels.length * MIN_SYMBOL_CELL;
    places.style.setProperty("--panel", `${least}px`);
    for (const map of maps) map.draw(names);
    mark();
  };
  const show = (): void => {
    cell = null;
    maps = Object.entries(shown().maps).map(([method, rows], k) => new ContributionsMap(method, rows, k, choose, move));
    places.replaceChildren(...maps.map(({ figure }) => figure));
    byId("contributions-error").textContent = withMinus(String(shown().error));
    byId("contributions-option").textContent = ` --example ${shown().example}`;
    draw();
  };
  fill(selectById("contributions-example"), sequences.map(({ name }) => shorten(name, MAX_NAME)));
  byId("contributions-example").addEventListener("change", show);
  window.addEventListener("resize", draw);
  onThemeChange(draw);
  show();
}
