// The errors by target step and by group, and the sequences with the largest errors.
import type { FinishedRun, GroupLosses } from "./content";
import { byId, plotById, textElement } from "./dom";
import { formatNumber, sequenceNames } from "./format";
import { draw, onThemeChange, theme } from "./plots";
import { integerTicks } from "./ticks";

/** The functions of the explorer that run when the reader chooses a sequence or a target step. */
export interface ErrorChoices {
  /** The id of the explorer's section. */
  section: string;
  chooseExample(example: number): void;
  chooseStep(step: number): void;
}

const MAX_BARS = 40;

function drawErrorsByStep(losses: number[], unit: string): void {
  const { accent } = theme();
  draw("by-step", [{ type: losses.length > MAX_BARS ? "scatter" : "bar", x: losses.map((_, k) => k + 1), y: losses, marker: { color: accent }, hovertemplate: "position %{x}: %{y:.4g}<extra></extra>" }], {
    title: { text: `Mean squared error${unit}<br>by position in the forecast`, font: { size: 14 } },
    xaxis: { title: { text: "position in the forecast" }, ...integerTicks(losses.length) }, yaxis: { rangemode: "tozero" },
  });
}

function groupTable({ name, rows }: GroupLosses, unit: string): HTMLTableElement {
  const table = document.createElement("table");
  table.createCaption().textContent = `Mean squared error${unit} by ${name}`;
  const most = Math.max(...rows.map(([, , loss]) => loss));
  for (const [group, count, loss] of rows) {
    const row = table.insertRow();
    const head = textElement("th", group);
    head.scope = "row";
    row.append(head);
    row.insertCell().textContent = `${count} sequences`;
    row.insertCell().textContent = formatNumber(loss);
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${most > 0 ? (8 * loss) / most : 0}rem`;
    row.insertCell().append(bar);
  }
  return table;
}

function listWorst(content: FinishedRun, choices: ErrorChoices): void {
  const names = sequenceNames(content.examples.ids, content.examples.labels);
  for (const example of content.worst) {
    const item = document.createElement("li");
    const button = textElement("button", `${names[example]}, error ${formatNumber(content.examples.losses[example])}`);
    button.type = "button";
    button.dataset.example = String(example);
    button.addEventListener("click", () => {
      choices.chooseExample(example);
      byId(choices.section).scrollIntoView({ behavior: "smooth" });
    });
    item.append(button);
    byId("worst").append(item);
  }
}

/** Mark the button of the sequence that the explorer shows. */
export function markWorst(example: number): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("#worst button")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.example) === example));
  }
}

export function showErrors(content: FinishedRun, choices: ErrorChoices): void {
  const drawSteps = (): void => { drawErrorsByStep(content.by_step, content.unit); };
  drawSteps();
  plotById("by-step").on("plotly_click", (event) => { choices.chooseStep(event.points[0].x - 1); });
  onThemeChange(drawSteps);
  for (const group of content.classes) byId("by-class").append(groupTable(group, content.unit_of_one));
  listWorst(content, choices);
}
