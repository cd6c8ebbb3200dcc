// The losses by epoch.
import type { Curves } from "./content";
import { selectById, showNote } from "./dom";
import { escapeMarkup, formatNumber } from "./format";
import type { LossAxis, Reference } from "./loss_axis";
import { lossAxis } from "./loss_axis";
import { draw, onThemeChange, theme } from "./plots";
import { integerTicks } from "./ticks";

const NOISE_FLOOR = "noise floor";
/** The space above the plot in pixels: the toolbar of plotly, and below it the name of the best epoch. */
const TOP_MARGIN = 54;
/** The upper edge of the legend, as a share of the height of the plot below it: under the name of the axis. */
const LEGEND_PLACE = -0.25;
/** The references are those of the validation part, as the curves are. */
const PART = " (validation)";

function lossTraces(curves: Curves): PlotValues[] {
  const { soft, accent, warn } = theme();
  const line = (name: string, values: number[], colour: string, dash: string): PlotValues => ({ type: "scatter", mode: curves.epoch.length > 1 ? "lines" : "markers", name, x: curves.epoch, y: values, line: { color: colour, dash, width: 2 }, hovertemplate: "%{y:.4g}" });
  return [
    line("training", curves.training, soft, "dot"),
    line("validation, free running", curves.validation, accent, "solid"),
    line("validation, teacher-forced", curves.teacher_forced, warn, "dash"),
  ];
}

/** Return the noise floor and the best baseline, if they are known. */
function referencesOf({ floor, baseline }: Curves): Reference[] {
  const floors: Reference[] = typeof floor === "number" ? [[NOISE_FLOOR, floor]] : [];
  return baseline ? [...floors, baseline] : floors;
}

/** Return the lines of the reference losses and of the best epoch, and the labels of the lines. */
function referenceLines(curves: Curves, axis: LossAxis): { shapes: PlotValues[]; annotations: PlotValues[] } {
  const { ink, soft } = theme();
  const shapes: PlotValues[] = [];
  const annotations: PlotValues[] = [];
  for (const [name, loss] of axis.references) {
    const [colour, side] = name === NOISE_FLOOR ? [ink, "top"] : [soft, "bottom"];
    const text = escapeMarkup(`${name}${PART} ${loss === 0 ? "0" : formatNumber(loss)}`);
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: loss, y1: loss, line: { color: colour, width: 1, dash: "dashdot" } });
    annotations.push({ xref: "paper", x: 1, xanchor: "right", y: axis.coordinate(loss), yanchor: side, text, showarrow: false, font: { size: 13, color: colour } });
  }
  if (curves.best_epoch) {
    shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: curves.best_epoch, x1: curves.best_epoch, line: { color: soft, width: 1, dash: "dot" } });
    annotations.push({ yref: "paper", y: 1, yanchor: "bottom", x: curves.best_epoch, text: `best epoch ${curves.best_epoch}`, showarrow: false, font: { size: 13 } });
  }
  return { shapes, annotations };
}

export function showCurves(curves: Curves, loss: string, unit: string): void {
  const losses = [...curves.training, ...curves.validation, ...curves.teacher_forced];
  const drawLosses = (): void => {
    const axis = lossAxis(selectById("scale").value === "log", losses, referencesOf(curves));
    draw("loss", lossTraces(curves), {
      margin: { l: 50, r: 15, t: TOP_MARGIN, b: 45 }, hovermode: "x unified", ...referenceLines(curves, axis), legend: { orientation: "h", yanchor: "top", y: LEGEND_PLACE },
      xaxis: { title: { text: "epoch" }, ...integerTicks(curves.epoch.length) },
      yaxis: { title: { text: `${loss}${unit}` }, ...axis.axis },
    });
    showNote(axis.note);
  };
  selectById("scale").addEventListener("change", drawLosses);
  onThemeChange(drawLosses);
  drawLosses();
}
