// The path of the sequence as SVG: source points can be dragged with mouse, touch and arrow keys.
import { formatValue, shorten } from "../format";
import { theme } from "../plots";
import type { Scene } from "./scene";
import { isForced, scaleOf, weightsOf } from "./scene";
import type { Scale } from "./svg";
import { halo, keepFromScrolling, linearScale, MEMBER_KEYS, memberAfter, rgb, roundTicks, svg, tickText } from "./svg";

export const MAX_ROWS = 4;
/** The points of a longer source are small and have no numbers. */
export const MAX_NUMBERED = 16;
const HEIGHT = 420;
const MARGIN = { left: 58, right: 14, top: 14, bottom: 40 };
const ROW_GAP = 22;
/** A pointer that moves less than this between press and release is a click. */
const CLICK_PIXELS = 3;
const MARGIN_SHARE = 0.18;
const HIT_RADIUS = 16;
/** A fingertip is wider than the tip of a mouse pointer. */
const TOUCH_RADIUS = 24;

/** Follows changes that the user makes in the picture. */
export interface PathEvents {
  /** A source point was moved to values of two features (in the plane) or of one. */
  move(point: number, values: Record<number, number>): void;
  choosePoint(point: number): void;
  chooseStep(step: number): void;
}

/** One coordinate system: in the plane, or one feature over the steps. */
interface Panel {
  x: Scale;
  y: Scale;
  /** Indices of the source feature of x and y, and of the target feature; -1: not part of it, null: steps. */
  sourceX: number | null;
  sourceY: number;
  targetX: number | null;
  targetY: number;
  title: string;
}

type Interval = [low: number, high: number];

function extent(values: number[]): Interval {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const margin = (high - low || Math.abs(high) || 1) * MARGIN_SHARE;
  return [low - margin, high + margin];
}

export class PathPlot {
  private panels: Panel[] = [];
  private width = 0;
  private dragged: number | null = null;
  private readonly root: SVGSVGElement;

  constructor(private readonly place: HTMLElement, private readonly events: PathEvents) {
    this.root = svg("svg", { role: "group", "aria-label": `The sequence. Arrow keys move a source point; ${MEMBER_KEYS}.` });
    this.root.style.touchAction = "pan-y";
    place.replaceChildren(this.root);
  }

  /** Draw the scene. Axes stay while a point is dragged. */
  draw(scene: Scene): void {
    this.width = Math.max(260, this.place.clientWidth);
    if (this.dragged === null) this.panels = this.layOut(scene);
    const focused = document.activeElement instanceof SVGElement ? document.activeElement.dataset.member : undefined;
    this.root.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.root.setAttribute("width", String(this.width));
    this.root.setAttribute("height", String(HEIGHT));
    this.root.replaceChildren(...this.panels.flatMap((panel, k) => [this.axes(panel, scene, k === this.panels.length - 1), this.lines(panel, scene), this.sourcePoints(panel, scene)]));
    if (focused !== undefined && this.dragged === null) this.root.querySelector<SVGElement>(`[data-member="${focused}"]`)?.focus();
  }

  private layOut(scene: Scene): Panel[] {
    const { features, targetFeatures, plane, axisNames } = scene;
    const inner: Interval = [MARGIN.left, this.width - MARGIN.right];
    if (plane) {
      const [x, y] = equalScales(extent(valuesOf(scene, 0, 0)), extent(valuesOf(scene, 1, 1)), inner, [HEIGHT - MARGIN.bottom, MARGIN.top]);
      return [{ x, y, sourceX: 0, sourceY: 1, targetX: 0, targetY: 1, title: axisNames[features[1]] ?? features[1] }];
    }
    const rows = [...new Set([...targetFeatures, ...features])].slice(0, MAX_ROWS);
    const space = rows.length > 1 ? ROW_GAP : MARGIN.top;
    const high = (HEIGHT - space - MARGIN.bottom - ROW_GAP * (rows.length - 1)) / rows.length;
    const length = scene.state.source.length + Math.max(...scene.shown.map(({ answer }) => answer.forecast.length));
    const x = linearScale([0.5, length + 0.5], inner);
    return rows.map((name, k) => {
      const top = space + k * (high + ROW_GAP);
      const [sourceY, targetY] = [features.indexOf(name), targetFeatures.indexOf(name)];
      const y = linearScale(extent(valuesOf(scene, sourceY, targetY)), [top + high, top]);
      return { x, y, sourceX: null, sourceY, targetX: null, targetY, title: axisNames[name] ?? name };
    });
  }

  private axes(panel: Panel, scene: Scene, isLast: boolean): SVGElement {
    const { line, soft } = theme();
    const group = svg("g", { "font-size": 13, fill: soft, "aria-hidden": "true" });
    const [left, right] = [MARGIN.left, this.width - MARGIN.right];
    const [bottom, top] = [panel.y(panel.y.domain[0]), panel.y(panel.y.domain[1])];
    const yTicks = roundTicks(panel.y.domain, bottom - top > 150 ? 6 : 3);
    for (const tick of yTicks) {
      const y = panel.y(tick);
      group.append(svg("line", { x1: left, x2: right, y1: y, y2: y, stroke: line }), svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, tickText(tick, yTicks)));
    }
    const hasTimes = !scene.plane && scene.times.length > 0;
    const xTicks = roundTicks(panel.x.domain, hasTimes ? 3 : this.width > 420 ? 7 : 4).filter((tick) => scene.plane || Number.isInteger(tick));
    const xText = (tick: number): string => (hasTimes ? scene.times[tick - 1] ?? "" : tickText(tick, xTicks));
    for (const tick of xTicks) {
      const x = panel.x(tick);
      group.append(svg("line", { x1: x, x2: x, y1: top, y2: bottom, stroke: line }));
      if (isLast) group.append(svg("text", { x, y: bottom + 15, "text-anchor": "middle" }, xText(tick)));
    }
    const below = scene.plane ? scene.axisNames[scene.features[0]] ?? scene.features[0] : hasTimes ? "time" : "step";
    if (isLast) group.append(svg("text", { x: (left + right) / 2, y: bottom + 32, "text-anchor": "middle", "font-size": 14 }, shorten(below, 40)));
    const middle = (top + bottom) / 2;
    const isTurned = this.panels.length === 1;
    // Beside low panels there is no room for the names.
    const title = isTurned ? { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` } : { x: left, y: top - 5 };
    group.append(svg("text", { ...title, "font-size": 14, class: "panel-name" }, shorten(panel.title, isTurned ? 24 : 40)));
    return group;
  }

  /** Source line, truth, the models' own forecasts where weights are forced, and the forecasts. */
  private lines(panel: Panel, scene: Scene): SVGElement {
    const { soft, accent } = theme();
    const { state: { source, truth, step }, shown } = scene;
    const group = svg("g", {});
    if (panel.sourceY >= 0) group.append(polyline(source.map((row, k) => place(panel, row, k, "source")), { stroke: soft, "stroke-width": 1.5 }));
    if (panel.targetY < 0) return group;
    const S = source.length;
    const known = (truth ?? []).map((row, t) => place(panel, row, S + t, "target")).filter((at) => at.every(Number.isFinite));
    group.append(polyline(known, { stroke: accent, "stroke-width": 1.5, "stroke-dasharray": "2 4" }));
    for (const [x, y] of known) group.append(svg("path", { d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10`, stroke: accent, "stroke-width": 1.5 }));
    const pixels = (forecast: readonly number[][]): [number, number][] => forecast.map((row, t) => place(panel, row, S + t, "target"));
    for (const { answer, colour } of shown) group.append(polyline(pixels(answer.forecast), { stroke: colour, "stroke-width": 2, class: "forecast" }));
    // Dashes above the lines: a forecast with the model's own weights often coincides with that of another model.
    for (const { answer, own, colour } of shown) {
      if (own !== answer) group.append(polyline(pixels(own.forecast), { stroke: colour, "stroke-width": 2.5, "stroke-dasharray": "6 5", class: "own-forecast" }));
    }
    for (const { answer, colour } of shown) {
      for (const [t, [x, y]] of pixels(answer.forecast).entries()) group.append(this.forecastPoint(x, y, t, S + t + 1, t === step, colour));
    }
    return group;
  }

  private forecastPoint(x: number, y: number, step: number, number: number, isChosen: boolean, colour: string): SVGElement {
    const r = isChosen ? 9 : 5;
    const { ground } = theme();
    const point = svg("path", { d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`, fill: isChosen ? colour : ground, stroke: colour, "stroke-width": 2, class: "forecast-point" }, svg("title", {}, `forecast point ${number}`));
    point.addEventListener("pointerenter", () => { if (this.dragged === null) this.events.chooseStep(step); });
    point.addEventListener("click", () => { this.events.chooseStep(step); });
    return point;
  }

  private sourcePoints(panel: Panel, scene: Scene): SVGElement {
    const group = svg("g", {});
    if (panel.sourceY < 0) return group;
    const { ground, ink, soft } = theme();
    const { state } = scene;
    const rows = state.kind === "decoder_self" ? [] : weightsOf(scene.shown[0].answer, state.kind, state.layer, state.head);
    const weights: (number | undefined)[] = rows[state.step] ?? [];
    const scale = scaleOf(scene, scene.shown[0]);
    const many = state.source.length > MAX_NUMBERED;
    const word = isForced(scene, state.step) ? "forced weight" : "weight";
    for (const [k, row] of state.source.entries()) {
      const [x, y] = place(panel, row, k, "source");
      const weight = weights[k];
      const r = weight === undefined ? 6 : (many ? 3.5 : 5) + 9 * Math.sqrt(Math.min(1, Math.abs(weight) / scale.high));
      const colour = weight === undefined ? soft : rgb(scale.colour(weight));
      const values = scene.features.map((name, f) => `${name} ${formatValue(row[f], 1)}`).join(", ");
      const circle = svg("circle", {
        cx: x, cy: y, r, fill: colour, stroke: ink, "stroke-width": k === state.point ? 3 : 1, class: "source-point", tabindex: k === state.point ? 0 : -1, role: "slider",
        "data-point": k, "data-member": memberName(this.panels.indexOf(panel), k), "aria-label": `source point ${k + 1}`, "aria-valuetext": values + (weight === undefined ? "" : `, ${word} ${weight.toFixed(3)}`), "aria-valuemin": panel.y.domain[0], "aria-valuemax": panel.y.domain[1], "aria-valuenow": row[panel.sourceY],
      }, svg("title", {}, `point ${k + 1}: ${values}${weight === undefined ? "" : `; ${word} ${weight.toFixed(3)}`}`));
      circle.style.cursor = "grab";
      this.follow(circle, k, panel, scene);
      if (!many) group.prepend(this.hitArea(x, y, k, panel));
      group.append(circle);
      if (!many) group.append(svg("text", { x: x + r + 3, y: y - r - 1, "font-size": 14, "font-weight": 600, fill: soft, "aria-hidden": "true", class: "point-number", ...halo(ground) }, String(k + 1)));
    }
    return group;
  }

  /** A place below a point that a finger can hit. */
  private hitArea(x: number, y: number, point: number, panel: Panel): SVGElement {
    const area = svg("circle", { cx: x, cy: y, r: matchMedia("(pointer: coarse)").matches ? TOUCH_RADIUS : HIT_RADIUS, fill: "transparent", "data-only": "page" });
    area.style.cursor = "grab";
    area.addEventListener("pointerdown", (event) => { this.startDrag(event, point, panel); });
    keepFromScrolling(area);
    return area;
  }

  private follow(circle: SVGElement, point: number, panel: Panel, scene: Scene): void {
    circle.addEventListener("focus", () => { if (scene.state.point !== point) this.events.choosePoint(point); });
    circle.addEventListener("pointerdown", (event) => { this.startDrag(event, point, panel); });
    keepFromScrolling(circle);
    circle.addEventListener("keydown", (event) => {
      const next = memberAfter(event.key, point, scene.state.source.length);
      if (next !== null) {
        event.preventDefault();
        this.root.querySelector<SVGElement>(`[data-member="${memberName(this.panels.indexOf(panel), next)}"]`)?.focus();
        return;
      }
      const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!direction) return;
      event.preventDefault();
      const size = event.shiftKey ? 0.1 : 0.02;
      const row = scene.current.source[point];
      const moved: Record<number, number> = {};
      const along = (scale: Scale): number => (scale.domain[1] - scale.domain[0]) * size;
      if (panel.sourceX !== null && direction[0]) moved[panel.sourceX] = row[panel.sourceX] + direction[0] * along(panel.x);
      if (direction[1]) moved[panel.sourceY] = row[panel.sourceY] + direction[1] * along(panel.y);
      if (Object.keys(moved).length) this.events.move(point, moved);
    });
  }

  private startDrag(event: PointerEvent, point: number, panel: Panel): void {
    event.preventDefault();
    this.dragged = point;
    this.events.choosePoint(point);
    const [startX, startY] = [event.clientX, event.clientY];
    let isMoved = false;
    const moveTo = (at: PointerEvent): void => {
      // A click chooses the point and does not move it.
      isMoved ||= Math.hypot(at.clientX - startX, at.clientY - startY) > CLICK_PIXELS;
      if (!isMoved) return;
      const box = this.root.getBoundingClientRect();
      const [x, y] = [(at.clientX - box.left) * (this.width / box.width), (at.clientY - box.top) * (HEIGHT / box.height)];
      const moved: Record<number, number> = { [panel.sourceY]: clamp(panel.y.invert(y), panel.y.domain) };
      if (panel.sourceX !== null) moved[panel.sourceX] = clamp(panel.x.invert(x), panel.x.domain);
      this.events.move(point, moved);
    };
    const onMove = (at: PointerEvent): void => { moveTo(at); };
    const onUp = (at: PointerEvent): void => {
      window.removeEventListener("pointermove", onMove);
      window.removeEventListener("pointerup", onUp);
      window.removeEventListener("pointercancel", onUp);
      this.dragged = null;
      if (at.type === "pointerup") moveTo(at);
    };
    window.addEventListener("pointermove", onMove);
    window.addEventListener("pointerup", onUp);
    window.addEventListener("pointercancel", onUp);
  }
}

/** Return the name of the circle of a source point in a panel. */
const memberName = (panel: number, point: number): string => `${panel}/${point}`;

const clamp = (value: number, [low, high]: readonly [number, number]): number => Math.min(high, Math.max(low, value));

/** All values of a source and a target feature in the scene; -1: none. */
function valuesOf({ state: { source, truth }, shown }: Scene, sourceFeature: number, targetFeature: number): number[] {
  const values = sourceFeature < 0 ? [] : source.map((row) => row[sourceFeature]);
  if (targetFeature < 0) return values;
  const forecasts = shown.flatMap(({ answer, own }) => [...answer.forecast, ...own.forecast]);
  return [...values, ...[...(truth ?? []), ...forecasts].map((row) => row[targetFeature])];
}

/** Two scales with equal units per pixel. */
function equalScales(x: Interval, y: Interval, [left, right]: Interval, [bottom, top]: Interval): [Scale, Scale] {
  const perPixel = Math.max((x[1] - x[0]) / (right - left), (y[1] - y[0]) / (bottom - top));
  const widen = ([low, high]: Interval, pixels: number): Interval => {
    const middle = (low + high) / 2;
    return [middle - (perPixel * pixels) / 2, middle + (perPixel * pixels) / 2];
  };
  return [linearScale(widen(x, right - left), [left, right]), linearScale(widen(y, bottom - top), [bottom, top])];
}

/** The pixel of a step of the source or target; `position` counts all steps from 0. */
function place(panel: Panel, row: readonly number[], position: number, side: "source" | "target"): [number, number] {
  const [fx, fy] = side === "source" ? [panel.sourceX, panel.sourceY] : [panel.targetX, panel.targetY];
  return [panel.x(fx === null ? position + 1 : row[fx]), panel.y(row[fy])];
}

function polyline(points: readonly [number, number][], attributes: Record<string, string | number>): SVGElement {
  return svg("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), fill: "none", ...attributes });
}
