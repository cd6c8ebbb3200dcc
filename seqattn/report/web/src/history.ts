// The attention weights of validation sequences over the epochs of training.
import type { AttentionHistory, Unpacked } from "./content";
import { matrix, unpack } from "./content";
import { byId, fill, inputById, numberOf, selectById } from "./dom";
import { indexNames, pointNames, sequenceNames } from "./format";
import { ALIGNMENT_COLOUR, colourScale, draw, heatmap, MAX_UNIT_SCALE_COLUMNS, onThemeChange, outlines } from "./plots";

/** Return the largest weight of all frames. The frames share a colour scale. */
function largestWeight(weights: Unpacked, rows: number, columns: number, indices: [k: number, layer: number, head: number]): number {
  let most = 1e-6;
  for (let frame = 0; frame < weights.shape[0]; frame += 1) {
    for (const weight of matrix(weights, rows, columns, frame, ...indices).flat()) most = Math.max(most, weight ?? 0);
  }
  return most;
}

function drawFrame(history: AttentionHistory, weights: Unpacked, largest: number): void {
  const [k, layer, head, frame] = ["history-example", "history-layer", "history-head", "history-frame"].map(numberOf);
  const [S, T] = [history.source_lengths[k], history.target_lengths[k]];
  const z = matrix(weights, T, S, frame, k, layer, head);
  const known = history.alignment ? history.alignment[k].slice(0, T) : [];
  const epoch = history.epochs[frame];
  const name = epoch ? `After epoch ${epoch}` : "Before training";
  byId("history-name").textContent = name;
  byId("history-frame").setAttribute("aria-valuetext", name);
  const title = history.meaning === "strength" ? "read strength" : "attention weight";
  const down = pointNames(T, S + 1);
  draw("history-map", [heatmap(z, pointNames(S), down, colourScale(history.meaning, weights, largest), title, weights.decimals)], {
    xaxis: { title: { text: "attended source point" } }, yaxis: { autorange: "reversed", title: { text: "forecast point" } }, shapes: outlines(known, ALIGNMENT_COLOUR),
  });
}

/** Make the button play the frames one after another. */
function addPlayButton(frames: number, show: () => void): void {
  const slider = inputById("history-frame");
  let playing: ReturnType<typeof setInterval> | undefined;
  const pause = (): void => {
    clearInterval(playing);
    playing = undefined;
    byId("history-play").textContent = "Play";
  };
  byId("history-play").addEventListener("click", () => {
    if (playing !== undefined) {
      pause();
      return;
    }
    if (Number(slider.value) === frames - 1) slider.value = "0";
    byId("history-play").textContent = "Pause";
    playing = setInterval(() => {
      const next = Number(slider.value) + 1;
      if (next >= frames) {
        pause();
        return;
      }
      slider.value = String(next);
      show();
    }, Math.max(60, Math.min(500, 6000 / frames)));
  });
}

export async function showHistory(history: AttentionHistory): Promise<void> {
  const weights = await unpack(history.weights);
  const [frames, , layers, heads] = weights.shape;
  fill(selectById("history-example"), sequenceNames(history.ids, history.labels));
  fill(selectById("history-layer"), indexNames(layers));
  fill(selectById("history-head"), indexNames(heads));
  inputById("history-frame").max = String(frames - 1);
  const isLong = Math.max(...history.source_lengths) > MAX_UNIT_SCALE_COLUMNS;
  let most = 1;
  const show = (): void => { drawFrame(history, weights, most); };
  const choose = (): void => {
    const [k, layer, head] = ["history-example", "history-layer", "history-head"].map(numberOf);
    if (isLong) most = largestWeight(weights, history.target_lengths[k], history.source_lengths[k], [k, layer, head]);
    show();
  };
  for (const id of ["history-example", "history-layer", "history-head"]) byId(id).addEventListener("change", choose);
  byId("history-frame").addEventListener("input", show);
  addPlayButton(frames, show);
  onThemeChange(show);
  choose();
}
