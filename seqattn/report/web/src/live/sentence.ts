// The chosen step, and what changed, in words.
import { capitalize, formatNumber, formatValue, withMinus } from "../format";
import { largestChange, meanSquaredError } from "./loss";
import type { PointNames, Scene } from "./scene";
import { hasOwnScales, isForced, isKnockedOut, pointNames, weightsOf } from "./scene";

const MAX_ATTENDED = 3;
const MAX_FEATURES = 4;

function attended(row: readonly number[], names: PointNames): string {
  return row.map((weight, k): [number, number] => [weight, k]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, MAX_ATTENDED)
    .map(([weight, k]) => `${names.column(k)} with ${withMinus(weight.toFixed(3))}`).join(", ");
}

/** Return what sets the source apart from the test and training sources; "" if nothing does. */
function describeSource({ state: { source, isChanged }, trainedLength }: Scene): string {
  const longer = source.length > trainedLength ? ` The source has ${source.length} points, more than every training source: the longest has ${trainedLength}.` : "";
  return longer + (isChanged ? " The source was changed, so the true continuation is unknown." : "");
}

/** Return a mean squared error with its unit: scaled units, the square of a unit, or both. */
function errorText(loss: number, { units, targetFeatures }: Scene, scale: readonly number[]): string {
  const unit = targetFeatures.length === 1 ? units[targetFeatures[0]] : undefined;
  const squared = (value: number): string => `${formatNumber(value)} ${unit ?? ""}${unit === undefined ? "" : "\u00b2"}`.trim();
  if (scale.every((each) => each === 1)) return squared(loss);
  const own = targetFeatures.length === 1 ? ` (${squared(loss * scale[0] ** 2)}${unit === undefined ? " in units of the data" : ""})` : "";
  return `${formatNumber(loss)} in scaled units${own}`;
}

/** Return the unit of all target features with a space before it; "" if they have several or none. */
function commonUnit({ units, targetFeatures }: Scene): string {
  const found = new Set(targetFeatures.map((name) => units[name]));
  const [unit] = found;
  return found.size === 1 && unit !== undefined ? ` ${unit}` : "";
}

/** Describe the chosen step of the first model, and the error of the sequence of each model. */
export function describe(scene: Scene): string {
  const { state, shown, targetFeatures } = scene;
  const names = pointNames(state);
  const [{ answer, meaning }] = shown;
  const row = weightsOf(answer, state.kind, state.layer, state.head)[state.step] as number[] | undefined;
  const isEncoder = state.kind === "encoder_self";
  let text = capitalize(names.row(state.step));
  if (!row) text += ".";
  else if (meaning === "distribution" && isKnockedOut(row)) text += " attends to nothing: its weights are knocked out, so all are 0 and do not add up to 1.";
  else if (isForced(scene, state.step)) text += ` has weights that you forced, so they are not the model's choice: ${attended(row, names)}.`;
  else text += ` attends to ${attended(row, names)}.`;
  if (!isEncoder) {
    const values = targetFeatures.slice(0, MAX_FEATURES).map((name, g) => {
      const truth = state.truth?.[state.step]?.[g];
      const known = truth !== undefined && Number.isFinite(truth) ? ` (truth ${formatValue(truth, 1)})` : "";
      const unit = scene.units[name] ;
      return `${name} ${formatValue(answer.forecast[state.step][g], 1)}${unit === undefined ? "" : ` ${unit}`}${known}`;
    });
    text += ` Forecast: ${values.join(", ")}.`;
  }
  for (const { name, answer: forced, own, scale } of shown) {
    const label = shown.length > 1 ? ` ${name}:` : "";
    const loss = meanSquaredError(forced.forecast, state.truth, scale);
    if (loss !== null) text += `${label} Mean squared error of the sequence: ${errorText(loss, scene, scale)}.`;
    if (forced !== own) {
      const before = meanSquaredError(own.forecast, state.truth, scale);
      text += `${loss === null ? label : ""} The forced weights move the forecast by up to ${formatNumber(largestChange(forced.forecast, own.forecast))}${commonUnit(scene)}${before === null ? "" : `; with its own weights the error is ${errorText(before, scene, scale)}`}.`;
    }
  }
  if (state.truth && hasOwnScales(shown)) text += " The errors are in the scaled units of each model, so they cannot be compared.";
  return text + describeSource(scene);
}
