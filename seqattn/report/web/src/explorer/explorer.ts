// The explorer. Its controls select the sequence, the weights and the step that the path, the heatmap and the sentence show.
import type { FinishedRun } from "../content";
import { byId, fill, inputById, numberOf, plotById, selectById } from "../dom";
import { markWorst, showErrors } from "../errors";
import { indexNames, sequenceNames } from "../format";
import { MAX_UNIT_SCALE_COLUMNS, onThemeChange } from "../plots";
import { drawMap, markStep } from "./map";
import { drawPath } from "./path";
import { describeStep, pointOfStep } from "./sentence";
import { KIND_NAMES, View } from "./view";

class Explorer {
  constructor(private readonly view: View, private readonly unit: string) {}

  setStep(step: number): void {
    const { view } = this;
    const [rows] = view.size;
    view.step = Math.max(0, Math.min(rows - 1, step));
    inputById("step").max = String(rows - 1);
    inputById("step").value = String(view.step);
    drawPath(view);
    markStep(view);
    byId("step-text").textContent = describeStep(view, this.unit);
    const name = `Step ${view.step + 1} of ${rows}, ${pointOfStep(view)}`;
    byId("step-name").textContent = name;
    byId("step").setAttribute("aria-valuetext", name);
  }

  /** Draw everything after a choice other than that of the step. */
  show(): void {
    const { view } = this;
    const [, layers, heads] = view.map?.shape ?? [0, 0, 0];
    view.layer = Math.max(0, Math.min(view.layer, layers - 1));
    view.head = Math.max(0, Math.min(view.head, heads - 1));
    fill(selectById("layer"), view.map ? indexNames(layers) : ["none"], view.layer);
    fill(selectById("head"), view.map ? indexNames(heads) : ["none"], view.head);
    selectById("example").value = String(view.example);
    markWorst(view.example);
    view.step = Math.min(view.step, view.size[0] - 1);
    drawMap(view);
    this.setStep(view.step);
  }

  choose(example: number): void {
    const count = this.view.examples.ids.length;
    this.view.example = (example + count) % count;
    this.view.step = 0;
    this.show();
  }

  /** Prepare the controls and follow them. */
  addControls(): void {
    const { view } = this;
    const { examples, kinds, meaning } = view;
    fill(selectById("example"), sequenceNames(examples.ids, examples.labels));
    fill(selectById("kind"), kinds.length ? kinds.map((kind) => KIND_NAMES[kind]) : ["no attention"]);
    const colours = selectById("colours");
    colours.value = Math.max(...examples.source_lengths) > MAX_UNIT_SCALE_COLUMNS ? "largest" : "1";
    view.endAtLargest = colours.value === "largest";
    colours.disabled = meaning === "strength" || !kinds.length;
    colours.parentElement!.hidden = colours.disabled;
    const onChange = (id: string, change: () => void): void => {
      byId(id).addEventListener("change", () => {
        change();
        this.show();
      });
    };
    onChange("colours", () => { view.endAtLargest = colours.value === "largest"; });
    onChange("kind", () => { view.kind = kinds[numberOf("kind")]; });
    onChange("layer", () => { view.layer = numberOf("layer"); });
    onChange("head", () => { view.head = numberOf("head"); });
    byId("example").addEventListener("change", () => { this.choose(numberOf("example")); });
    byId("before").addEventListener("click", () => { this.choose(view.example - 1); });
    byId("after").addEventListener("click", () => { this.choose(view.example + 1); });
    byId("step").addEventListener("input", () => { this.setStep(numberOf("step")); });
  }

  /** Follow the pointer over heatmap and path, which are drawn. */
  addHover(): void {
    const { view } = this;
    const setStep = (step: number): void => { if (step !== view.step) this.setStep(step); };
    if (view.map) plotById("map").on("plotly_hover", (event) => { setStep(event.points[0].pointIndex[0]); });
    plotById("path").on("plotly_hover", (event) => {
      const [point] = event.points;
      if (point.data.meta === (view.kind === "encoder_self" ? "source" : "target")) setStep(point.pointNumber);
    });
  }

  /** Show a target step; encoder self-attention has none. */
  setTargetStep(step: number): void {
    if (this.view.kind !== "encoder_self") this.setStep(step);
  }
}

/** Show the explorer of a finished run, and the errors. A click on an error opens the sequence in the explorer. */
export async function showExplorer(content: FinishedRun): Promise<void> {
  const explorer = new Explorer(await View.of(content), content.unit_of_one);
  explorer.addControls();
  showErrors(content, {
    section: "explorer",
    chooseExample: (example) => { explorer.choose(example); },
    chooseStep: (step) => { explorer.setTargetStep(step); },
  });
  explorer.show();
  explorer.addHover();
  onThemeChange(() => { explorer.show(); });
}
