// The live part of the page: the models, the explorer, and `window.seqattn`.
import type { Content } from "../content";
import { byId } from "../dom";
import { messageOf } from "../format";
import { addArithmetic } from "./arithmetic_panel";
import type { LivePage } from "./explorer";
import { LiveExplorer, livePage } from "./explorer";
import { addLegend } from "./legend";
import type { Answer, RunOptions } from "./model";
import { LiveModel } from "./model";
import { createSession, hasRuntime } from "./runtime";
import { Share } from "./share";
import { Tour } from "./tour";

/** The functions of the page for scripts. */
export interface SeqattnApi {
  createSession: typeof createSession;
  /** Forecast a source (S, F) in units of the data; see `LiveModel.run`. `run` counts the runs of all models, or is a name. */
  run?: (source: number[][], options?: RunOptions) => Promise<Answer>;
  /** The explorer, for tests of the page. */
  explorer?: LiveExplorer;
}

declare global {
  interface Window { seqattn?: SeqattnApi }
}

async function loadModels({ live }: LivePage): Promise<LiveModel[]> {
  const models: LiveModel[] = [];
  for (const content of live.models) models.push(await LiveModel.load(content));
  return models;
}

/** Find a run among those of all models, by its index or name. */
function findRun(models: readonly LiveModel[], run: number | string = 0): { model: LiveModel; index: number } {
  const all = models.flatMap((model) => model.content.runs.map(({ name }, index) => ({ model, index, name })));
  const found = typeof run === "number" ? all[run] : all.find(({ name }) => name === run);
  if (!found) throw new Error(`run ${run}: the page has ${all.map(({ name }) => name).join(", ")}.`);
  return found;
}

/** Show the live explorer, and return it; null if the page has none. A damaged model gives a sentence. */
export async function showLive(content: Content): Promise<LiveExplorer | null> {
  if (hasRuntime()) window.seqattn = { createSession };
  const page = livePage(content);
  if (!page) return null;
  byId("live").hidden = false;
  try {
    const models = await loadModels(page);
    const explorer = await LiveExplorer.load(page, models);
    addArithmetic(explorer);
    window.seqattn = {
      createSession,
      explorer,
      run: async (source, options = {}) => {
        const { model, index } = findRun(models, options.run);
        return model.run(source, { ...options, run: index });
      },
    };
    byId("live-body").hidden = false;
    explorer.draw();
    addLegend(explorer);
    new Share(explorer, content);
    new Tour(explorer);
    return explorer;
  } catch (error) {
    byId("live-error").textContent = `The model of this page could not be loaded (${messageOf(error)}). The rest of the page works.`;
    byId("live-body").remove();
    return null;
  }
}
