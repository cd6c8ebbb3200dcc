// The weights of the chosen step as bars that can be dragged.
import { shorten, withMinus } from "../format";
import { theme } from "../plots";
import type { WeightScale } from "./matrix";
import { halo, keepFromScrolling, MEMBER_KEYS, memberAfter, rgb, svg, textWidth } from "./svg";

const HEIGHT = 140;
const MARGIN = { left: 44, right: 6, top: 20, bottom: 22 };
const STEP = 0.05;

export interface BarEvents {
  /** The weight of a source point was set. */
  setWeight(column: number, weight: number): void;
}

/** How the bars look. Their height and colour have the scale of the heatmap. */
export interface BarsView {
  scale: WeightScale;
  /** A label for each source step. */
  labels: readonly string[];
  isForced: boolean;
  canForce: boolean;
}

export class WeightBars {
  private readonly root = svg("svg", { role: "group" });
  private isDragging = false;
  /** The bar that Tab reaches. */
  private member = 0;

  constructor(private readonly place: HTMLElement, private readonly events: BarEvents) {
    place.replaceChildren(this.root);
  }

  /** Draw a row of weights. Nothing can be dragged if `canForce` is false. */
  draw(weights: readonly number[], { scale, labels, isForced, canForce }: BarsView): void {
    const width = Math.max(220, this.place.clientWidth);
    const { low: lowest, high: largest } = scale;
    const high = HEIGHT - MARGIN.top - MARGIN.bottom;
    const bar = (width - MARGIN.left - MARGIN.right) / weights.length;
    const toY = (weight: number): number => MARGIN.top + ((largest - weight) / (largest - lowest)) * high;
    const { line, soft, warn, ink, ground } = theme();
    const focused = document.activeElement instanceof SVGElement ? document.activeElement.dataset.bar : undefined;
    this.root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.root.setAttribute("width", String(width));
    this.root.setAttribute("height", String(HEIGHT));
    this.root.setAttribute("aria-label", canForce ? `Weights of the step. Arrow keys change a weight; ${MEMBER_KEYS}.` : "Weights of the step");
    this.member = Math.min(this.member, weights.length - 1);
    const parts: SVGElement[] = (lowest < 0 ? [lowest, 0, largest] : [0, largest]).map((tick) => svg("g", { "font-size": 13, fill: soft }, svg("line", { x1: MARGIN.left, x2: width, y1: toY(tick), y2: toY(tick), stroke: line }), svg("text", { x: MARGIN.left - 5, y: toY(tick) + 4, "text-anchor": "end" }, withMinus(String(Number(tick.toPrecision(2)))))));
    // A label is shortened to the width of its bar, but not below two letters; if there is no room for them, some bars have no label.
    const every = Math.ceil(Math.max(...labels.map((label) => textWidth(label.slice(0, 2), 13) + 3)) / bar);
    for (const [s, weight] of weights.entries()) {
      const x = MARGIN.left + s * bar;
      const [top, bottom] = [Math.min(toY(weight), toY(0)), Math.max(toY(weight), toY(0))];
      parts.push(svg("rect", { x: x + bar * 0.1, y: top, width: bar * 0.8, height: Math.max(1, bottom - top), fill: rgb(scale.colour(weight)), stroke: isForced ? warn : ink, "stroke-width": isForced ? 2 : 0.5 }));
      if (bar >= 9 && s % every === 0) parts.push(svg("text", { x: x + bar / 2, y: HEIGHT - 6, "text-anchor": "middle", "font-size": Math.min(13, bar + 1), fill: soft }, shorten(labels[s], Math.max(2, Math.floor((every * bar) / 8)))));
      if (bar >= 34) parts.push(svg("text", { x: x + bar / 2, y: top - 3, "text-anchor": "middle", "font-size": 13, fill: soft, ...halo(ground) }, weight.toFixed(2).replace("-", "\u2212")));
      if (canForce) parts.push(this.handle(s, labels[s], weight, x, bar, (y) => largest - ((y - MARGIN.top) / high) * (largest - lowest)));
    }
    this.root.replaceChildren(...parts);
    if (focused !== undefined && !this.isDragging) this.root.querySelector<SVGElement>(`[data-bar="${focused}"]`)?.focus();
  }

  private handle(column: number, label: string, weight: number, x: number, width: number, toWeight: (y: number) => number): SVGElement {
    const handle = svg("rect", {
      x, y: 0, width, height: HEIGHT - MARGIN.bottom, fill: "transparent", class: "bar-handle", "data-bar": column, tabindex: column === this.member ? 0 : -1, role: "slider",
      "aria-label": `weight of source step ${column + 1}${label === String(column + 1) ? "" : `, ${label}`}`, "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": weight.toFixed(3),
    });
    handle.style.cursor = "ns-resize";
    keepFromScrolling(handle);
    handle.addEventListener("focus", () => {
      this.root.querySelector(`[data-bar="${this.member}"]`)?.setAttribute("tabindex", "-1");
      handle.setAttribute("tabindex", "0");
      this.member = column;
    });
    handle.addEventListener("keydown", (event) => {
      const next = memberAfter(event.key, column, this.root.querySelectorAll("[data-bar]").length);
      if (next !== null) {
        event.preventDefault();
        this.root.querySelector<SVGElement>(`[data-bar="${next}"]`)?.focus();
        return;
      }
      const change = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP }[event.key];
      if (change === undefined) return;
      event.preventDefault();
      this.events.setWeight(column, weight + change);
    });
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.isDragging = true;
      const set = (at: PointerEvent): void => {
        const box = this.root.getBoundingClientRect();
        this.events.setWeight(column, toWeight((at.clientY - box.top) * (HEIGHT / box.height)));
      };
      const stop = (): void => {
        this.isDragging = false;
        window.removeEventListener("pointermove", set);
        window.removeEventListener("pointerup", stop);
        window.removeEventListener("pointercancel", stop);
      };
      set(event);
      window.addEventListener("pointermove", set);
      window.addEventListener("pointerup", stop);
      window.addEventListener("pointercancel", stop);
    });
    return handle;
  }
}
