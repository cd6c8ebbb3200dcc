// Loads plotly, which draws the plots below the live part.
import { byId, textElement } from "./dom";
import { messageOf } from "./format";
import { decodeGzip } from "./live/runtime";

const PAUSE = 500; // ms

/** Define the global `Plotly` from the packed script of the page, or write on the page why that is impossible.
 *
 * The browser parses a script with an address outside the main thread. The content security policy of the page
 * demands the nonce of its own script.
 *
 * @returns whether `Plotly` is defined.
 */
export async function loadPlotly(): Promise<boolean> {
  const packed = byId("plotly-script");
  const script = document.createElement("script");
  script.nonce = document.querySelector<HTMLScriptElement>("script[nonce]")!.nonce;
  try {
    const bytes = await decodeGzip(packed.textContent);
    script.src = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
    await new Promise((resolve, reject) => {
      script.onload = resolve;
      script.onerror = () => { reject(new Error("the browser refuses the script")); };
      document.head.append(script);
    });
  } catch (error) {
    const notice = textElement("p", `The plots of this page could not be loaded (${messageOf(error)}).`);
    notice.className = "notice";
    document.querySelector("main")!.prepend(notice);
    return false;
  } finally {
    URL.revokeObjectURL(script.src);
    packed.remove();
  }
  return true;
}

/** Wait for a time without any input from the reader. Loading plotly blocks the page, which would interrupt a drag. */
export function waitForPause(source: EventTarget = window, pause = PAUSE): Promise<void> {
  return new Promise((resolve) => {
    const kinds = ["pointerdown", "pointermove", "pointerup", "pointercancel", "keydown", "wheel"];
    let timer: ReturnType<typeof setTimeout>;
    let isPressed = false;
    const restart = ({ type }: { type: string }): void => {
      isPressed = type === "pointerdown" || (isPressed && type !== "pointerup" && type !== "pointercancel");
      clearTimeout(timer);
      if (!isPressed) timer = setTimeout(finish, pause);
    };
    const finish = (): void => {
      for (const kind of kinds) source.removeEventListener(kind, restart, true);
      resolve();
    };
    for (const kind of kinds) source.addEventListener(kind, restart, { capture: true, passive: true });
    restart({ type: "" });
  });
}

/** Let the browser paint and answer events between two long tasks. */
export const nextTask = (): Promise<void> => new Promise((resolve) => { setTimeout(resolve); });
