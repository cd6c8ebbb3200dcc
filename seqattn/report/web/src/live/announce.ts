// Texts for screen readers, which are spoken when a change has come to rest and not at every frame of a drag.

const REST = 700; // ms

/** Return a function that writes a text into an element with aria-live, after `rest` ms without another text. */
export function announcer(element: HTMLElement, rest = REST): (text: string) => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (text) => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (element.textContent !== text) element.textContent = text; }, rest);
  };
}
