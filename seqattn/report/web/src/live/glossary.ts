// The words of the page, and their definitions: a list at its end, and buttons in texts that show one.
import { byId, textElement } from "../dom";

export interface Term {
  name: string;
  definition: string;
}

export const TERMS: readonly Term[] = [
  { name: "attention", definition: "A way for the decoder to look back at every source step before each forecast step. It weighs the source steps and reads a mixture of them." },
  { name: "attention weight", definition: "How much one forecast step reads from one source step. The weights of a step are usually between 0 and 1 and add up to 1." },
  { name: "baseline", definition: "A simple forecast that needs no neural network, such as repeating the last value. A model is only useful if its error is lower." },
  { name: "context", definition: "What attention hands to the decoder: the sum of the values of all source steps, each multiplied by its weight." },
  { name: "decoder", definition: "The part of the model that writes the forecast, one step after the other." },
  { name: "encoder", definition: "The part of the model that reads the source and turns each of its steps into a list of numbers, the encoder state." },
  { name: "entropy", definition: "A measure of how widely the weights of a step are spread. It is 0 if all weight is on one source step, and largest if all weights are equal." },
  { name: "epoch", definition: "One pass of the training through all training sequences. Epoch 0 is the model before its training, with random parameters." },
  { name: "free running", definition: "Forecasting as in real use: each step starts from the model's own previous forecast, so errors can add up." },
  { name: "key", definition: "The numbers of a source step that a query is compared with. The comparison gives the score." },
  { name: "mean squared error", definition: "The mean of the squared differences between forecast and truth. 0 is a perfect forecast; large mistakes count more than small ones." },
  { name: "noise floor", definition: "The mean squared error that even a perfect model would have, because the data contain random noise. No model can be reliably better." },
  { name: "query", definition: "The numbers with which a decoder step asks what it needs. They are compared with the key of each source step." },
  { name: "score", definition: "A number that says how well a query fits a key. Scores become weights by a normalizer such as softmax." },
  { name: "softmax", definition: "The function that turns scores into weights: all are positive, they add up to 1, and a higher score gives a larger weight." },
  { name: "teacher forcing", definition: "Giving the decoder the true previous value at each step instead of its own forecast. It makes training easier, but it is impossible in real use." },
  { name: "value", definition: "The numbers of a source step that attention passes on. The weights decide how much of each value is in the context." },
];

const idOf = (name: string): string => `term-${name.replaceAll(" ", "-")}`;

/** Show the list at the end of the page. */
export function showGlossary(): void {
  const list = document.createElement("dl");
  list.append(...TERMS.flatMap(({ name, definition }) => {
    const term = document.createElement("dt");
    term.id = idOf(name);
    term.append(textElement("dfn", name));
    return [term, textElement("dd", definition)];
  }));
  byId("glossary").append(list);
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

/** Return a button that shows the definition of a term; a link to it in a browser without popovers. */
function termElement(words: string, { name, definition }: Term): HTMLElement {
  if (!("popover" in HTMLElement.prototype)) {
    const link = textElement("a", words);
    link.href = `#${idOf(name)}`;
    return link;
  }
  const button = textElement("button", words);
  button.type = "button";
  button.className = "term";
  button.setAttribute("aria-label", `${words}: what is it?`);
  button.addEventListener("click", () => {
    const place = card();
    place.setAttribute("aria-label", name);
    const close = textElement("button", "Close");
    close.type = "button";
    close.addEventListener("click", () => {
      place.hidePopover();
      button.focus();
    });
    place.replaceChildren(textElement("strong", name), textElement("p", definition), close);
    place.showPopover();
    close.focus();
  });
  return button;
}

/** Return whether a card with a definition is open. */
export const isCardOpen = (): boolean => document.getElementById("term-card")?.matches(":popover-open") ?? false;

/** A text in parts; every second part is a term, or words and the term in the form "words|term". */
export function splitTerms(text: string): string[] {
  return text.split(/\[([^\]]+)\]/);
}

/** Return a paragraph; terms in brackets become buttons: "[weights|attention weight]". */
export function paragraph(text: string): HTMLParagraphElement {
  const made = document.createElement("p");
  for (const [k, part] of splitTerms(text).entries()) {
    const [words, name = words] = part.split("|");
    const term = k % 2 ? TERMS.find((each) => each.name === name) : undefined;
    made.append(term ? termElement(words, term) : part);
  }
  return made;
}
