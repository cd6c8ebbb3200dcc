// Access to the elements of the page.

/** Return the element with an id of page.html. */
export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`The page has no element #${id}.`);
  return element;
}

export const selectById = (id: string): HTMLSelectElement => byId(id) as HTMLSelectElement;
export const inputById = (id: string): HTMLInputElement => byId(id) as HTMLInputElement;
export const plotById = (id: string): PlotElement => byId(id) as PlotElement;

/** Return the selected index of a select element that `fill` filled, or the value of a slider. */
export const numberOf = (id: string): number => Number((byId(id) as HTMLSelectElement | HTMLInputElement).value);

/** Replace the options of a select element. The value of an option is its index. */
export function fill(select: HTMLSelectElement, words: readonly string[], chosen = 0): void {
  select.replaceChildren(...words.map((word, k) => new Option(word, String(k), false, k === chosen)));
  select.disabled = words.length < 2;
}

/** Show a note below a plot of losses about the values that the scale omits. */
export function showNote(note: string): void {
  const element = byId("scale-note");
  element.textContent = note;
  element.hidden = note === "";
}

/** Return an element with text. All text from files enters the page through this function, never as markup. */
export function textElement<K extends keyof HTMLElementTagNameMap>(tag: K, text: string): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
