// The test losses of the seeds of each variant, and a preview of the chosen run.
import type { ComparisonContent, SeedPoint, Variant } from "./content";
import { byId, fill, plotById, selectById, showNote, textElement } from "./dom";
import { escapeMarkup, formatNumber, pointNames, shorten } from "./format";
import { labelPositions } from "./labels";
import type { LossAxis } from "./loss_axis";
import { lossAxis } from "./loss_axis";
import { clearText, colourScale, draw, heatmap, MAX_UNIT_SCALE_COLUMNS, onThemeChange, theme, writeInstead } from "./plots";
import { integerTicks } from "./ticks";

interface Selection {
  variant: number;
  seed: number;
}

const MIN_WIDTH_FOR_TWO_SIDES = 500;
const PIXELS_PER_LETTER = 9;

const allLosses = (variants: readonly Variant[]): number[] => variants.flatMap((variant) => variant.points.map((point) => point.loss));
/** Return the horizontal offset of point k. The offsets separate the points (golden ratio sequence). */
const spread = (k: number, count: number): number => (count < 2 ? 0 : (((k * 0.618034) % 1) - 0.5) * 0.5);

function seedTraces(variants: readonly Variant[], now: Selection): PlotValues[] {
  const { ink, accent, warn } = theme();
  return variants.map((variant, a) => {
    const chosen = (k: number): boolean => a === now.variant && k === now.seed;
    return {
      type: "scatter", mode: "markers", name: escapeMarkup(variant.name),
      x: variant.points.map((_, k) => a + spread(k, variant.points.length)), y: variant.points.map((point) => point.loss),
      marker: { color: variant.points.map((_, k) => (chosen(k) ? warn : accent)), size: variant.points.map((_, k) => (chosen(k) ? 15 : 9)), opacity: 0.85, line: { color: ink, width: 0.5 } },
      text: variant.points.map((point) => escapeMarkup(`${variant.name}, seed ${point.seed}`)), hovertemplate: "%{text}: %{y:.4g}<extra></extra>", showlegend: false, meta: a,
    };
  });
}

/** Return shapes for the median of each variant and for the interval of the median, if the axis can show them. */
function medianShapes(variants: readonly Variant[], axis: LossAxis): PlotValues[] {
  const { ink, soft } = theme();
  const shown = allLosses(variants).filter(axis.shows);
  const [lowest, highest] = [Math.min(...shown), Math.max(...shown)];
  return variants.flatMap((variant, a) => {
    const shapes: PlotValues[] = [];
    if (variant.median !== null && axis.shows(variant.median)) shapes.push({ type: "line", x0: a - 0.35, x1: a + 0.35, y0: variant.median, y1: variant.median, line: { color: ink, width: 2.5 } });
    const [low, high] = variant.interval ?? [null, null];
    const [bottom, top] = [low !== null && axis.shows(low) ? low : lowest, high ?? highest];
    if (low !== null && axis.shows(top)) shapes.push({ type: "rect", x0: a - 0.35, x1: a + 0.35, y0: bottom, y1: top, line: { width: 0 }, fillcolor: soft, opacity: 0.3, layer: "below" });
    return shapes;
  });
}

/** Return the lines of the reference losses, and the labels of the lines. */
function referenceLines({ references, shows, coordinate }: LossAxis, losses: readonly number[]): { shapes: PlotValues[]; annotations: PlotValues[] } {
  const { soft } = theme();
  const positions = labelPositions(references.map(([, loss]) => coordinate(loss)), losses.filter(shows).map(coordinate),
    byId("seeds").clientWidth < MIN_WIDTH_FOR_TWO_SIDES ? ["right"] : ["right", "left"]);
  return {
    shapes: references.map(([, loss]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: loss, y1: loss, line: { color: soft, width: 1, dash: "dashdot" } })),
    annotations: references.map(([name, loss], k) => {
      const [side, anchor] = positions[k];
      return { xref: "paper", x: side === "left" ? 0 : 1, xanchor: side, y: coordinate(loss), yanchor: anchor, text: escapeMarkup(name), showarrow: false, font: { size: 13, color: soft } };
    }),
  };
}

function variantAxis(variants: readonly Variant[]): PlotValues {
  const room = Math.floor(byId("seeds").clientWidth / variants.length / PIXELS_PER_LETTER);
  const names = variants.map((variant) => escapeMarkup(shorten(variant.name, Math.max(18, room))) + (variant.diverged ? `<br>${variant.diverged} diverged` : ""));
  const slanted = names.some((name) => name.length > room) ? { tickangle: -40, ticklabeloverflow: "allow" } : {};
  return { tickvals: variants.map((_, a) => a), ticktext: names, ...slanted, range: [-0.6, variants.length - 0.4], zeroline: false };
}

function drawSeeds(content: ComparisonContent, now: Selection): void {
  const { references, variants } = content;
  const losses = allLosses(variants);
  const axis = lossAxis(selectById("scale").value === "log", losses, references);
  const { shapes, annotations } = referenceLines(axis, losses);
  draw("seeds", seedTraces(variants, now), {
    shapes: [...medianShapes(variants, axis), ...shapes], annotations, hovermode: "closest",
    yaxis: { title: { text: `test loss, ${content.loss_name ?? "mean squared error"}${content.unit}` }, ...axis.axis },
    xaxis: variantAxis(variants),
  });
  showNote(axis.note);
}

function describeChosen(point: SeedPoint, path: string): void {
  const words = `Test loss ${formatNumber(point.loss)} free running, ${formatNumber(point.forced)} teacher-forced; best epoch ${point.best_epoch}; it ${point.beats ? "beats" : "does not beat"} the best parameter-free baseline. `;
  // A page that was sent to somebody has no folders beside it.
  const link = textElement("a", "Open the page of the run");
  link.href = `${point.link.split("/").map(encodeURIComponent).join("/")}/report.html`;
  const command = textElement("code", `seqattn report ${path}/${point.path}`);
  byId("chosen-words").replaceChildren(words, ...(point.page ? [link] : ["Write its page: ", command]));
}

function drawChosenCurve({ curve }: SeedPoint): void {
  if (!curve) {
    writeInstead("chosen-curve", "This run has no preview of its curve.");
    return;
  }
  clearText("chosen-curve");
  const { accent } = theme();
  const { axis, note } = lossAxis(true, curve.map(([, loss]) => loss), []);
  draw("chosen-curve", [{ type: "scatter", mode: curve.length > 1 ? "lines" : "markers", x: curve.map(([epoch]) => epoch), y: curve.map(([, loss]) => loss), line: { color: accent }, hovertemplate: "epoch %{x}: %{y:.4g}<extra></extra>" }], {
    title: { text: `Validation loss, free running${note && "; losses of 0 are omitted"}`, font: { size: 14 } },
    yaxis: { ...axis },
    xaxis: { title: { text: "epoch" }, ...integerTicks(curve.at(-1)![0]) },
  });
}

function drawChosenMap({ weights, part = "", signed }: SeedPoint): void {
  if (!weights) {
    writeInstead("chosen-map", "This run has no preview of its attention.");
    return;
  }
  clearText("chosen-map");
  const S = weights[0].length;
  const cells = weights.flat().map((weight) => weight ?? 0);
  const range = { low: Math.min(...cells), high: Math.max(...cells) };
  const colours = colourScale(signed ? "strength" : "distribution", range, S > MAX_UNIT_SCALE_COLUMNS ? range.high : 1);
  draw("chosen-map", [heatmap(weights, pointNames(S), pointNames(weights.length, S + 1), colours, "weight")], {
    title: { text: `Attention in the first test sequence${part}`, font: { size: 14 } }, yaxis: { autorange: "reversed" },
  });
}

function showChosen(content: ComparisonContent, now: Selection): void {
  const variant = content.variants[now.variant];
  fill(selectById("seed"), variant.points.map((point) => String(point.seed)), now.seed);
  selectById("variant").value = String(now.variant);
  drawSeeds(content, now);
  const point = variant.points.at(now.seed);
  if (!point) {
    byId("chosen-name").textContent = `${variant.name}: no run has finished`;
    for (const id of ["chosen-words", "chosen-curve", "chosen-map"]) writeInstead(id, "");
    return;
  }
  byId("chosen-name").textContent = `${variant.name}, seed ${point.seed}`;
  describeChosen(point, content.path);
  drawChosenCurve(point);
  drawChosenMap(point);
}

export function showComparison(content: ComparisonContent): void {
  const { variants } = content;
  const now: Selection = { variant: variants.findIndex((variant) => variant.points.length), seed: 0 };
  const show = (): void => { showChosen(content, now); };
  const choose = (variant: number, seed: number): void => {
    now.variant = variant;
    now.seed = seed;
    show();
  };
  fill(selectById("variant"), variants.map((variant) => variant.name), now.variant);
  selectById("scale").addEventListener("change", () => { drawSeeds(content, now); });
  selectById("variant").addEventListener("change", () => { choose(Number(selectById("variant").value), 0); });
  selectById("seed").addEventListener("change", () => { choose(now.variant, Number(selectById("seed").value)); });
  show();
  plotById("seeds").on("plotly_click", (event) => {
    const [point] = event.points;
    choose(point.data.meta as number, point.pointNumber);
  });
  onThemeChange(show);
}
