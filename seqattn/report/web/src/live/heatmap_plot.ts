// The heatmap of attention weights as SVG: a cell forces its step to attend there.
import { capitalize, shorten, withMinus } from "../format";
import { ALIGNMENT_COLOUR, theme } from "../plots";
import type { Link, MatrixView, WeightScale } from "./matrix";
import { inkOn, rgb, svg, textWidth } from "./svg";

const FONT = 13;
export const TOP = 8;
/** Of the colour bar and its numbers. */
const BAR = { gap: 14, width: 12, numbers: 40, title: 18 };
const BAR_STEPS = 48;
const MIN_BAR = 96;
const MAX_HEIGHT = 420;
export const MAX_CELL = 64;
const MAX_CELLS_AS_ELEMENTS = 1600;
const LONGEST_LABEL = 16;
/** A narrower cell has no room for a label of its own. */
const MIN_LABELLED = 9;
/** Between narrower cells, gaps would be a pattern of their own. */
const MIN_GAPPED = 8;
/** A heatmap of symbols on a narrow screen is wider than the screen, and scrolls. */
const MIN_SYMBOL_CELL = 13;
const MAX_SCROLLED_COLUMNS = 60;

export interface HeatmapEvents {
  /** A row was chosen. */
  chooseStep(step: number): void;
  /** A cell was clicked, or Enter pressed on it. */
  chooseCell(step: number, column: number): void;
  /** The pointer is over a column; null: over none. */
  pointAt(column: number | null): void;
}

/** The size of a heatmap in pixels and cells. */
export interface Grid {
  rows: number;
  columns: number;
  cellWidth: number;
  cellHeight: number;
  left: number;
  width: number;
  height: number;
  /** Whether the labels of columns are turned, because they are wider than a cell. */
  isTurned: boolean;
}

export const hasText = ({ cellWidth, cellHeight }: Grid): boolean => cellWidth >= 42 && cellHeight >= 20;
const bottomOf = ({ rows, cellHeight }: Grid): number => TOP + rows * cellHeight;

/** A key of the elements that the cells of a grid need. */
const shapeOf = (grid: Grid): string => `${grid.rows} ${grid.columns} ${hasText(grid)}`;

export const labelWidth = (labels: readonly string[]): number => Math.max(0, ...labels.map((label) => textWidth(shorten(label, LONGEST_LABEL), FONT)));

/** Divide the room of a heatmap. */
function layOut(view: MatrixView, room: number): Grid {
  const [rows, columns] = [view.rows.length, view.columnLabels.length];
  const left = 30 + labelWidth(view.rowLabels) + (view.canForce ? 12 : 0); // room for the marks of forced rows, so that the cells stay where they are
  const right = BAR.gap + BAR.width + BAR.numbers + BAR.title;
  const least = view.isNumbered || columns > MAX_SCROLLED_COLUMNS ? 0 : MIN_SYMBOL_CELL;
  const width = Math.max(room, left + right + columns * least);
  const cellWidth = Math.min(MAX_CELL * 2, (width - left - right) / columns);
  const widest = labelWidth(view.columnLabels);
  const isTurned = !view.isNumbered && widest > Math.max(cellWidth, MIN_LABELLED) - 3;
  const below = (isTurned ? widest + 10 : 18) + 24;
  const cellHeight = Math.min(cellWidth, MAX_CELL, (MAX_HEIGHT - TOP - 42) / rows);
  const height = Math.max(TOP + rows * cellHeight, MIN_BAR) + below;
  return { rows, columns, cellWidth, cellHeight, left, width, height, isTurned };
}

/** Return the element of a cell, which contains a rectangle with its tooltip and, if there is room, the weight. */
function cellElement(grid: Grid, step: number, column: number): SVGElement {
  const rect = svg("rect", { class: "cell", "data-step": step, "data-column": column }, svg("title"));
  return svg("g", {}, rect, ...(hasText(grid) ? [svg("text", { "text-anchor": "middle", "font-size": 14, "pointer-events": "none" })] : []));
}

/** Put a rectangle over a cell. */
export function place(rect: SVGElement, { cellWidth, cellHeight, left }: Grid, step: number, column: number): void {
  const withGap = (size: number): number => (size < MIN_GAPPED ? size : size - 1);
  const box = { x: left + column * cellWidth, y: TOP + step * cellHeight, width: withGap(cellWidth), height: withGap(cellHeight) };
  for (const [name, value] of Object.entries(box)) rect.setAttribute(name, value.toFixed(2));
}

/** Return the tooltip of a cell. */
function describeCell({ rows, names, isForced }: MatrixView, step: number, column: number): string {
  const weight = withMinus(rows[step][column].toFixed(4));
  if (isForced(step)) return `${names.row(step)}: you forced its weight of ${names.column(column)} to ${weight}`;
  return `${names.row(step)} attends to ${names.column(column)} with ${weight}`;
}

/** Draw a bar with the colours of a scale, its ends and its title. */
function colourBar({ low, high, title, colour }: WeightScale, grid: Grid): SVGElement {
  const { soft, line } = theme();
  const x = grid.left + grid.columns * grid.cellWidth + BAR.gap;
  const height = Math.max(MIN_BAR, grid.rows * grid.cellHeight);
  const group = svg("g", { class: "colour-bar", "font-size": FONT, fill: soft, "aria-hidden": "true", "pointer-events": "none" });
  for (let k = 0; k < BAR_STEPS; k += 1) {
    const weight = high - ((k + 0.5) / BAR_STEPS) * (high - low);
    group.append(svg("rect", { x, y: TOP + (k / BAR_STEPS) * height, width: BAR.width, height: height / BAR_STEPS + 0.5, fill: rgb(colour(weight)) }));
  }
  group.append(svg("rect", { x, y: TOP, width: BAR.width, height, fill: "none", stroke: line }));
  for (const weight of low < 0 ? [low, 0, high] : [low, (low + high) / 2, high]) {
    const y = TOP + ((high - weight) / (high - low)) * height;
    const text = withMinus(String(Number(weight.toPrecision(2))));
    group.append(svg("text", { x: x + BAR.width + 4, y: Math.min(TOP + height, Math.max(TOP + 9, y + 4)) }, text));
  }
  const [titleX, middle] = [x + BAR.width + BAR.numbers + 8, TOP + height / 2];
  group.append(svg("text", { x: titleX, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${titleX} ${middle})` }, textWidth(title, FONT) > height ? title.replace(", relative to the largest", " / largest") : title));
  return group;
}

/** Return the labels of rows and columns, and the names of the axes. */
export function axisLabels({ rowLabels, columnLabels, isNumbered, down, across }: Pick<MatrixView, "rowLabels" | "columnLabels" | "isNumbered" | "down" | "across">, grid: Grid): SVGElement {
  const { soft } = theme();
  const group = svg("g", { "font-size": FONT, fill: soft, "aria-hidden": "true", "pointer-events": "none" });
  const every = (size: number, room: number): number => Math.max(1, Math.ceil(room / size));
  const bottom = bottomOf(grid);
  const everyRow = every(grid.cellHeight, MIN_LABELLED);
  const rowFont = Math.min(FONT, everyRow > 1 ? everyRow * grid.cellHeight : grid.cellHeight + 1);
  for (let t = 0; t < grid.rows; t += everyRow) {
    group.append(svg("text", { "font-size": rowFont, x: grid.left - 6, y: TOP + (t + 0.5) * grid.cellHeight + 4, "text-anchor": "end" }, shorten(rowLabels[t], LONGEST_LABEL)));
  }
  for (let s = 0; s < grid.columns; s += every(grid.cellWidth, isNumbered ? 26 : MIN_LABELLED)) {
    const [x, label] = [grid.left + (s + 0.5) * grid.cellWidth, shorten(columnLabels[s], LONGEST_LABEL)];
    group.append(grid.isTurned ? svg("text", { x: x + 4, y: bottom + 6, "text-anchor": "end", transform: `rotate(-90 ${x + 4} ${bottom + 6})` }, label) : svg("text", { "font-size": isNumbered ? FONT : Math.min(FONT, grid.cellWidth + 1), x, y: bottom + 15, "text-anchor": "middle" }, label));
  }
  group.append(svg("text", { x: grid.left + (grid.columns * grid.cellWidth) / 2, y: grid.height - 8, "text-anchor": "middle", "font-size": 14 }, across));
  const middle = Math.max((TOP + bottom) / 2, textWidth(down, 14) / 2 + 4); // a low picture has a shorter side than its name
  group.append(svg("text", { x: 14, y: middle, "text-anchor": "middle", "font-size": 14, transform: `rotate(-90 14 ${middle})` }, down));
  return group;
}

export class HeatmapPlot {
  private readonly root: SVGSVGElement;
  private static count = 0;
  private readonly cellId: string;
  private column = 0;
  /** The elements of the cells stay while the grid has the same cells: a browser loses the click on an element that is replaced between press and release. */
  private readonly cellGroup = svg("g", { "aria-hidden": "true" });
  private readonly cursor = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", "data-only": "page" });
  /** The column of the source step at which the reader points, in this picture or in another. */
  private readonly pointed = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", "data-only": "page", visibility: "hidden" });
  private shape = "";
  private grid: Grid | null = null;
  private view: MatrixView | null = null;
  /** The column that is marked. */
  private marked: number | null = null;
  /** The cell below the pointer: row and column. */
  private below: [row: number, column: number] | null = null;
  /** Says what the cell below the pointer shows. */
  private readonly cellText = document.createElement("p");

  constructor(private readonly place: HTMLElement, private readonly events: HeatmapEvents) {
    this.root = svg("svg", { tabindex: 0, role: "grid" });
    this.cellId = `live-cell-${(HeatmapPlot.count += 1)}`;
    this.cellText.className = "hint cell-text screen";
    this.cellText.setAttribute("aria-hidden", "true"); // screen readers read the cells
    place.replaceChildren(this.root, this.cellText);
    this.root.append(this.cellGroup);
    // Only the outline follows the focus, which comes between the press of a click and its release.
    this.root.addEventListener("focus", () => { this.showCursor(); });
    this.root.addEventListener("blur", () => { this.showCursor(); });
    this.root.addEventListener("pointermove", (event) => { this.point(event); });
    this.root.addEventListener("pointerleave", () => { this.point(null); });
  }

  /** Follow the pointer; null: it is elsewhere. */
  private point(event: PointerEvent | null): void {
    const column = event ? this.columnAt(event) : null;
    const row = event ? this.rowAt(event) : null;
    this.below = row === null || column === null ? null : [row, column];
    this.describeBelow();
    this.events.pointAt(column);
  }

  private describeBelow(): void {
    const { view, below } = this;
    const isThere = below !== null && below[0] < (view?.rows.length ?? 0) && below[1] < (view?.columnLabels.length ?? 0);
    this.cellText.textContent = isThere ? capitalize(describeCell(view!, ...below)) : "";
  }

  private rowAt(event: MouseEvent): number | null {
    const { grid } = this;
    if (!grid) return null;
    const box = this.root.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) * (this.root.viewBox.baseVal.width / box.width) - TOP) / grid.cellHeight);
    return row >= 0 && row < grid.rows ? row : null;
  }

  /** Mark the column of a source step; null: none. */
  mark(column: number | null): void {
    const { grid, pointed } = this;
    this.marked = column;
    pointed.setAttribute("visibility", grid && column !== null && column < grid.columns ? "visible" : "hidden");
    if (!grid || column === null) return;
    place(pointed, { ...grid, cellHeight: grid.rows * grid.cellHeight }, 0, column);
    pointed.setAttribute("stroke", theme().accent);
  }

  /** Return the column of a pointer; null if it is over none. */
  private columnAt(event: MouseEvent): number | null {
    const { grid } = this;
    if (!grid) return null;
    const box = this.root.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) * (this.root.viewBox.baseVal.width / box.width) - grid.left) / grid.cellWidth);
    return column >= 0 && column < grid.columns ? column : null;
  }

  private showCursor(): void {
    this.cursor.setAttribute("visibility", document.activeElement === this.root ? "visible" : "hidden");
  }

  /** Draw a view, or hide the picture if there are no weights. */
  draw(view: MatrixView): void {
    const { rows, chosen, scale } = view;
    this.place.hidden = rows.length === 0;
    this.place.style.overflowX = "auto";
    if (!rows.length) return;
    const grid = layOut(view, Math.max(240, this.place.clientWidth));
    [this.grid, this.view] = [grid, view];
    this.root.setAttribute("viewBox", `0 0 ${grid.width} ${grid.height}`);
    this.root.setAttribute("width", String(grid.width));
    this.root.setAttribute("height", String(grid.height));
    this.column = Math.min(this.column, grid.columns - 1);
    this.root.setAttribute("aria-label", `Attention weights. Arrow keys choose a cell${view.canForce ? ", Enter makes its step attend there only" : ""}.`);
    this.root.setAttribute("aria-rowcount", String(rows.length));
    this.root.setAttribute("aria-colcount", String(grid.columns));
    const isImage = rows.length * grid.columns > MAX_CELLS_AS_ELEMENTS;
    if (isImage) this.cellGroup.replaceChildren(this.image(view, grid));
    else this.drawCells(view, grid);
    this.shape = isImage ? "" : shapeOf(grid);
    while (this.cellGroup.nextSibling) this.cellGroup.nextSibling.remove();
    this.root.append(axisLabels(view, grid), colourBar(scale, grid), this.marks(view, grid), this.pointed, this.cursor, this.currentCell(view));
    place(this.cursor, grid, chosen, this.column);
    this.cursor.setAttribute("stroke", theme().ink);
    this.showCursor();
    this.describeBelow();
    this.mark(this.marked);
    this.root.onclick = (event) => { this.click(event); };
    this.root.onkeydown = (event) => { this.key(event, grid, chosen); };
  }

  /** The chosen cell for screen readers, which read it when the keyboard moves to it. */
  private currentCell({ rows, chosen, names, isForced }: MatrixView): SVGElement {
    this.root.setAttribute("aria-activedescendant", this.cellId);
    const cell = svg("g", { id: this.cellId, role: "gridcell", "aria-colindex": this.column + 1, "aria-selected": "true", "aria-label": `${names.row(chosen)}, ${names.column(this.column)}: ${rows[chosen][this.column].toFixed(3)}${isForced(chosen) ? ", forced" : ""}` });
    return svg("g", { role: "row", "aria-rowindex": chosen + 1, "data-only": "page" }, cell);
  }

  private drawCells(view: MatrixView, grid: Grid): void {
    const { rows, scale } = view;
    if (this.shape !== shapeOf(grid)) this.cellGroup.replaceChildren(...rows.flatMap((row, t) => row.map((_, s) => cellElement(grid, t, s))));
    for (const [t, row] of rows.entries()) {
      for (const [s, weight] of row.entries()) {
        const colour = scale.colour(weight);
        const [rect, words] = this.cellGroup.children[t * grid.columns + s].children as unknown as [SVGRectElement, SVGTextElement | undefined];
        place(rect, grid, t, s);
        rect.setAttribute("fill", rgb(colour));
        rect.firstElementChild!.textContent = describeCell(view, t, s);
        if (!words) continue;
        words.setAttribute("x", String(grid.left + (s + 0.5) * grid.cellWidth));
        words.setAttribute("y", String(TOP + (t + 0.5) * grid.cellHeight + 5));
        words.setAttribute("fill", inkOn(colour));
        words.textContent = withMinus(weight.toFixed(2));
      }
    }
  }

  private image({ rows, scale }: MatrixView, grid: Grid): SVGElement {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [grid.columns, grid.rows];
    const context = canvas.getContext("2d")!;
    const pixels = context.createImageData(grid.columns, grid.rows);
    for (const [k, weight] of rows.flat().entries()) pixels.data.set([...scale.colour(weight), 255], 4 * k);
    context.putImageData(pixels, 0, 0);
    return svg("image", { x: grid.left, y: TOP, width: grid.columns * grid.cellWidth, height: grid.rows * grid.cellHeight, preserveAspectRatio: "none", href: canvas.toDataURL(), style: "image-rendering: pixelated", "pointer-events": "none" });
  }

  /** Outlines: known links, forced rows and the chosen row. */
  private marks({ rows, links, isForced, chosen }: MatrixView, grid: Grid): SVGElement {
    const { warn } = theme();
    const group = svg("g", { fill: "none", "pointer-events": "none" });
    const outline = (t: number, s: number, count: number, attributes: Record<string, string | number>): void => {
      group.append(svg("rect", { x: grid.left + s * grid.cellWidth, y: TOP + t * grid.cellHeight, width: count * grid.cellWidth - 1, height: grid.cellHeight - 1, ...attributes }));
    };
    for (const link of links) if (link.row < grid.rows && link.column < grid.columns) outlineLink(link, outline);
    for (const t of rows.keys()) {
      if (!isForced(t)) continue;
      group.append(svg("text", { x: 20, y: TOP + (t + 0.5) * grid.cellHeight + 4, "font-size": 12, stroke: "none", fill: warn, class: "forced-row" }, "\u25b8"));
      outline(t, 0, grid.columns, { stroke: warn, "stroke-width": 1.5, "stroke-dasharray": "5 3" });
    }
    const { ink, ground } = theme();
    outline(chosen, 0, grid.columns, { stroke: ground, "stroke-width": 5 });
    outline(chosen, 0, grid.columns, { stroke: ink, "stroke-width": 2.5 });
    return group;
  }

  private click(event: MouseEvent): void {
    const [row, column] = [this.rowAt(event), this.columnAt(event)];
    if (row === null) return;
    if (column === null) {
      this.events.chooseStep(row);
      return;
    }
    this.column = column;
    this.events.chooseCell(row, column);
  }

  private key(event: KeyboardEvent, grid: Grid, chosen: number): void {
    const [dt, ds] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (dt || ds) {
      event.preventDefault();
      this.column = Math.min(grid.columns - 1, Math.max(0, this.column + ds));
      this.events.chooseStep(Math.min(grid.rows - 1, Math.max(0, chosen + dt)));
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.events.chooseCell(chosen, this.column);
    }
  }
}

/** Outline the cell of a known link: an orange line between two dark ones is visible on yellow, too. A possible link is dashed. */
function outlineLink({ row, column, isPossible }: Link, outline: (t: number, s: number, count: number, attributes: Record<string, string | number>) => void): void {
  outline(row, column, 1, { stroke: "#000", "stroke-width": 4 });
  outline(row, column, 1, { stroke: ALIGNMENT_COLOUR, "stroke-width": 2, "stroke-dasharray": isPossible ? "3 3" : "none", class: "true-step" });
}
