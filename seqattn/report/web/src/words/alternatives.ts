// The most probable symbols of a step. The reader may choose one, with which the output continues.
import { textElement } from "../dom";
import { largest } from "./decode";
import { probabilities } from "./model";
import { visible } from "./vocabulary";

export const MAX_ALTERNATIVES = 5;

export interface Alternative {
  symbol: number;
  probability: number;
}

/** Return the most probable symbols after logits (V,). */
export function alternativesOf(logits: readonly number[], count = MAX_ALTERNATIVES): Alternative[] {
  const found = probabilities(logits);
  return largest(found, count).map((symbol) => ({ symbol, probability: found[symbol] }));
}

/** Show alternatives as buttons with bars.
 *
 * @param written - the symbol that the step writes.
 */
export function showAlternatives(place: HTMLElement, alternatives: readonly Alternative[], nameOf: (symbol: number) => string, written: number, choose: (symbol: number) => void): void {
  place.replaceChildren(...alternatives.map(({ symbol, probability }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "alternative";
    button.dataset.symbol = String(symbol);
    button.setAttribute("aria-pressed", String(symbol === written));
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${(8 * probability).toFixed(2)}rem`;
    const track = document.createElement("span");
    track.className = "bar-place";
    track.append(bar);
    button.append(textElement("strong", visible(nameOf(symbol))), track, textElement("span", probability < 0.0005 ? "<\u00a00.001" : probability.toFixed(3)));
    button.addEventListener("click", () => { choose(symbol); });
    return button;
  }));
}
