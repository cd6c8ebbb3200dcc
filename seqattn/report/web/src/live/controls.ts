// The controls of the explorer of points.
import { byId, textElement } from "../dom";
import { formatValue, messageOf } from "../format";
import type { LiveExplorer } from "./explorer";
import { checkValues } from "./model";
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

/** Return a number field for a feature of the chosen point, with a place for what is wrong with the typed value. */
function valueField(explorer: LiveExplorer, name: string, feature: number): HTMLElement {
  const label = textElement("label", `${name} `);
  const input = document.createElement("input");
  const fault = textElement("span", "");
  input.type = "number";
  input.step = "any";
  fault.className = "fault";
  fault.id = `live-fault-${feature}`;
  fault.setAttribute("role", "status");
  input.setAttribute("aria-describedby", fault.id);
  input.addEventListener("input", () => {
    const { source, point } = explorer.state;
    const problem = faultOf(input);
    showFault(input, problem && `${problem} The model still reads ${formatValue(source[point][feature], 1)}.`);
    if (!problem) explorer.movePoint(point, { [feature]: input.valueAsNumber });
  });
  label.append(input, fault);
  return label;
}

/** Say what is wrong with a typed value; "": nothing. */
function faultOf(input: HTMLInputElement): string {
  if (input.value === "") return input.validity.badInput ? "This is no number." : "Type a number.";
  try {
    checkValues([input.valueAsNumber]);
    return "";
  } catch (error) {
    return messageOf(error);
  }
}

function showFault(input: HTMLInputElement, text: string): void {
  input.nextElementSibling!.textContent = text;
  input.setAttribute("aria-invalid", String(text !== ""));
}

/** Show the values of the chosen source point in number fields. */
function showPoint(explorer: LiveExplorer, { features, state }: Scene): void {
  const place = byId("live-values");
  byId("live-point-name").textContent = `Source point ${state.point + 1} of ${state.source.length}`;
  const shown = features.slice(0, MAX_INPUTS);
  if (place.children.length !== shown.length) place.replaceChildren(...shown.map((name, f) => valueField(explorer, name, f)));
  for (const [f, input] of [...place.querySelectorAll("input")].entries()) {
    if (document.activeElement === input) continue;
    input.value = formatValue(state.source[state.point][f], 1).replace("\u2212", "-");
    showFault(input, "");
  }
  (byId("live-add") as HTMLButtonElement).disabled = !explorer.accepts(state.source.length + 1);
  (byId("live-remove") as HTMLButtonElement).disabled = !explorer.accepts(state.source.length - 1);
}
