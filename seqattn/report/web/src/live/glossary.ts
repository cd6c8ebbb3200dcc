// The words of the page, and their definitions: a list at its end, and buttons in texts that show one.
import { byId, textElement } from "../dom";

export interface Term {
  name: string;
  definition: string;
}

/** Terms in brackets in a definition are terms, too. */
export const TERMS: readonly Term[] = [
  { name: "attention", definition: "A way for the [decoder] to look back at every source point for each forecast point. It weighs the source points and reads a mixture of them." },
  { name: "attention weight", definition: "How much one forecast point reads from one source point. The weights of a forecast point are usually between 0 and 1 and add up to 1; if a head is knocked out, all of them are 0." },
  { name: "baseline", definition: "A simple forecast that needs no neural network, such as repeating the last value. A model is only useful if its error is lower." },
  { name: "context", definition: "What attention hands to the [decoder]: the sum of the [values|value] of all source points, each multiplied by its weight." },
  { name: "decoder", definition: "The part of the model that writes the forecast, one point after the other." },
  { name: "encoder", definition: "The part of the model that reads the source and turns each of its points into a list of numbers, the encoder state." },
  { name: "encoder state", definition: "The numbers that the [encoder] writes for a source point. It carries what it has read along, so a state also knows the points around it." },
  { name: "entropy", definition: "A measure of how widely the weights of a forecast point are spread. It is 0 if all weight is on one source point, and largest if all weights are equal." },
  { name: "epoch", definition: "One pass of the training through all training sequences. Epoch 0 is the model before its training, with random parameters." },
  { name: "forecast point", definition: "A point that the model computes. Its number continues the count of the source: after a source of 2 points, forecast point 3 is the first one, which commands call step 1." },
  { name: "free running", definition: "Forecasting as in real use: each forecast point starts from the model's own previous one, so errors can add up. The opposite is [teacher forcing]." },
  { name: "head", definition: "One of several attentions that work side by side in a layer, each with its own [queries|query], [keys|key] and [weights|attention weight]." },
  { name: "key", definition: "The numbers of a source point that a [query] is compared with. The comparison gives the [score]." },
  { name: "mean squared error", definition: "The mean of the squared differences between forecast and truth. 0 is a perfect forecast; large mistakes count more than small ones." },
  { name: "noise floor", definition: "The [mean squared error] of a forecast that knows the data without noise. No model is reliably better, and a model that sees only noisy sources may not be able to reach it." },
  { name: "own weights", definition: "The [attention weights|attention weight] that the model computes itself. The opposite are forced weights, which a reader gives to it." },
  { name: "parameter-free", definition: "Describes a [baseline] that is a fixed rule, so that nothing is trained." },
  { name: "query", definition: "The numbers with which the [decoder] asks what it needs for a forecast point. They are compared with the [key] of each source point." },
  { name: "score", definition: "A number that says how well a [query] fits a [key]. Scores become weights by a normalizer such as [softmax]." },
  { name: "softmax", definition: "The function that turns scores into weights: all are positive, they add up to 1, and a higher [score] gives a larger weight." },
  { name: "source point", definition: "A point that the model is given. The source points are counted from 1." },
  { name: "teacher forcing", definition: "Giving the [decoder] the true previous point instead of its own forecast. It makes training easier, but it is impossible in real use." },
  { name: "temperature", definition: "A number by which the [scores|score] are divided before the [softmax]. The model was trained with 1; below it, the weights become more extreme, and above it more equal." },
  { name: "value", definition: "The numbers of a source point that attention passes on. The weights decide how much of each value is in the [context]." },
];

/** On a page of symbols, terms about numbers are left out. */
const OF_NUMBERS = ["forecast point", "mean squared error", "noise floor", "parameter-free", "source point"];
const OF_SYMBOLS: readonly Term[] = [
  { name: "alignment", definition: "Which source symbols an output symbol stands for. [Attention weights|attention weight] resemble it, but they say what the [decoder] read: states of the [encoder] that also carry the symbols around them." },
  { name: "beam search", definition: "A search that keeps several beginnings of the output at each step, and so finds more probable outputs than the greedy search, which keeps only the most probable symbol." },
  { name: "greedy search", definition: "A search that writes the most probable symbol at each step. A [beam search] also follows less probable ones." },
  { name: "output symbol", definition: "A symbol that the model writes. The output symbols are counted from 1, and the last one is the end." },
  { name: "perplexity", definition: "Among how many equally likely symbols the model would be as uncertain as it is. 1 is certainty." },
  { name: "vocabulary", definition: "The symbols that the model knows, from its training data. Every other symbol is read as one and the same unknown symbol." },
  { name: "source symbol", definition: "A symbol that the model is given: a character, a word or a part of a word." },
];

/** Return the terms of a page of points or of symbols, in alphabetical order. */
export function termsOf(hasSymbols: boolean): readonly Term[] {
  if (!hasSymbols) return TERMS;
  const renamed = TERMS.filter(({ name }) => !OF_NUMBERS.includes(name)).map(({ name, definition }) => ({
    name, definition: definition.replace(/a forecast point/g, "an output symbol").replace(/forecast point/g, "output symbol").replace(/source point/g, "source symbol").replace("knows the points around", "knows the symbols around")
      .replace("Forecasting as", "Writing as").replace("A simple forecast that", "A simple output that").replace("repeating the last value", "a copy of the source").replace("its error is", "its errors are")
      .replace("writes the forecast, one point", "writes the output, one symbol").replace("each of its points", "each of its symbols").replace("own forecast.", "own symbol.").replace("true previous point", "true previous symbol"),
  }));
  return [...renamed, ...OF_SYMBOLS].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The terms of this page. */
let shownTerms = TERMS;

const idOf = (name: string): string => `term-${name.replaceAll(" ", "-")}`;

/** Show the list at the end of the page, and make the marked words of the page buttons. */
export function showGlossary(hasSymbols: boolean): void {
  shownTerms = termsOf(hasSymbols);
  const list = document.createElement("dl");
  list.append(...shownTerms.flatMap(({ name, definition }) => {
    const term = document.createElement("dt");
    term.id = idOf(name);
    term.append(textElement("dfn", name));
    const meaning = document.createElement("dd");
    meaning.append(...withTerms(definition));
    return [term, meaning];
  }));
  byId("glossary").append(list);
  for (const marked of document.querySelectorAll<HTMLElement>("[data-term]")) {
    const term = shownTerms.find(({ name }) => name === marked.dataset.term);
    if (term) marked.replaceWith(termElement(marked.textContent, term));
  }
}

/** Return the card that shows one definition; it is made when it is first needed. */
function card(): HTMLElement {
  const found = document.getElementById("term-card");
  if (found) return found;
  const made = document.createElement("div");
  made.id = "term-card";
  made.popover = "auto";
  made.setAttribute("role", "note");
  document.body.append(made);
  return made;
}

const CARD_GAP = 10;

/** Put the card where it covers neither the word nor the tour: beside the tour or above it, else below or above the word. */
function placeCard(place: HTMLElement, word: HTMLElement): void {
  const tour = word.closest("#live-tour-panel")?.getBoundingClientRect();
  const at = word.getBoundingClientRect();
  const { width, height } = place.getBoundingClientRect();
  const fit = (position: number, size: number, room: number): number => Math.max(CARD_GAP, Math.min(position, room - size - CARD_GAP));
  const isBeside = tour !== undefined && tour.right + CARD_GAP + width < innerWidth;
  const left = isBeside ? tour.right + CARD_GAP : at.left;
  const isAbove = tour ? true : at.bottom + CARD_GAP + height > innerHeight;
  const top = isBeside ? at.top : isAbove ? (tour ?? at).top - height - CARD_GAP : at.bottom + CARD_GAP;
  place.style.left = `${fit(left, width, innerWidth)}px`;
  place.style.top = `${fit(top, height, innerHeight)}px`;
}

/** Show the definition of a term; a term in the definition replaces it. */
function showCard({ name, definition }: Term, word: HTMLElement): void {
  const place = card();
  place.setAttribute("aria-label", name);
  const close = textElement("button", "Close");
  close.type = "button";
  close.addEventListener("click", () => {
    place.hidePopover();
    word.focus();
  });
  const text = document.createElement("p");
  text.append(...withTerms(definition, (term) => { showCard(term, word); }));
  place.replaceChildren(textElement("strong", name), text, close);
  place.showPopover();
  placeCard(place, word);
  close.focus();
}

/** Return a button that shows the definition of a term; a link to it in a browser without popovers. */
function termElement(words: string, term: Term, show?: (term: Term) => void): HTMLElement {
  if (!("popover" in HTMLElement.prototype)) {
    const link = textElement("a", words);
    link.href = `#${idOf(term.name)}`;
    return link;
  }
  const button = textElement("button", words);
  button.type = "button";
  button.className = "term";
  button.setAttribute("aria-label", `${words}: what is it?`);
  button.addEventListener("click", () => { (show ?? ((shown): void => { showCard(shown, button); }))(term); });
  return button;
}

/** Return whether a card with a definition is open. */
export const isCardOpen = (): boolean => document.getElementById("term-card")?.matches(":popover-open") ?? false;

/** A text in parts; every second part is a term, or words and the term in the form "words|term". */
export function splitTerms(text: string): string[] {
  return text.split(/\[([^\]]+)\]/);
}

/** Return a sentence of Python with the terms that it may contain in brackets. A run whose name contains a bracket leaves it without. */
export const markTerms = (sentence: string): string => (sentence.includes("[") ? sentence : sentence.replace(/mean squared error|noise floor/g, "[$&]"));

/** Return the parts of a text; terms in brackets become buttons: "[weights|attention weight]". */
export function withTerms(text: string, show?: (term: Term) => void): (HTMLElement | string)[] {
  return splitTerms(text).map((part, k) => {
    const [words, name = words] = part.split("|");
    const term = k % 2 ? shownTerms.find((each) => each.name === name) : undefined;
    return term ? termElement(words, term, show) : part;
  });
}

/** Return a paragraph of a text with terms. */
export function paragraph(text: string): HTMLParagraphElement {
  const made = document.createElement("p");
  made.append(...withTerms(text));
  return made;
}
