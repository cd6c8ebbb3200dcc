// What the marks of the path stand for.
import { byId, textElement } from "../dom";
import { theme } from "../plots";
import type { LiveExplorer } from "./explorer";
import type { Scene } from "./scene";
import { svg } from "./svg";

/** Return a mark and its name. */
function entry(name: string, ...marks: SVGElement[]): HTMLElement {
  const picture = svg("svg", { viewBox: "0 0 22 16", width: 22, height: 16, "aria-hidden": "true" }, ...marks);
  const made = document.createElement("span");
  made.append(picture, textElement("span", name));
  return made;
}

/** Return the entries for what a scene has. */
function entries({ shown, state: { truth } }: Scene): HTMLElement[] {
  const { soft, accent, ink } = theme();
  const line = (colour: string, dashes: string): SVGElement => svg("line", { x1: 0, x2: 22, y1: 8, y2: 8, stroke: colour, "stroke-width": 1.5, "stroke-dasharray": dashes });
  const found = [entry("source", line(soft, "none"), svg("circle", { cx: 11, cy: 8, r: 5, fill: soft, stroke: ink }))];
  if (truth) found.push(entry("truth", line(accent, "2 4"), svg("path", { d: "M7 4l8 8m0 -8l-8 8", stroke: accent, "stroke-width": 1.5 })));
  for (const { name, colour } of shown) {
    const label = shown.length > 1 ? `forecast of ${name}` : "forecast";
    found.push(entry(label, line(colour, "none"), svg("path", { d: "M11 3L16 8L11 13L6 8Z", fill: colour })));
  }
  const forced = shown.filter(({ answer, own }) => answer !== own);
  for (const { name, colour } of forced) found.push(entry(shown.length > 1 ? `forecast of ${name} with its own weights` : "forecast with the model's own weights", line(colour, "6 4")));
  return found;
}

/** Show a legend below the path. */
export function addLegend(explorer: LiveExplorer): void {
  const place = document.createElement("p");
  place.id = "live-legend";
  byId("live-path").after(place);
  explorer.onAnswer((scene) => { place.replaceChildren(...entries(scene)); });
}
