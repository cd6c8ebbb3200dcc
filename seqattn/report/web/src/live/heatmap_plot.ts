// The heatmap of attention weights as SVG: a cell forces its step to attend there.
import { theme } from "../plots";
import type { PointNames, Scene, Shown } from "./scene";
import { isForced, largestWeight, pointNames, weightsOf } from "./scene";
import { inkOn, rgb, svg, weightColour } from "./svg";

const MARGIN = { left: 72, right: 8, top: 8, bottom: 42 };
const MAX_HEIGHT = 420;
const MAX_CELLS_AS_ELEMENTS = 1600;
const ALIGNMENT_COLOUR = "#e69f00";

export interface HeatmapEvents {
  /** A row was chosen. */
  chooseStep(step: number): void;
  /** A cell was clicked, or Enter pressed on it. */
  chooseCell(step: number, column: number): void;
}

/** The size of a heatmap in pixels and cells. */
interface Grid {
  rows: number;
  columns: number;
  cellWidth: number;
  cellHeight: number;
}

const hasText = ({ cellWidth, cellHeight }: Grid): boolean => cellWidth >= 42 && cellHeight >= 20;

/** A key of the elements that the cells of a grid need. */
const shapeOf = (grid: Grid): string => `${grid.rows} ${grid.columns} ${hasText(grid)}`;

/** Return the element of a cell, which contains a rectangle with its tooltip and, if there is room, the weight. */
function cellElement(grid: Grid, step: number, column: number): SVGElement {
  const rect = svg("rect", { class: "cell", "data-step": step, "data-column": column }, svg("title"));
  return svg("g", {}, rect, ...(hasText(grid) ? [svg("text", { "text-anchor": "middle", "font-size": 14, "pointer-events": "none" })] : []));
}

/** Put a rectangle over a cell. */
function place(rect: SVGElement, { cellWidth, cellHeight }: Grid, step: number, column: number): void {
  const box = { x: MARGIN.left + column * cellWidth, y: MARGIN.top + step * cellHeight, width: cellWidth - 1, height: cellHeight - 1 };
  for (const [name, value] of Object.entries(box)) rect.setAttribute(name, value.toFixed(2));
}

/** Return the tooltip of a cell. */
function describeCell(scene: Scene, names: PointNames, rows: readonly number[][], step: number, column: number): string {
  const weight = rows[step][column].toFixed(4);
  if (isForced(scene, step)) return `${names.row(step)}: you forced its weight of ${names.column(column)} to ${weight}`;
  return `${names.row(step)} attends to ${names.column(column)} with ${weight}`;
}

export class HeatmapPlot {
  private readonly root: SVGSVGElement;
  private static count = 0;
  private readonly cellId: string;
  private column = 0;
  /** The elements of the cells stay while the grid has the same cells: a browser loses the click on an element that is replaced between press and release. */
  private readonly cellGroup = svg("g", { "aria-hidden": "true" });
  private readonly cursor = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", "data-only": "page" });
  private shape = "";

  constructor(private readonly place: HTMLElement, private readonly events: HeatmapEvents) {
    this.root = svg("svg", { tabindex: 0, role: "grid" });
    this.cellId = `live-cell-${(HeatmapPlot.count += 1)}`;
    place.replaceChildren(this.root);
    this.root.append(this.cellGroup);
    // Only the outline follows the focus, which comes between the press of a click and its release.
    this.root.addEventListener("focus", () => { this.showCursor(); });
    this.root.addEventListener("blur", () => { this.showCursor(); });
  }

  private showCursor(): void {
    this.cursor.setAttribute("visibility", document.activeElement === this.root ? "visible" : "hidden");
  }

  draw(scene: Scene, shown: Shown): void {
    const { state } = scene;
    const { meaning } = shown;
    const rows = weightsOf(shown.answer, state.kind, state.layer, state.head);
    this.place.hidden = rows.length === 0;
    if (!rows.length) return;
    const width = Math.max(240, this.place.clientWidth);
    const columns = rows[0].length;
    const cellWidth = (width - MARGIN.left - MARGIN.right) / columns;
    const cellHeight = Math.min(cellWidth, 64, (MAX_HEIGHT - MARGIN.top - MARGIN.bottom) / rows.length);
    const grid = { rows: rows.length, columns, cellWidth, cellHeight };
    const height = MARGIN.top + MARGIN.bottom + cellHeight * rows.length;
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.setAttribute("width", String(width));
    this.root.setAttribute("height", String(height));
    this.column = Math.min(this.column, columns - 1);
    const chosen = Math.min(state.step, rows.length - 1);
    const canForce = scene.canForce && state.kind === "cross";
    this.root.setAttribute("aria-label", `Attention weights. Arrow keys choose a cell${canForce ? ", Enter makes its step attend there only" : ""}.`);
    this.root.setAttribute("aria-rowcount", String(rows.length));
    this.root.setAttribute("aria-colcount", String(columns));
    const largest = largestWeight(rows, meaning);
    const names = pointNames(state);
    const colourOf = (weight: number): [number, number, number] => weightColour(weight, largest, meaning === "strength");
    const isImage = rows.length * columns > MAX_CELLS_AS_ELEMENTS;
    if (isImage) this.cellGroup.replaceChildren(this.image(rows, grid, colourOf));
    else this.drawCells(rows, grid, (t, s) => describeCell(scene, names, rows, t, s), colourOf);
    this.shape = isImage ? "" : shapeOf(grid);
    while (this.cellGroup.nextSibling) this.cellGroup.nextSibling.remove();
    this.root.append(this.labels(scene, grid), this.marks(scene, grid, chosen), this.cursor, this.currentCell(scene, rows, chosen, names));
    place(this.cursor, grid, chosen, this.column);
    this.cursor.setAttribute("stroke", theme().ink);
    this.showCursor();
    this.root.onclick = (event) => { this.click(event, grid); };
    this.root.onkeydown = (event) => { this.key(event, grid, chosen); };
  }

  /** The chosen cell for screen readers, which read it when the keyboard moves to it. */
  private currentCell(scene: Scene, rows: readonly number[][], chosen: number, names: PointNames): SVGElement {
    this.root.setAttribute("aria-activedescendant", this.cellId);
    const cell = svg("g", { id: this.cellId, role: "gridcell", "aria-colindex": this.column + 1, "aria-selected": "true", "aria-label": `${names.row(chosen)}, ${names.column(this.column)}: ${rows[chosen][this.column].toFixed(3)}${isForced(scene, chosen) ? ", forced" : ""}` });
    return svg("g", { role: "row", "aria-rowindex": chosen + 1, "data-only": "page" }, cell);
  }

  private drawCells(rows: readonly number[][], grid: Grid, describe: (step: number, column: number) => string, colourOf: (weight: number) => [number, number, number]): void {
    if (this.shape !== shapeOf(grid)) this.cellGroup.replaceChildren(...rows.flatMap((row, t) => row.map((_, s) => cellElement(grid, t, s))));
    for (const [t, row] of rows.entries()) {
      for (const [s, weight] of row.entries()) {
        const colour = colourOf(weight);
        const [rect, words] = this.cellGroup.children[t * grid.columns + s].children as unknown as [SVGRectElement, SVGTextElement | undefined];
        place(rect, grid, t, s);
        rect.setAttribute("fill", rgb(colour));
        rect.firstElementChild!.textContent = describe(t, s);
        if (!words) continue;
        words.setAttribute("x", String(MARGIN.left + (s + 0.5) * grid.cellWidth));
        words.setAttribute("y", String(MARGIN.top + (t + 0.5) * grid.cellHeight + 5));
        words.setAttribute("fill", inkOn(colour));
        words.textContent = weight.toFixed(2).replace("-", "\u2212");
      }
    }
  }

  private image(rows: readonly number[][], grid: Grid, colourOf: (weight: number) => [number, number, number]): SVGElement {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [grid.columns, grid.rows];
    const context = canvas.getContext("2d")!;
    const pixels = context.createImageData(grid.columns, grid.rows);
    for (const [k, weight] of rows.flat().entries()) pixels.data.set([...colourOf(weight), 255], 4 * k);
    context.putImageData(pixels, 0, 0);
    return svg("image", { x: MARGIN.left, y: MARGIN.top, width: grid.columns * grid.cellWidth, height: grid.rows * grid.cellHeight, preserveAspectRatio: "none", href: canvas.toDataURL(), style: "image-rendering: pixelated", "pointer-events": "none" });
  }

  private labels({ state, hasAlignment }: Scene, grid: Grid): SVGElement {
    const { soft } = theme();
    const group = svg("g", { "font-size": 13, fill: soft, "aria-hidden": "true", "pointer-events": "none" });
    const S = state.source.length;
    const isCountedFrom1 = state.kind === "cross" && hasAlignment;
    const firstRow = state.kind === "encoder_self" || isCountedFrom1 ? 1 : S + 1;
    const firstColumn = state.kind === "decoder_self" ? S + 1 : 1;
    const every = (size: number, room: number): number => Math.max(1, Math.ceil(room / size));
    const bottom = MARGIN.top + grid.rows * grid.cellHeight;
    for (let t = 0; t < grid.rows; t += every(grid.cellHeight, 13)) group.append(svg("text", { x: MARGIN.left - 6, y: MARGIN.top + (t + 0.5) * grid.cellHeight + 4, "text-anchor": "end" }, String(firstRow + t)));
    for (let s = 0; s < grid.columns; s += every(grid.cellWidth, 26)) group.append(svg("text", { x: MARGIN.left + (s + 0.5) * grid.cellWidth, y: bottom + 14, "text-anchor": "middle" }, String(firstColumn + s)));
    const across = state.kind === "decoder_self" ? "attended forecast point" : "attended source point";
    group.append(svg("text", { x: MARGIN.left + (grid.columns * grid.cellWidth) / 2, y: bottom + 32, "text-anchor": "middle", "font-size": 14 }, across));
    const middle = (MARGIN.top + bottom) / 2;
    group.append(svg("text", { x: 14, y: middle, "text-anchor": "middle", "font-size": 14, transform: `rotate(-90 14 ${middle})` }, state.kind === "encoder_self" ? "source point" : isCountedFrom1 ? "target step" : "forecast point"));
    return group;
  }

  /** Outlines: the true source step, forced rows, the chosen row, and the cell of the keyboard. */
  private marks({ state, alignment }: Scene, grid: Grid, chosen: number): SVGElement {
    const { warn } = theme();
    const group = svg("g", { fill: "none", "pointer-events": "none" });
    const outline = (t: number, s: number, count: number, attributes: Record<string, string | number>): void => {
      group.append(svg("rect", { x: MARGIN.left + s * grid.cellWidth, y: MARGIN.top + t * grid.cellHeight, width: count * grid.cellWidth - 1, height: grid.cellHeight - 1, ...attributes }));
    };
    if (state.kind === "cross") {
      for (const [t, s] of alignment.entries()) if (s >= 0 && t < grid.rows && s < grid.columns) outline(t, s, 1, { stroke: ALIGNMENT_COLOUR, "stroke-width": 2.5, class: "true-step" });
      for (const row of state.force.list) {
        if (row.layer !== state.layer || row.head !== state.head) continue;
        const middle = MARGIN.top + (row.step - 0.5) * grid.cellHeight + 4;
        const hasRoom = grid.cellHeight >= 30; // below the number of the row
        group.append(svg("text", { x: hasRoom ? MARGIN.left - 6 : 26, y: middle + (hasRoom ? 13 : 0), "font-size": 12, stroke: "none", fill: warn, "text-anchor": hasRoom ? "end" : "start", class: "forced-row" }, hasRoom ? "forced" : "\u25b8"));
        outline(row.step - 1, 0, grid.columns, { stroke: warn, "stroke-width": 1.5, "stroke-dasharray": "5 3" });
      }
    }
    outline(chosen, 0, grid.columns, { stroke: warn, "stroke-width": 3 });
    return group;
  }

  private click(event: MouseEvent, grid: Grid): void {
    const box = this.root.getBoundingClientRect();
    const scale = this.root.viewBox.baseVal.width / box.width;
    const column = Math.floor(((event.clientX - box.left) * scale - MARGIN.left) / grid.cellWidth);
    const row = Math.floor(((event.clientY - box.top) * scale - MARGIN.top) / grid.cellHeight);
    if (row < 0 || row >= grid.rows) return;
    if (column < 0 || column >= grid.columns) {
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
