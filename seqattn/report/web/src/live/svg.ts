// Elements of SVG pictures, scales and colours.

const NAMESPACE = "http://www.w3.org/2000/svg";

export type Attributes = Record<string, string | number>;

/** Return an SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Element | string)[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  element.append(...children);
  return element;
}

/** Return the attributes of a text that stays legible on lines, which end at its edge. */
export const halo = (ground: string): Attributes => ({ stroke: ground, "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" });

/** A linear map from an interval of values to an interval of pixels, and back. */
export interface Scale {
  (value: number): number;
  invert(pixel: number): number;
  readonly domain: readonly [number, number];
}

export function linearScale(domain: readonly [number, number], range: readonly [number, number]): Scale {
  const [low, high] = domain;
  const [first, last] = range;
  const slope = (last - first) / (high - low || 1);
  const scale = (value: number): number => first + (value - low) * slope;
  return Object.assign(scale, { invert: (pixel: number) => low + (pixel - first) / slope, domain });
}

/** Return about `count` round values in an interval. */
export function roundTicks([low, high]: readonly [number, number], count: number): number[] {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((digit) => digit * power >= rough)!;
  const ticks: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) ticks.push(k * step);
  return ticks;
}

/** Write a tick value with the decimals that its step needs. */
export function tickText(value: number, ticks: readonly number[]): string {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(value) || 1;
  const decimals = Math.min(10, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toFixed(decimals).replace(/^-0(\.0*)?$/, "0$1").replace("-", "\u2212");
}

const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const DIVERGING = [[33, 102, 172], [146, 197, 222], [247, 247, 247], [244, 165, 130], [178, 24, 43]];

function interpolate(stops: readonly number[][], share: number): [number, number, number] {
  const position = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(position));
  return [0, 1, 2].map((c) => Math.round(stops[k][c] + (position - k) * (stops[k + 1][c] - stops[k][c]))) as [number, number, number];
}

/** Return the colour of a weight: from 0 to `largest`, or with `signed` from -largest to largest. */
export function weightColour(weight: number, largest: number, signed: boolean): [number, number, number] {
  return signed ? interpolate(DIVERGING, 0.5 + weight / largest / 2) : interpolate(VIRIDIS, weight / largest);
}

export const rgb = ([r, g, b]: readonly number[]): string => `rgb(${r},${g},${b})`;

/** Return the relative luminance of a colour (WCAG 2.2). */
function luminance(colour: readonly number[]): number {
  const [r, g, b] = colour.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Return black or white, whichever has the greater contrast with a colour. */
export const inkOn = (colour: readonly number[]): string => (luminance(colour) > Math.sqrt(1.05 * 0.05) - 0.05 ? "#000" : "#fff");

let measured: CanvasRenderingContext2D | null = null;

/** Return the width of a text in pixels. */
export function textWidth(text: string, size: number): number {
  measured ??= document.createElement("canvas").getContext("2d")!;
  measured.font = `${size}px system-ui, sans-serif`;
  return measured.measureText(text).width;
}

/** Keep a browser from scrolling the page when a finger moves from this element. */
export function keepFromScrolling(element: SVGElement): void {
  element.style.touchAction = "none"; // Chromium ignores it inside an SVG
  element.addEventListener("touchstart", (event) => { event.preventDefault(); }, { passive: false });
}

/** Return the member of a group to which a key moves the focus, among `count` members; null: the key moves none. The arrow keys change the value of a member. */
export function memberAfter(key: string, member: number, count: number): number | null {
  const found = { Home: 0, End: count - 1, PageUp: member - 1, PageDown: member + 1 }[key];
  return found === undefined ? null : Math.min(count - 1, Math.max(0, found));
}

export const MEMBER_KEYS = "Page Up, Page Down, Home and End choose another one";
