// The heatmap of the chosen sequence.
import { byId } from "../dom";
import { pointNames } from "../format";
import { ALIGNMENT_COLOUR, colourScale, draw, heatmap, outlines, theme } from "../plots";
import type { View } from "./view";

const DECODER_STEPS = "attended decoder steps, named by the point they<br>forecast; the input of each is the point before";

/** Return the outlines of the true source steps and of the chosen step. */
function marks(view: View): PlotValues[] {
  const { warn } = theme();
  const [, columns] = view.size;
  return [...outlines(view.trueSteps, ALIGNMENT_COLOUR), {
    type: "rect", x0: -0.5, x1: columns - 0.5, y0: view.step - 0.5, y1: view.step + 0.5, line: { color: warn, width: 3 },
  }];
}

export function markStep(view: View): void {
  if (view.map) void Plotly.relayout("map", { shapes: marks(view) });
}

export function drawMap(view: View): void {
  if (!view.map) {
    byId("map").textContent = "This model has no attention.";
    return;
  }
  const [S] = view.lengths;
  const [rows, columns] = view.size;
  const across = view.kind === "decoder_self" ? pointNames(columns, S + 1) : pointNames(columns);
  const down = pointNames(rows, view.kind === "encoder_self" ? 1 : S + 1);
  const title = view.meaning === "strength" ? "read strength" : "attention weight";
  const known = view.trueSteps.length > 0 ? "attended point; outlined in orange: the true one" : "attended point";
  draw("map", [heatmap(view.rows, across, down, colourScale(view.meaning, view.map, view.largest), title, view.map.decimals)], {
    xaxis: { title: { text: view.kind === "decoder_self" ? DECODER_STEPS : known }, constrain: "domain" },
    yaxis: { autorange: "reversed", title: { text: "query step" } }, shapes: marks(view),
  });
}
