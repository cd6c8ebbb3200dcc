// Plots with plotly: theme, layout and heatmaps.
import type { Unpacked, WeightMeaning } from "./content";
import { byId, plotById } from "./dom";

export const PLOT_CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };

/** With more columns, the weights are small, so the colour scale ends at the largest weight. */
export const MAX_UNIT_SCALE_COLUMNS = 16;
/** The colour of the outlines of true source steps. */
export const ALIGNMENT_COLOUR = "#e69f00";
// From blue through white, which is 0, to red.
const DIVERGING = ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"].map((colour, k) => [k / 4, colour]);

const redraws: (() => void)[] = [];

/** Draw a plot again when the colours of the page change. */
export function onThemeChange(draw: () => void): void {
  redraws.push(draw);
}

/** Draw the plots again when the colour scheme of the browser changes, and before and after printing. */
export function followTheme(): void {
  const again = (): void => { for (const draw of redraws) draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", again);
}

export interface Theme {
  ground: string;
  ink: string;
  soft: string;
  line: string;
  accent: string;
  warn: string;
}

/** Return the colours of page.css for the current colour scheme. */
export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  return { ground: colour("--ground"), ink: colour("--ink"), soft: colour("--soft"), line: colour("--line"), accent: colour("--accent"), warn: colour("--warn") };
}

/** Return a layout with the colours of the page. The entries of `more` replace entries of the layout. */
export function layout(more: PlotValues): PlotValues {
  const { ground, ink, line } = theme();
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  const axes = Object.entries({ xaxis: {}, yaxis: {}, ...more }).filter(([key]) => /^[xy]axis/.test(key));
  return {
    paper_bgcolor: ground, plot_bgcolor: ground, font: { color: ink, size: 13 },
    margin: { l: 50, r: 15, t: 30, b: 45 }, hoverlabel: { namelength: -1 }, ...more,
    ...Object.fromEntries(axes.map(([key, own]) => [key, { ...axis, ...(own as PlotValues) }])),
  };
}

/** Draw a plot, or replace the content of an existing plot. */
export function draw(id: string, traces: PlotValues[], more: PlotValues): void {
  void Plotly.react(id, traces, layout(more), PLOT_CONFIG);
}

/** Replace a plot with text. */
export function writeInstead(id: string, words: string): void {
  Plotly.purge(id);
  byId(id).textContent = words;
}

/** Remove text from the place of a plot. */
export function clearText(id: string): void {
  if (!plotById(id).data) byId(id).textContent = "";
}

export interface ColourScale {
  colorscale: unknown;
  zmin: number;
  zmax: number;
}

/** Return the colour scale of weights. The scale ends at `largest`, and it is symmetric about 0 for read strengths. */
export function colourScale(meaning: WeightMeaning, array: Pick<Unpacked, "low" | "high">, largest: number): ColourScale {
  if (meaning === "strength") {
    const widest = Math.max(Math.abs(array.low), Math.abs(array.high)) || 1;
    return { colorscale: DIVERGING, zmin: -widest, zmax: widest };
  }
  return { colorscale: "Viridis", zmin: 0, zmax: largest || 1 };
}

/** Return a heatmap of rows of weights that are exact to a number of decimals. */
export function heatmap(z: (number | null)[][], across: string[], down: string[], colours: ColourScale, title: string, decimals = 4): PlotValues {
  return {
    type: "heatmap", z, x: across, y: down, ...colours, xgap: z.length <= 16 ? 1 : 0, ygap: z.length <= 16 ? 1 : 0,
    hovertemplate: `%{y} attends to %{x}: %{z:.${String(Math.min(3, decimals))}f}<extra></extra>`,
    texttemplate: z.length <= 8 && z[0].length <= 8 ? `%{z:.${String(Math.min(2, decimals))}f}` : "",
    colorbar: { title: { text: title, side: "right" }, thickness: 12 },
  };
}

/** Return the outline of one cell per row. A negative column has no outline. Thin outlines have a dark border, so that they are visible on bright cells. */
export function outlines(columns: readonly number[], colour: string): PlotValues[] {
  const lines = columns.length > 24 ? [{ color: "#000000", width: 4 }, { color: colour, width: 1.5 }] : [{ color: colour, width: 2.5 }];
  return columns.flatMap((column, row) => (column < 0 ? [] : lines.map((line) => (
    { type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5, line }
  ))));
}
