// A description of the chosen step in words.
import { formatNumber, formatValue, withMinus } from "../format";
import type { View } from "./view";
import { MAX_ROWS } from "./view";

const MAX_ATTENDED = 5;

/** Return the name of the point that the chosen step forecasts or, in encoder self-attention, reads. */
export function pointOfStep(view: View): string {
  const [S] = view.lengths;
  return view.kind === "encoder_self" ? `point ${view.step + 1}` : `point ${S + view.step + 1}`;
}

function describeAttended(view: View): string {
  const first = view.kind === "decoder_self" ? view.lengths[0] : 0;
  const digits = Math.min(3, view.map!.decimals);
  const order = view.weights.map((weight, k): [number, number] => [weight, k]).filter(([weight]) => Number.isFinite(weight))
    .sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, MAX_ATTENDED);
  return order.map(([weight, k]) => `point ${first + k + 1} with ${withMinus(weight.toFixed(digits))}`).join(", ");
}

function describeForecast(view: View): string {
  const names = view.examples.target_features;
  const each = names.slice(0, MAX_ROWS).map((feature, f) => {
    const [value, truth] = [view.forecast, view.target].map((array) => array.at(view.example, view.step, f));
    const truthText = Number.isFinite(truth) ? `truth ${formatValue(truth, view.spread(feature))}` : "not observed";
    return `${feature} ${formatValue(value, view.spread(feature))}${view.unitOf(feature)} (${truthText})`;
  });
  const more = names.length - each.length;
  return `${each.join(", ")}${more ? `, and ${more} more` : ""}`;
}

/** Describe the chosen step: its largest weights, its forecast, and the error of the sequence.
 *
 * @param unit - Words about the scale of the error.
 */
export function describeStep(view: View, unit: string): string {
  const step = `Step ${view.step + 1} (${pointOfStep(view)})`;
  let text = `${step}.`;
  if (view.map) {
    const attended = describeAttended(view);
    text = `${step} attends to ${view.kind === "decoder_self" && attended ? "the steps of " : ""}${attended || "nothing"}.`;
  }
  if (view.kind !== "encoder_self") text += ` Forecast: ${describeForecast(view)}.`;
  return `${text} The mean squared error of the sequence${unit} is ${formatNumber(view.examples.losses[view.example])}.`;
}
