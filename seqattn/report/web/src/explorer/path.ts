// The path of the chosen sequence: in the plane of two features, or each feature over the steps.
import type { Unpacked } from "../content";
import { escapeMarkup, formatValue, pointNames, shorten } from "../format";
import { colourScale, draw, theme } from "../plots";
import type { View } from "./view";
import { MAX_ROWS } from "./view";

const ROW_GAP = 0.07;

/** A horizontal coordinate: a number, or a date as ISO text. */
type Place = number | string;

/** Return the markers of attended points. The area and the colour of a marker depend on the weight. */
function litMarkers(view: View, count: number): PlotValues {
  const { ink, soft } = theme();
  const { map, weights } = view;
  if (!map || !weights.length) return { size: 9, color: soft };
  const colours = colourScale(view.meaning, map, view.largest);
  const widest = Math.max(Math.abs(colours.zmin), colours.zmax);
  const strongest = Math.max(widest, ...weights.map(Math.abs).filter(Number.isFinite));
  const base = view.lengths[0] > 16 ? 4 : 8;
  const real = Array.from({ length: count }, (_, k) => (Number.isFinite(weights[k]) ? weights[k] : 0));
  return {
    size: real.map((weight) => base + 20 * (Math.abs(weight) / strongest) ** 0.5), color: real,
    colorscale: colours.colorscale, cmin: colours.zmin, cmax: colours.zmax, line: { color: ink, width: 1 },
  };
}

/** Return the markers of the forecast. The chosen step has a large marker. */
function forecastMarkers(view: View, walked: number): PlotValues {
  if (view.kind === "decoder_self") return litMarkers(view, walked);
  const { warn } = theme();
  const isChosen = (k: number): boolean => k === view.step && view.kind !== "encoder_self";
  return { symbol: "diamond-open", size: Array.from({ length: walked }, (_, k) => (isChosen(k) ? 17 : 6)), color: warn, line: { color: warn, width: 2.5 } };
}

/** Return the features that have their own row, with the target features first. In the plane, there is one row without a name. */
function featureRows({ examples }: View): string[] {
  return examples.plane ? [""] : [...new Set([...examples.target_features, ...examples.features])];
}

/** Return a function that names a point of a feature with its value and unit. */
function valueNames(view: View, rows: string[]): (feature: string, x: Place, y: number) => string {
  const { plane, target_features: targets } = view.examples;
  const spreads = new Map((plane ? targets : rows).map((name) => [name, view.spread(name)]));
  const value = (name: string, number: number): string => `${formatValue(number, spreads.get(name)!)}${escapeMarkup(view.unitOf(name))}`;
  return (feature, x, y) => (plane
    ? targets.map((name, f) => value(name, f ? y : Number(x))).join(", ")
    : `${escapeMarkup(feature)} ${value(feature, y)}`);
}

/** Return the source, the true target and the forecast in one row. */
function rowTraces(view: View, feature: string, axis: string, nameValue: (feature: string, x: Place, y: number) => string): PlotValues[] {
  const { soft, warn, accent } = theme();
  const { examples: { plane, features, target_features: targets }, lengths: [S, T] } = view;
  const walked = view.kind === "encoder_self" ? T : view.step + 1;
  const [sourcePlaces, targetPlaces] = view.places;
  const across = (array: Unpacked, places: Place[], count: number): Place[] =>
    (plane ? view.points(array, count, 0) : places.slice(0, count));
  const trace = (name: string, names: string[], xs: Place[], ys: number[], extra: PlotValues): PlotValues => ({
    x: xs, y: ys, text: names.map((point, k) => `${point}<br>${nameValue(feature, xs[k], ys[k])}`), yaxis: axis, mode: "lines+markers",
    name, legendgroup: name, hovertemplate: "%{text}<extra></extra>", ...extra,
  });
  const traces: PlotValues[] = [];
  const given = plane ? 1 : features.indexOf(feature);
  const targetIndex = plane ? 1 : targets.indexOf(feature);
  if (given >= 0) {
    traces.push(trace("source", pointNames(S), across(view.source, sourcePlaces, S), view.points(view.source, S, given),
      { line: { color: soft, width: 1.5 }, marker: view.kind === "decoder_self" ? { size: 7, color: soft } : litMarkers(view, S), meta: "source" }));
  }
  if (targetIndex >= 0) {
    traces.push(trace("truth", pointNames(T, S + 1), across(view.target, targetPlaces, T), view.points(view.target, T, targetIndex),
      { line: { color: accent, dash: "dot", width: 1.5 }, marker: { symbol: "x-thin-open", size: 9, color: accent }, meta: "target" }));
    traces.push(trace("forecast", pointNames(walked, S + 1), across(view.forecast, targetPlaces, walked), view.points(view.forecast, walked, targetIndex),
      { line: { color: warn, width: 1.5 }, marker: forecastMarkers(view, walked), meta: "target" }));
  }
  return traces;
}

function rowAxes(view: View, rows: string[]): PlotValues {
  const { examples } = view;
  if (examples.plane) return { yaxis: { title: { text: escapeMarkup(view.nameOf(examples.features[1])) }, scaleanchor: "x" } };
  const high = (1 - ROW_GAP * (rows.length - 1)) / rows.length;
  return Object.fromEntries(rows.map((feature, row) => {
    const top = 1 - row * (high + ROW_GAP);
    const name = view.nameOf(feature);
    const title = { text: escapeMarkup(shorten(name, name === feature ? 18 : 28)), font: { size: 12 } };
    return [row ? `yaxis${row + 1}` : "yaxis", { title, domain: [Math.max(0, top - high), top], nticks: rows.length > 2 ? 5 : 0 }];
  }));
}

export function drawPath(view: View): void {
  const { examples } = view;
  const every = featureRows(view);
  const rows = every.slice(0, MAX_ROWS);
  const nameValue = valueNames(view, rows);
  const shown = new Set<unknown>();
  const traces = rows.flatMap((feature, row) => rowTraces(view, feature, row ? `y${row + 1}` : "y", nameValue)).map((trace) => {
    const showlegend = !shown.has(trace.name);
    shown.add(trace.name);
    return { ...trace, showlegend };
  });
  const more = every.length - rows.length;
  const word = examples.times ? "time" : "step";
  const overSteps = more ? `${word} (${more} more features are not drawn)` : word;
  const below = examples.plane ? view.nameOf(examples.features[0]) : overSteps;
  draw("path", traces, {
    ...rowAxes(view, rows), xaxis: { title: { text: escapeMarkup(below) }, anchor: rows.length > 1 ? `y${rows.length}` : "y" },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02 }, hovermode: "closest", uirevision: String(view.example),
  });
}
