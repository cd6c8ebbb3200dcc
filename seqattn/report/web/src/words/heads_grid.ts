// The weights of all heads as small pictures, of which one is chosen.
import { textElement } from "../dom";
import type { WeightScale } from "../live/matrix";

/** A head and its weights. */
export interface HeadPicture {
  layer: number;
  head: number;
  name: string;
  rows: readonly (readonly number[])[];
  scale: WeightScale;
}

/** Show one small picture per head.
 *
 * @param choose - called with the head that the reader chooses.
 */
export function showHeads(place: HTMLElement, heads: readonly HeadPicture[], isChosen: (picture: HeadPicture) => boolean, choose: (picture: HeadPicture) => void): void {
  place.replaceChildren(...heads.map((picture) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "head-picture";
    button.setAttribute("aria-pressed", String(isChosen(picture)));
    button.append(canvasOf(picture), textElement("span", picture.name));
    button.addEventListener("click", () => { choose(picture); });
    return button;
  }));
}

function canvasOf({ rows, scale }: HeadPicture): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [rows[0].length, rows.length];
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(canvas.width, canvas.height);
  for (const [k, weight] of rows.flat().entries()) pixels.data.set([...scale.colour(weight), 255], 4 * k);
  context.putImageData(pixels, 0, 0);
  return canvas;
}
