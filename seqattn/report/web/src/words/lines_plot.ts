// Two columns of symbols, joined by lines whose width is the weight (as in BertViz, Vig 2019).
import { shorten, withMinus } from "../format";
import type { MatrixView } from "../live/matrix";
import { rgb, svg, textWidth } from "../live/svg";
import { theme } from "../plots";

const ROW = 22;
const FONT = 15;
const TOP = 26;
const LONGEST = 18;
/** Thinner lines are hardly visible and are left out. */
const MIN_SHARE = 0.02;
const PAD = 8;

export interface LinesEvents {
  chooseStep(step: number): void;
  chooseCell(step: number, column: number): void;
}

export class LinesPlot {
  private readonly root = svg("svg", { role: "img" });

  constructor(private readonly place: HTMLElement, private readonly events: LinesEvents) {
    place.replaceChildren(this.root);
  }

  draw(view: MatrixView): void {
    const { rowLabels, columnLabels, chosen } = view;
    const width = Math.min(560, Math.max(240, this.place.clientWidth));
    const count = Math.max(rowLabels.length, columnLabels.length);
    const height = TOP + count * ROW + 8;
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.setAttribute("width", String(width));
    this.root.setAttribute("height", String(height));
    this.root.setAttribute("aria-label", `Lines from the symbols of the output to those of the source, as wide as their weights; the chosen one is ${rowLabels[chosen]}`);
    const side = (labels: readonly string[]): number => Math.max(60, ...labels.map((label) => textWidth(shorten(label, LONGEST), FONT))) + 2 * PAD;
    const [left, right] = [side(columnLabels), width - side(rowLabels)];
    const y = (k: number): number => TOP + (k + 0.5) * ROW;
    const { soft } = theme();
    const title = (x: number, text: string, anchor: string): SVGElement => svg("text", { x, y: 15, "font-size": 13, fill: soft, "text-anchor": anchor }, text);
    this.root.replaceChildren(
      title(left - PAD, view.across, "end"), title(right + PAD, view.down, "start"),
      ...this.lines(view, left, right, y),
      ...columnLabels.map((label, s) => this.symbol(label, { x: left - PAD, y: y(s), anchor: "end", share: (view.rows[chosen] as readonly number[] | undefined)?.[s] ?? 0 }, view, () => { this.events.chooseCell(chosen, s); })),
      ...rowLabels.map((label, t) => this.symbol(label, { x: right + PAD, y: y(t), anchor: "start", share: t === chosen ? view.scale.high : 0 }, view, () => { this.events.chooseStep(t); }, view.isForced(t))),
    );
  }

  private lines({ rows, chosen, scale, links }: MatrixView, left: number, right: number, y: (k: number) => number): SVGElement[] {
    const { accent, warn, soft } = theme();
    const line = (t: number, s: number, weight: number): SVGElement | null => {
      const share = Math.min(1, Math.abs(weight) / scale.high);
      if (share < MIN_SHARE) return null;
      const isChosen = t === chosen;
      return svg("line", { x1: left, y1: y(s), x2: right, y2: y(t), stroke: isChosen ? (weight < 0 ? warn : accent) : soft, "stroke-width": 0.5 + 5.5 * share, "stroke-opacity": isChosen ? 0.35 + 0.65 * share : 0.28 * share, "stroke-linecap": "round" });
    };
    const order = [...rows.keys()].sort((a, b) => Number(a === chosen) - Number(b === chosen));
    const drawn = order.flatMap((t) => rows[t].map((weight, s) => line(t, s, weight)).filter((each) => each !== null));
    const known = links.filter(({ row, column }) => row < rows.length && column < rows[0].length).map(({ row, column, isPossible }) => (
      svg("line", { x1: left, y1: y(column), x2: right, y2: y(row), stroke: warn, "stroke-width": 1.5, "stroke-dasharray": isPossible ? "2 5" : "7 4", "stroke-opacity": row === chosen ? 1 : 0.25 })
    ));
    return [...drawn, ...known];
  }

  private symbol(label: string, { x, y, anchor, share }: { x: number; y: number; anchor: string; share: number }, { scale }: MatrixView, act: () => void, isForced = false): SVGElement {
    const { ink, warn, ground } = theme();
    const shown = shorten(label, LONGEST);
    const width = textWidth(shown, FONT) + 8;
    const isStrong = Math.abs(share) >= MIN_SHARE * scale.high;
    const back = svg("rect", { x: anchor === "end" ? x - width + 4 : x - 4, y: y - ROW / 2 + 1, width, height: ROW - 2, rx: 4, fill: isStrong ? rgb(scale.colour(share)) : ground, "fill-opacity": isStrong ? 0.4 : 0, stroke: isForced ? warn : "none" });
    const group = svg("g", { class: "line-symbol" }, back, svg("text", { x, y: y + 5, "font-size": FONT, "text-anchor": anchor, fill: ink }, shown), svg("title", {}, `${label}${share ? ` ${withMinus(share.toFixed(3))}` : ""}`));
    group.style.cursor = "pointer";
    group.addEventListener("click", act);
    return group;
  }
}
