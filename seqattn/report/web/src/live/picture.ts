// The path and the heatmaps as one SVG or PNG file, which looks outside the page as in it.
import { theme } from "../plots";
import { svg } from "./svg";

const MARGIN = 16;
const GAP = 24;
const MIN_WIDTH = 420;
const LINE = 20;
const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const PIXELS = 2;
/** Width of a character in a text of size 13. Fonts differ, so this is that of a wide one. */
const CHARACTER = 7.7;
/** Attributes that mean something in the page only. */
const PAGE_ATTRIBUTES = ["tabindex", "role", "class", "style", "data-point", "data-step", "data-column", "id"];

/** A picture of the page and the text above it. */
interface Part {
  picture: SVGSVGElement;
  caption: string;
}

/** Return the size of a picture in pixels. */
const sizeOf = ({ viewBox: { baseVal: { width, height } } }: SVGSVGElement): { width: number; height: number } => ({ width, height });

/** Return a copy of a picture without what serves the page. Its colours are values already. */
function copy(picture: SVGSVGElement, x: number, y: number): SVGSVGElement {
  const clone = picture.cloneNode(true) as SVGSVGElement;
  for (const element of [clone, ...clone.querySelectorAll("*")]) {
    const isImage = element instanceof SVGImageElement; // its style keeps the cells sharp
    for (const { name } of [...element.attributes]) {
      if (name.startsWith("aria-") || (PAGE_ATTRIBUTES.includes(name) && !(isImage && name === "style"))) element.removeAttribute(name);
    }
  }
  clone.querySelectorAll("[data-only=page]").forEach((element) => { element.remove(); });
  clone.setAttribute("x", String(x));
  clone.setAttribute("y", String(y));
  return clone;
}

/** Break a text into lines of about `most` characters. */
export function wrap(text: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last === undefined || last.length + word.length + 1 > most) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** A name and the colour of its forecast. */
export interface Named {
  name: string;
  colour: string;
}

/** Return a row of names with diamonds in their colours. */
function legend(names: readonly Named[], fill: string, y: number): SVGElement[] {
  let x = MARGIN;
  return names.flatMap(({ name, colour }) => {
    const parts = [svg("path", { d: `M${x + 6} ${y - 11}l6 6l-6 6l-6 -6Z`, fill: colour }), svg("text", { x: x + 18, y, "font-size": 13, fill }, name)];
    x += 36 + name.length * CHARACTER;
    return parts;
  });
}

/** Return the path and the heatmaps side by side as one picture.
 *
 * @param title - the first line.
 * @param text - what the picture shows.
 * @param names - the models, if there are several.
 * @param path - the picture on the left; null for none.
 * @param maps - the heatmaps, one below the other; none for a model without attention.
 */
export function compose(title: string, text: string, names: readonly Named[], path: SVGSVGElement | null, maps: readonly Part[]): SVGSVGElement {
  const { ground, ink, soft } = theme();
  const left = path ? sizeOf(path) : { width: 0, height: 0 };
  const start = MARGIN + (path ? left.width + GAP : 0);
  const right = Math.max(0, ...maps.map(({ picture }) => sizeOf(picture).width));
  const width = Math.max(MIN_WIDTH, start + right + MARGIN - (right ? 0 : GAP));
  const words = (content: string, x: number, y: number, size: number, fill: string, weight = 400): SVGElement => svg("text", { x, y, "font-size": size, "font-weight": weight, fill }, content);
  const root = svg("svg", { "font-family": FONT });
  const lines = wrap(text, Math.floor((width - 2 * MARGIN) / CHARACTER));
  const top = MARGIN + 24 + (lines.length + (names.length ? 1 : 0)) * LINE + 8;
  let bottom = top;
  const column: SVGElement[] = [];
  for (const { picture, caption } of maps) {
    if (caption) {
      column.push(words(caption, start, bottom + 14, 13, soft));
      bottom += LINE;
    }
    column.push(copy(picture, start, bottom));
    bottom += sizeOf(picture).height;
  }
  const height = Math.max(top + left.height, bottom) + MARGIN;
  for (const [name, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", String(width)], ["height", String(height)]]) root.setAttribute(name, value);
  root.append(
    svg("title", {}, title), svg("rect", { x: 0, y: 0, width, height, fill: ground }),
    words(title, MARGIN, MARGIN + 16, 18, ink, 600),
    ...lines.map((line, k) => words(line, MARGIN, MARGIN + 24 + (k + 0.8) * LINE, 13, soft)),
    ...legend(names, ink, MARGIN + 24 + (lines.length + 0.8) * LINE),
    ...(path ? [copy(path, MARGIN, top)] : []), ...column,
  );
  return root;
}

/** Return a picture as the text of an SVG file. XML has no control characters, so they are left out. */
export function toSvgText(picture: SVGSVGElement): string {
  const text = new XMLSerializer().serializeToString(picture).replace(/[^\P{Cc}\n\t]/gu, "");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`;
}

/** Return a picture as PNG, with two pixels per unit of length.
 *
 * @throws Error - if the browser cannot draw it.
 */
export async function toPng(picture: SVGSVGElement): Promise<Blob> {
  const { width, height } = sizeOf(picture);
  const address = URL.createObjectURL(new Blob([toSvgText(picture)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.ceil(width * PIXELS), Math.ceil(height * PIXELS)];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise<Blob>((resolve, reject) => {
      canvas.toBlob((blob) => { if (blob) resolve(blob); else reject(new Error("The browser could not draw the picture.")); }, "image/png");
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
