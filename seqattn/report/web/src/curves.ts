// The losses by epoch.
import type { Curves } from "./content";
import { selectById } from "./dom";
import { escapeMarkup, formatNumber } from "./format";
import { draw, onThemeChange, theme } from "./plots";
import { integerTicks, logTicks } from "./ticks";

function lossTraces(curves: Curves): PlotValues[] {
  const { soft, accent, warn } = theme();
  const line = (name: string, values: number[], colour: string, dash: string): PlotValues => ({ type: "scatter", mode: curves.epoch.length > 1 ? "lines" : "markers", name, x: curves.epoch, y: values, line: { color: colour, dash, width: 2 }, hovertemplate: "%{y:.4g}" });
  return [
    line("training", curves.training, soft, "dot"),
    line("validation, free running", curves.validation, accent, "solid"),
    line("validation, teacher-forced", curves.teacher_forced, warn, "dash"),
  ];
}

/** Return the lines of the noise floor, of the best baseline and of the best epoch, with their labels. */
function referenceLines(curves: Curves, log: boolean): { shapes: PlotValues[]; annotations: PlotValues[] } {
  const { ink, soft } = theme();
  const shapes: PlotValues[] = [];
  const annotations: PlotValues[] = [];
  const level = (value: number, words: string, colour: string, side = "bottom"): void => {
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color: colour, width: 1, dash: "dashdot" } });
    annotations.push({ xref: "paper", x: 1, xanchor: "right", y: log ? Math.log10(value) : value, yanchor: side, text: words, showarrow: false, font: { size: 11, color: colour } });
  };
  if (curves.floor) level(curves.floor, `noise floor ${formatNumber(curves.floor)}`, ink, "top");
  if (curves.baseline && curves.baseline[1] > 0) level(curves.baseline[1], escapeMarkup(`${curves.baseline[0]} ${formatNumber(curves.baseline[1])}`), soft);
  if (curves.best_epoch) {
    shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: curves.best_epoch, x1: curves.best_epoch, line: { color: soft, width: 1, dash: "dot" } });
    annotations.push({ yref: "paper", y: 1, yanchor: "bottom", x: curves.best_epoch, text: `best epoch ${curves.best_epoch}`, showarrow: false, font: { size: 11 } });
  }
  return { shapes, annotations };
}

export function showCurves(curves: Curves, unit: string): void {
  const drawLosses = (): void => {
    const log = selectById("scale").value === "log";
    const values = [...curves.training, ...curves.validation, ...curves.teacher_forced, curves.floor, curves.baseline?.[1]];
    draw("loss", lossTraces(curves), {
      hovermode: "x unified", ...referenceLines(curves, log), legend: { orientation: "h", y: -0.18 },
      xaxis: { title: { text: "epoch" }, ...integerTicks(curves.epoch.length) },
      yaxis: { type: log ? "log" : "linear", title: { text: `mean squared error${unit}` }, ...logTicks(log, values) },
    });
  };
  selectById("scale").addEventListener("change", drawLosses);
  onThemeChange(drawLosses);
  drawLosses();
}
