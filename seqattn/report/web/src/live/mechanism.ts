// The mechanism of one step as a picture: from the encoder states to what the step writes, with the page's numbers.
import { byId, inputById } from "../dom";
import { capitalize, shorten } from "../format";
import { onThemeChange, theme } from "../plots";
import type { ArithmeticPanel, ArithmeticSource } from "./arithmetic_panel";
import { AttentionStep } from "./arithmetic/step";
import { explainStep } from "./arithmetic";
import type { AnyExplorer } from "./explorer_base";
import { withTerms } from "./glossary";
import { drawPlane } from "./mechanism_plane";
import type { Flow, Part } from "./mechanism_texts";
import { describePart, describeRow, plain, STAGES, WORDS } from "./mechanism_texts";
import type { WeightScale } from "./matrix";
import { isForced } from "./scene";
import { weightScale } from "./matrix";
import { rgb, svg, textWidth, weightColour } from "./svg";

const MIN_WIDTH = 700;
const ROWS_HEIGHT = 330;
const TOP = 92;
const FONT = 13;
const GAP = 34;
/** Between parts with the name of an operation. */
const WIDE_GAP = 64;
const BAR_WIDTH = 74;
const RESULT_WIDTH = 150;
const LONGEST_LABEL = 12;
const STRIP_HEIGHT = 14;
/** Positions of the slider per factor of ten of the temperature. */
const SLIDER_SCALE = 20;

/** Read the numbers of a step from its intermediate results. Query and keys are those of the arithmetic, which a model may compute inside its score. */
function readFlow(step: AttentionStep): Flow {
  const { answer: { trace }, kind } = step.input;
  const has = (name: string): boolean => name in trace;
  const stages = explainStep(step.input);
  const stage = (name: string): number[][] | null => stages.find((each) => each.name === name)?.numbers ?? null;
  return {
    labels: kind.sourceNames, states: has("states") ? step.states : null, keys: stage("Keys") ?? (has("keys") ? step.keys : null), values: has("values") ? step.values : null,
    query: stage("Query")?.[0] ?? step.headSlice(step.query), scores: has("scores") ? step.scores : null, weights: step.weights, context: has("context") ? step.context : null, results: kind.results(step),
  };
}

/** Draw rows of numbers as an image, from blue through white, which is 0, to red.
 *
 * @param shares - how strong each row is.
 */
function strip(rows: readonly (readonly number[])[], box: { x: number; y: number; width: number; height: number }, shares?: readonly number[]): SVGElement {
  const largest = Math.max(1e-9, ...rows.map((row) => Math.max(...row.map(Math.abs))));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [rows[0].length, rows.length];
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(canvas.width, canvas.height);
  for (const [r, row] of rows.entries()) {
    const share = Math.min(1, Math.abs(shares ? shares[r] : 1));
    for (const [c, x] of row.entries()) pixels.data.set([...weightColour(x * share, largest, true), 255], 4 * (r * canvas.width + c));
  }
  context.putImageData(pixels, 0, 0);
  return svg("g", {}, svg("image", { ...box, preserveAspectRatio: "none", href: canvas.toDataURL(), style: "image-rendering: pixelated" }), svg("rect", { ...box, fill: "none", stroke: theme().line }));
}

/** Where the parts of the picture lie. */
class Layout {
  readonly rowHeight: number;
  readonly bottom: number;
  readonly width: number;
  readonly x: Record<"source" | "states" | "keys" | "scores" | "weights" | "values" | "result", number>;
  readonly stripWidth: number;
  readonly labelWidth: number;

  constructor(width: number, { labels, states, keys, scores }: Flow) {
    this.width = Math.max(MIN_WIDTH, width);
    this.rowHeight = Math.max(4, Math.min(20, ROWS_HEIGHT / labels.length));
    this.bottom = TOP + labels.length * this.rowHeight;
    this.labelWidth = Math.max(40, ...labels.map((label) => textWidth(shorten(label, LONGEST_LABEL), FONT)));
    const strips = 1 + (states ? 1 : 0) + (keys ? 1 : 0);
    const bars = 1 + (scores ? 1 : 0);
    const fixed = this.labelWidth + bars * BAR_WIDTH + RESULT_WIDTH + (strips + bars + 1) * GAP + (scores ? 2 : 0) * (WIDE_GAP - GAP);
    this.stripWidth = Math.max(36, (this.width - fixed) / strips);
    let x = 0;
    const next = (size: number, isThere = true, gap = GAP): number => {
      const start = x;
      if (isThere) x += size + gap;
      return start;
    };
    this.x = {
      source: next(this.labelWidth), states: next(this.stripWidth, states !== null), keys: next(this.stripWidth, keys !== null, scores ? WIDE_GAP : GAP),
      scores: next(BAR_WIDTH, scores !== null, WIDE_GAP), weights: next(BAR_WIDTH), values: next(this.stripWidth), result: next(RESULT_WIDTH),
    };
  }

  get height(): number {
    return this.bottom + 74;
  }

  /** The box of a part whose rows are the source steps. */
  rows(x: number, width: number): { x: number; y: number; width: number; height: number } {
    return { x, y: TOP, width, height: this.bottom - TOP };
  }
}

export class Mechanism {
  private readonly details = byId("live-mechanism") as HTMLDetailsElement;
  private readonly place = byId("live-mechanism-picture");
  private readonly line = byId("live-mechanism-line");
  private readonly root = svg("svg", { role: "group", "aria-label": "The mechanism of the chosen step" });
  private flow: Flow | null = null;
  private layout: Layout | null = null;
  private readonly parts = new Map<Part, SVGElement>();
  private readonly row = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", visibility: "hidden" });
  private isPending = false;

  constructor(private readonly explorer: AnyExplorer, private readonly panel: ArithmeticPanel, private readonly source: ArithmeticSource) {
    this.place.append(this.root);
    explorer.useTrace(() => this.isOpen);
    explorer.onAnswer(() => { this.follow(); });
    explorer.onPoint((column) => { this.mark(column); });
    panel.onChoose = (stage) => { this.markPart(stage); };
    this.details.addEventListener("toggle", () => { this.follow(); });
    this.root.addEventListener("pointermove", (event) => { explorer.pointAt(this.rowAt(event)); });
    this.root.addEventListener("pointerleave", () => { explorer.pointAt(null); });
    inputById("live-temperature").addEventListener("input", () => { this.heat(); });
    onThemeChange(() => { this.follow(); });
  }

  private get isOpen(): boolean {
    return this.details.open && this.explorer.first.layers > 0;
  }

  /** Show an answer; many in one frame are shown once. */
  private follow(): void {
    const { scene, first } = this.explorer;
    this.details.hidden = first.layers === 0 || scene?.state.kind === "encoder_self";
    if (!scene || !this.isOpen || this.isPending) return;
    if (!scene.hasTrace) {
      void this.explorer.update();
      return;
    }
    this.isPending = true;
    requestAnimationFrame(() => {
      this.isPending = false;
      this.draw();
    });
  }

  private draw(): void {
    const { scene } = this.explorer;
    if (!scene?.hasTrace || scene.state.kind === "encoder_self") return;
    const flow = readFlow(new AttentionStep(this.source.input((name) => this.panel.parameter(name))));
    const layout = new Layout(this.place.clientWidth - 16, flow);
    [this.flow, this.layout] = [flow, layout];
    this.root.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    this.root.setAttribute("width", String(layout.width));
    this.root.setAttribute("height", String(layout.height));
    this.parts.clear();
    const scale = weightScale([flow.weights], scene.shown[0].meaning, scene.state.isRelative);
    this.root.replaceChildren(...this.columns(flow, layout, scale), ...this.arrows(flow, layout), ...this.ends(flow, layout), this.row);
    byId("live-mechanism-name").textContent = `${capitalize(this.source.name())}${this.headName}`;
    this.line.textContent = "Point at a part or a row to see its numbers. A click on a part shows its arithmetic.";
    drawPlane(byId("live-plane"), flow, scale);
    this.showTemperature();
  }

  /** The layer and head, if there are several. */
  private get headName(): string {
    const { first: { layers, heads }, state } = this.explorer;
    return (layers > 1 ? `, layer ${state.layer + 1}` : "") + (heads > 1 ? `, head ${state.head + 1}` : "");
  }

  // --- the picture -------------------------------------------------------------------------------

  /** The parts whose rows are the source steps. */
  private columns(flow: Flow, layout: Layout, scale: WeightScale): SVGElement[] {
    const { soft, ink, accent } = theme();
    const { x, rowHeight, stripWidth, labelWidth } = layout;
    const y = (s: number): number => TOP + s * rowHeight;
    const every = Math.ceil(11 / rowHeight);
    const labels = flow.labels.flatMap((label, s) => (s % every ? [] : [svg("text", { x: x.source + labelWidth, y: y(s) + rowHeight / 2 + 4, "text-anchor": "end", "font-size": Math.min(FONT, Math.max(9, rowHeight * every - 1)), fill: ink }, shorten(label, LONGEST_LABEL))]));
    const bars = (start: number, numbers: readonly number[], low: number, high: number, colour: (value: number) => string): SVGElement[] => {
      const toX = (value: number): number => start + ((Math.min(high, Math.max(low, value)) - low) / (high - low || 1)) * BAR_WIDTH;
      const zero = toX(Math.min(high, Math.max(low, 0)));
      return [svg("line", { x1: zero, x2: zero, y1: TOP, y2: layout.bottom, stroke: soft, "stroke-width": 0.5 }), ...numbers.map((value, s) => (
        svg("rect", { x: Math.min(zero, toX(value)), y: y(s) + rowHeight * 0.12, width: Math.max(0.8, Math.abs(toX(value) - zero)), height: rowHeight * 0.76, fill: colour(value) })
      ))];
    };
    const { states, keys, scores, weights, values } = flow;
    const found = [this.part("source", "source", layout.rows(x.source, labelWidth), labels)];
    if (states) found.push(this.part("states", stripWidth < 90 ? "states" : "encoder states", layout.rows(x.states, stripWidth), [strip(states, layout.rows(x.states, stripWidth))]));
    if (keys) found.push(this.part("keys", "keys", layout.rows(x.keys, stripWidth), [strip(keys, layout.rows(x.keys, stripWidth))]));
    if (scores) {
      const finite = scores.filter(Number.isFinite);
      const [low, high] = [Math.min(0, ...finite), Math.max(0, ...finite)];
      found.push(this.part("scores", "scores", layout.rows(x.scores, BAR_WIDTH), bars(x.scores, scores, low, high, () => accent)));
    }
    const isStrength = scale.low < 0;
    found.push(this.part("weights", isStrength ? "read strengths" : "weights", layout.rows(x.weights, BAR_WIDTH), [
      svg("rect", { ...layout.rows(x.weights, BAR_WIDTH), fill: "none", stroke: theme().line }), ...bars(x.weights, weights, scale.low, scale.high, (value) => rgb(scale.colour(value))),
    ]));
    const shown = values ?? states;
    if (shown) found.push(this.part("values", values ? "values \u00d7 weights" : "states \u00d7 strengths", layout.rows(x.values, stripWidth), [strip(shown, layout.rows(x.values, stripWidth), weights.map((weight) => weight / scale.high))]));
    return found;
  }

  /** The parts that are one vector or a few numbers: query, context and what the step writes. */
  private ends(flow: Flow, layout: Layout): SVGElement[] {
    const { ink, soft, accent } = theme();
    const { x, stripWidth, bottom } = layout;
    const found: SVGElement[] = [];
    if (flow.query) {
      const box = { x: flow.keys ? x.keys : x.weights, y: 24, width: flow.keys ? stripWidth : BAR_WIDTH, height: STRIP_HEIGHT };
      found.push(this.part("query", "query, from the decoder", box, [strip([flow.query], box)]));
    }
    if (flow.context) {
      const box = { x: x.values, y: bottom + 36, width: stripWidth, height: STRIP_HEIGHT };
      found.push(this.part("context", "", box, [strip([flow.context], box), svg("text", { x: box.x, y: box.y + STRIP_HEIGHT + 16, "font-size": FONT, fill: soft }, "context")]));
    }
    const lines = flow.results.slice(0, 6).map(({ name, text, share }, k) => {
      const y = TOP + 10 + 30 * k;
      return svg("g", {}, svg("text", { x: x.result, y: y + 4, "font-size": 15, fill: ink, "font-weight": k === 0 ? 600 : 400 }, shorten(name, 10)), svg("text", { x: x.result + RESULT_WIDTH - 30, y: y + 4, "font-size": 15, fill: ink, "text-anchor": "end" }, text), ...(share === null ? [] : [svg("rect", { x: x.result, y: y + 9, width: Math.max(1, share * (RESULT_WIDTH - 30)), height: 5, fill: accent })]));
    });
    found.push(this.part("result", "output", { x: x.result, y: TOP - 8, width: RESULT_WIDTH, height: Math.max(30, 30 * lines.length + 4) }, lines));
    return found;
  }

  /** A part with its name above, which a click or Enter explains. */
  private part(part: Part, name: string, box: { x: number; y: number; width: number; height: number }, drawn: SVGElement[]): SVGElement {
    const { soft } = theme();
    const frame = svg("rect", { x: box.x - 4, y: box.y - 4, width: box.width + 8, height: box.height + 8, fill: "transparent", "stroke-width": 2, rx: 4, class: "mechanism-frame" });
    const group = svg("g", { class: "mechanism-part", role: "button", tabindex: 0, "aria-label": plain(WORDS[part]), "data-part": part }, ...drawn, svg("text", { x: box.x, y: box.y - 9, "font-size": FONT, fill: soft }, name), frame);
    group.style.cursor = "pointer";
    const describe = (): void => { if (this.flow) this.line.replaceChildren(...withTerms(describePart(part, this.flow))); };
    group.addEventListener("pointerenter", describe);
    group.addEventListener("focus", describe);
    const open = (): void => { void this.panel.reveal(STAGES[part]); };
    group.addEventListener("click", open);
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open();
    });
    this.parts.set(part, frame);
    return group;
  }

  /** Arrows with the operation that leads from one part to the next. */
  private arrows(flow: Flow, layout: Layout): SVGElement[] {
    const { soft } = theme();
    const { x, stripWidth, labelWidth, bottom } = layout;
    const middle = (TOP + bottom) / 2;
    const arrow = (path: string, dashes = "none"): SVGElement => svg("path", { d: path, fill: "none", "stroke-dasharray": dashes, stroke: soft, "stroke-width": 1.4, "marker-end": "url(#mechanism-arrow)" });
    const across = (end: number, start: number, isBroken = false): SVGElement => arrow(`M${end + 7} ${middle}L${start - 8} ${middle}`, isBroken ? "3 4" : "none");
    const word = (text: string, at: number, y: number, anchor = "middle"): SVGElement => svg("text", { x: at, y, "font-size": 12, fill: soft, "text-anchor": anchor, "font-style": "italic" }, text);
    const head = svg("defs", {}, svg("marker", { id: "mechanism-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8Z", fill: soft })));
    const found: SVGElement[] = [head];
    const below = bottom + 18;
    found.push(svg("text", { x: x.source, y: bottom + 60, "font-size": 12, fill: soft }, "Numbers: red is positive, blue is negative."));
    if (flow.states) found.push(across(x.source + labelWidth, x.states), word("encoder", (x.source + labelWidth + x.states) / 2, below));
    if (flow.keys && flow.states) found.push(across(x.states + stripWidth, x.keys));
    if (flow.scores) {
      found.push(across(x.keys + stripWidth, x.scores), across(x.scores + BAR_WIDTH, x.weights, this.isForced));
      found.push(word("compare", (x.keys + stripWidth + x.scores) / 2, middle - 8), word(this.isForced ? "yours" : this.normalizer, (x.scores + BAR_WIDTH + x.weights) / 2, middle - 8));
      if (flow.query) found.push(arrow(`M${x.keys + stripWidth + 6} 31L${x.scores + BAR_WIDTH / 2} 31L${x.scores + BAR_WIDTH / 2} ${TOP - 26}`));
    }
    found.push(across(x.weights + BAR_WIDTH, x.values));
    if (flow.context) {
      found.push(arrow(`M${x.values + stripWidth / 2} ${bottom + 5}L${x.values + stripWidth / 2} ${bottom + 30}`), word("sum", x.values + stripWidth / 2 + 8, below + 2, "start"));
      const low = bottom + 36 + STRIP_HEIGHT / 2;
      const resultBottom = Math.min(bottom, TOP + 30 * Math.min(6, flow.results.length));
      found.push(arrow(`M${x.values + stripWidth + 6} ${low}L${x.result + 24} ${low}L${x.result + 24} ${resultBottom + 6}`), word("with the decoder\u2019s state", layout.width - 4, low + 18, "end"));
    }
    return found;
  }

  /** Whether the reader gave the weights of the chosen step, so that they do not come from its scores. */
  private get isForced(): boolean {
    const { scene } = this.explorer;
    return scene !== null && isForced(scene, scene.state.step);
  }

  /** What turns scores into weights. */
  private get normalizer(): string {
    const { location, normalizer = "softmax" } = this.explorer.first.config.attention ?? {};
    return location?.kind === "monotonic" ? location.kind : normalizer;
  }

  // --- marks -------------------------------------------------------------------------------------

  private rowAt(event: PointerEvent): number | null {
    const { layout, flow } = this;
    if (!layout || !flow) return null;
    const box = this.root.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((pixel) => pixel * (layout.height / box.height));
    if (x > layout.x.values + layout.stripWidth) return null;
    const row = Math.floor((y - TOP) / layout.rowHeight);
    return row >= 0 && row < flow.labels.length ? row : null;
  }

  /** Mark the row of a source step. */
  private mark(row: number | null): void {
    const { layout, flow } = this;
    if (!layout || !flow || row === null || row >= flow.labels.length) {
      this.row.setAttribute("visibility", "hidden");
      return;
    }
    const { x, rowHeight, stripWidth } = layout;
    const box = { x: x.source - 2, y: TOP + row * rowHeight, width: x.values + stripWidth - x.source + 4, height: rowHeight };
    for (const [name, value] of Object.entries(box)) this.row.setAttribute(name, value.toFixed(2));
    this.row.setAttribute("stroke", theme().accent);
    this.row.setAttribute("visibility", "visible");
    this.line.textContent = describeRow(row, flow, this.isForced);
  }

  /** Mark the part whose arithmetic the reader looks at. */
  private markPart(stage: string | null): void {
    const { accent } = theme();
    const chosen = stage === null ? undefined : (Object.keys(STAGES) as Part[]).find((part) => STAGES[part].some((name) => stage.startsWith(name)));
    for (const [part, frame] of this.parts) frame.setAttribute("stroke", part === chosen ? accent : "none");
  }

  // --- the temperature of the softmax ------------------------------------------------------------

  /** The slider exists where the weights are the softmax of the scores, and may be forced. */
  private showTemperature(): void {
    const { first: { config }, canForce, state } = this.explorer;
    const hasSlider = canForce && this.normalizer === "softmax" && !config.attention?.location && this.flow?.scores !== null;
    byId("live-temperature-place").hidden = !hasSlider;
    const row = state.force.get(state.step + 1, state.layer, state.head);
    const temperature = 10 ** (Number(inputById("live-temperature").value) / SLIDER_SCALE);
    const ofSlider = this.flow?.scores ? softmax(this.flow.scores, temperature) : [];
    const isHeated = row?.every((weight, k) => Math.abs(weight - ofSlider[k]) < 1e-6) ?? false;
    if (!isHeated) inputById("live-temperature").value = "0";
    const value = isHeated ? temperature.toPrecision(2) : row ? "none, since you gave the weights" : "1.0 (the model\u2019s own)";
    const text = `Temperature of the softmax in this step: ${value}`;
    byId("live-temperature-name").textContent = text;
    inputById("live-temperature").setAttribute("aria-valuetext", text);
  }

  /** Force the weights of the chosen step to the softmax of its scores at another temperature. */
  private heat(): void {
    const { explorer, flow } = this;
    const value = Number(inputById("live-temperature").value);
    if (!flow?.scores) return;
    if (value === 0) {
      explorer.freeRow();
      return;
    }
    const weights = softmax(flow.scores, 10 ** (value / SLIDER_SCALE));
    explorer.forceRow(() => weights);
  }
}

/** Return softmax(scores / temperature). */
export function softmax(scores: readonly number[], temperature: number): number[] {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp((score - largest) / temperature));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}
