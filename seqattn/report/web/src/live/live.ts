// The live part of the page: the models, the explorer, and `window.seqattn`.
import type { Content } from "../content";
import { byId } from "../dom";
import { messageOf } from "../format";
import { addArithmetic } from "./arithmetic_panel";
import type { LivePage } from "./explorer";
import { LiveExplorer, livePage } from "./explorer";
import { addLegend } from "./legend";
import type { WordPage } from "../words/explorer";
import { WordExplorer, wordPage } from "../words/explorer";
import { wordArithmetic } from "../words/arithmetic";
import type { Search, WordAnswer } from "../words/model";
import { WordModel } from "../words/model";
import { sharedWords } from "../words/share";
import { WordTour } from "../words/tour";
import type { Answer, GraphModel, RunOptions } from "./model";
import { LiveModel } from "./model";
import { createSession, hasRuntime } from "./runtime";
import { Mechanism } from "./mechanism";
import { pointArithmetic } from "./point_arithmetic";
import { sharedPoints } from "./point_share";
import { Share } from "./share";
import { Tour } from "./tour";

/** The functions of the page for scripts. */
export interface SeqattnApi {
  createSession: typeof createSession;
  /** Forecast a source (S, F) in units of the data; see `LiveModel.run`. `run` counts the runs of all models, or is a name. */
  run?: (source: number[][], options?: RunOptions) => Promise<Answer>;
  /** Find the output of a model of symbols for a source text; see `WordModel.answer`. */
  answer?: (source: string, search?: Partial<Search>, options?: RunOptions) => Promise<WordAnswer>;
  /** The explorer, for tests of the page. */
  explorer?: LiveExplorer | WordExplorer;
}

declare global {
  interface Window { seqattn?: SeqattnApi }
}

async function loadAll<Content, Model>(contents: readonly Content[], load: (content: Content) => Promise<Model>): Promise<Model[]> {
  const models: Model[] = [];
  for (const content of contents) models.push(await load(content));
  return models;
}

/** Find a run among those of all models, by its index or name. */
function findRun<Model extends GraphModel>(models: readonly Model[], run: number | string = 0): { model: Model; index: number } {
  const all = models.flatMap((model) => model.content.runs.map(({ name }, index) => ({ model, index, name })));
  const found = typeof run === "number" ? all[run] : all.find(({ name }) => name === run);
  if (!found) throw new Error(`run ${run}: the page has ${all.map(({ name }) => name).join(", ")}.`);
  return found;
}

async function showPoints(page: LivePage): Promise<LiveExplorer> {
  const models = await loadAll(page.live.models, (each) => LiveModel.load(each));
  const explorer = await LiveExplorer.load(page, models);
  const arithmetic = pointArithmetic(explorer);
  new Mechanism(explorer, addArithmetic(explorer, arithmetic), arithmetic);
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
  new Share(explorer, sharedPoints(explorer));
  new Tour(explorer);
  return explorer;
}

async function showWords(page: WordPage): Promise<WordExplorer> {
  const models = await loadAll(page.live.models, (each) => WordModel.load(each));
  const explorer = await WordExplorer.load(page, models);
  const arithmetic = wordArithmetic(explorer);
  new Mechanism(explorer, addArithmetic(explorer, arithmetic), arithmetic);
  window.seqattn = {
    createSession,
    explorer,
    answer: async (source, search = {}, options = {}) => {
      const { model, index } = findRun(models, options.run);
      const numbers = model.source.split(source).map((symbol) => model.source.numberOf(symbol));
      return model.answer(numbers, { beam: 1, given: [], ...search }, { ...options, run: index });
    },
  };
  byId("live-body").hidden = false;
  explorer.draw();
  new Share(explorer, sharedWords(explorer));
  new WordTour(explorer);
  return explorer;
}

/** Show the live explorer, and return it; null if the page has none. A damaged model gives a sentence. */
export async function showLive(content: Content): Promise<LiveExplorer | WordExplorer | null> {
  if (hasRuntime()) window.seqattn = { createSession };
  const [points, words] = [livePage(content), wordPage(content)];
  if (!points && !words) return null;
  byId("live").hidden = false;
  try {
    return await (words ? showWords(words) : showPoints(points!));
  } catch (error) {
    byId("live-error").textContent = `The model of this page could not be loaded (${messageOf(error)}). The rest of the page works.`;
    byId("live-body").remove();
    return null;
  }
}
