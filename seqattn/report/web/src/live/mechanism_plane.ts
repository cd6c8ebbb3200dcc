// Query, keys and context of width 2 as arrows in a plane.
import { theme } from "../plots";
import type { WeightScale } from "./matrix";
import type { Flow } from "./mechanism_texts";
import { halo, linearScale, rgb, svg } from "./svg";

const SIZE = 300;
const MARGIN = 16;

/** Draw the plane, or hide its place if the vectors have another width. */
export function drawPlane(place: HTMLElement, { query, keys, context, weights, labels }: Flow, scale: WeightScale): void {
  const isPlane = query?.length === 2 && keys !== null && keys[0].length === 2;
  place.hidden = !isPlane;
  if (!isPlane) {
    place.replaceChildren();
    return;
  }
  const { line, soft, ink, warn, accent, ground } = theme();
  const hasContext = context?.length === 2;
  const vectors = [query, ...keys, ...(hasContext ? [context] : [])];
  const most = 1.12 * Math.max(1e-6, ...vectors.flat().map(Math.abs));
  const [toX, toY] = [linearScale([-most, most], [MARGIN, SIZE - MARGIN]), linearScale([-most, most], [SIZE - MARGIN, MARGIN])];
  const arrow = ([x, y]: readonly number[], colour: string, width: number, name: string): SVGElement => {
    const [endX, endY] = [toX(x), toY(y)];
    const angle = Math.atan2(endY - toY(0), endX - toX(0));
    const wing = (turn: number): string => `${(endX - 9 * Math.cos(angle + turn)).toFixed(1)} ${(endY - 9 * Math.sin(angle + turn)).toFixed(1)}`;
    return svg("g", {},
      svg("line", { x1: toX(0), y1: toY(0), x2: endX, y2: endY, stroke: colour, "stroke-width": width }),
      svg("path", { d: `M${endX} ${endY}L${wing(0.4)}L${wing(-0.4)}Z`, fill: colour }),
      svg("text", { x: endX + 6 * Math.sign(x || 1), y: endY + (y < 0 ? 14 : -5), "font-size": 13, "text-anchor": x < 0 ? "end" : "start", fill: ink, ...halo(ground) }, name));
  };
  const root = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "img", "aria-label": "Query, keys and context as arrows in a plane" },
    svg("line", { x1: MARGIN, x2: SIZE - MARGIN, y1: toY(0), y2: toY(0), stroke: line }), svg("line", { y1: MARGIN, y2: SIZE - MARGIN, x1: toX(0), x2: toX(0), stroke: line }),
    ...keys.map((key, s) => arrow(key, rgb(scale.colour(weights[s])), 2 + 3 * Math.min(1, Math.abs(weights[s]) / scale.high), `key of ${labels[s]}`)),
    ...(hasContext ? [arrow(context, accent, 2, "context")] : []),
    arrow(query, warn, 3, "query"),
    svg("text", { x: MARGIN, y: SIZE - 2, "font-size": 12, fill: soft }, "The colour of a key is that of its weight."));
  place.replaceChildren(root);
}
