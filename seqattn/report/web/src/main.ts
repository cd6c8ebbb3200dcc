// The script of the page. The data are in the element #data, which seqattn/report writes.
import { showComparison } from "./comparison";
import { hasResults, readContent } from "./content";
import { showCurves } from "./curves";
import { byId, textElement } from "./dom";
import { showExplorer } from "./explorer/explorer";
import { showHistory } from "./history";
import { createSession, hasRuntime } from "./live/runtime";
import { followTheme } from "./plots";

function listParts(): void {
  for (const section of document.querySelectorAll<HTMLElement>("section[data-part]")) {
    const link = textElement("a", section.dataset.part!);
    link.href = `#${section.id}`;
    byId("parts").append(link);
  }
}

async function main(): Promise<void> {
  const content = readContent();
  listParts();
  if (content.kind === "comparison") showComparison(content);
  else {
    showCurves(content.curves, content.unit);
    if (hasResults(content)) await showExplorer(content);
    if (content.attention_history) await showHistory(content.attention_history);
  }
  if (hasRuntime()) Object.assign(window, { seqattn: { createSession } });
  followTheme();
  document.documentElement.dataset.ready = "yes";
}

void main();
