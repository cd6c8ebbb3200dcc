// The controls of the explorer of points.
import { byId, textElement } from "../dom";
import { formatValue } from "../format";
import type { LiveExplorer } from "./explorer";
import type { Scene } from "./scene";
import { pointNames } from "./scene";
import { addSharedControls, onClick, showSharedControls } from "./shared_controls";

const MAX_INPUTS = 8;

/** Prepare the controls and follow them. */
export function addControls(explorer: LiveExplorer): void {
  addSharedControls(explorer);
  onClick("live-blank", () => { explorer.chooseBlank(); });
  onClick("live-add", () => { explorer.addPoint(); });
  onClick("live-remove", () => { explorer.removePoint(); });
}

/** Show the state in the controls. */
export function showControls(explorer: LiveExplorer, scene: Scene): void {
  showSharedControls(explorer, pointNames(explorer.state));
  showPoint(explorer, scene);
}

/** Show the values of the chosen source point in number fields. */
function showPoint(explorer: LiveExplorer, { features, state }: Scene): void {
  const place = byId("live-values");
  byId("live-point-name").textContent = `Source point ${state.point + 1} of ${state.source.length}`;
  const shown = features.slice(0, MAX_INPUTS);
  if (place.children.length !== shown.length) {
    place.replaceChildren(...shown.map((name, f) => {
      const label = textElement("label", `${name} `);
      const input = document.createElement("input");
      input.type = "number";
      input.step = "any";
      input.addEventListener("input", () => {
        if (input.value !== "" && Number.isFinite(input.valueAsNumber)) explorer.movePoint(explorer.state.point, { [f]: input.valueAsNumber });
      });
      label.append(input);
      return label;
    }));
  }
  for (const [f, input] of [...place.querySelectorAll("input")].entries()) {
    const value = state.source[state.point][f];
    if (document.activeElement !== input) input.value = formatValue(value, 1).replace("\u2212", "-");
  }
  (byId("live-add") as HTMLButtonElement).disabled = !explorer.accepts(state.source.length + 1);
  (byId("live-remove") as HTMLButtonElement).disabled = !explorer.accepts(state.source.length - 1);
}
