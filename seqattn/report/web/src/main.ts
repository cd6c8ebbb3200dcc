// The script of the page. The element #data contains the data, which seqattn/report writes.
import { showComparison } from "./comparison";
import type { RunContent } from "./content";
import { hasResults, readContent } from "./content";
import { showContributions } from "./contributions";
import { showCurves } from "./curves";
import { byId, textElement } from "./dom";
import { showExplorer } from "./explorer/explorer";
import { showHistory } from "./history";
import { markWorst, showErrors } from "./errors";
import { LiveExplorer } from "./live/explorer";
import { showGlossary } from "./live/glossary";
import { showLive } from "./live/live";
import type { WordExplorer } from "./words/explorer";
import { loadPlotly, nextTask, waitForPause } from "./load_plotly";
import { followTheme } from "./plots";

function listParts(): void {
  for (const section of document.querySelectorAll<HTMLElement>("section[data-part]:not([hidden])")) {
    const link = textElement("a", section.dataset.part!);
    link.href = `#${section.id}`;
    byId("parts").append(link);
  }
}

/** Show the explorer of a run. If the page contains the model, show the live explorer, otherwise the explorer of the test sequences. */
async function showRun(content: RunContent, live: LiveExplorer | WordExplorer | null): Promise<void> {
  showCurves(content.curves, content.loss_name ?? "mean squared error", content.unit);
  await nextTask();
  if (live instanceof LiveExplorer && hasResults(content)) {
    showErrors(content, {
      section: "live",
      chooseExample: (example) => { live.chooseExample(example); },
      chooseStep: (step) => { live.chooseStep(step); },
    });
    live.onAnswer(({ state }) => { markWorst(state.example ?? -1); });
  } else if (!live && hasResults(content)) await showExplorer(content);
  await nextTask();
  if (content.attention_history) await showHistory(content.attention_history);
}

async function main(): Promise<void> {
  const content = readContent();
  const live = await showLive(content);
  if (live) document.querySelector("#explorer")?.remove();
  showGlossary(content.live?.words !== undefined || (content.kind === "run" && content.symbols !== undefined && content.symbols !== null));
  listParts();
  followTheme();
  if (content.kind === "run" && content.contributions) showContributions(content.contributions);
  await (live ? waitForPause() : nextTask());
  if (await loadPlotly()) {
    if (content.kind === "comparison") showComparison(content);
    else if (content.kind === "run") await showRun(content, live);
  }
  document.documentElement.dataset.ready = "yes";
}

void main();
