// Loads plotly. The page contains its script as text, so that the live part is ready before the browser reads it.

/** Define the global `Plotly`; the page's content security policy demands the nonce of its own script. */
export function loadPlotly(): void {
  const text = document.getElementById("plotly-script");
  const own = document.querySelector<HTMLScriptElement>("script[nonce]");
  if (!text || !own) throw new Error("the page has no script of plotly");
  const script = document.createElement("script");
  script.nonce = own.nonce;
  script.textContent = text.textContent;
  text.remove();
  document.head.append(script);
}

/** Let the browser paint and answer events between two long tasks. */
export const nextTask = (): Promise<void> => new Promise((resolve) => { setTimeout(resolve); });
