// The state of the explorer that a step of the tour begins with.
import type { TourContent } from "./content";
import type { LiveExplorer } from "./explorer";
import { distinct } from "./state";
import type { StepName } from "./tour_texts";

/** Choose the sequence, layer and head whose weights show best what attention is, and return whether the page knows them. */
function chooseStart(explorer: LiveExplorer, start: TourContent["start"]): boolean {
  const { state, sequences, page: { examples } } = explorer;
  const isUsable = start !== null && start.example < sequences.count && explorer.accepts(examples.source_lengths[start.example]);
  if (isUsable) {
    explorer.chooseExample(start.example);
    [state.layer, state.head] = [start.layer, start.head];
  } else if (state.isChanged) explorer.chooseExample(state.example ?? 0);
  return isUsable;
}

/** Bring back the sequence that the reader changed, or choose that of the first step, and return sentences about it. */
function restoreSource(explorer: LiveExplorer, step: StepName, start: TourContent["start"]): string[] {
  const { state, sequences } = explorer;
  const [before, wasChanged] = [state.example, state.isChanged];
  let reason = "";
  if (step === "move") reason = chooseStart(explorer, start) ? ", because its weights show clearly where a model looks" : "";
  else if (wasChanged) explorer.chooseExample(before ?? start?.example ?? 0);
  if (state.example === null) return [];
  const name = sequences.names[state.example];
  if (state.example !== before) return [`The tour has switched to sequence ${name}${reason}.`];
  return wasChanged ? [`The tour has put the source of sequence ${name} back as it was.`] : [];
}

/** Show each model after its best epoch, and return sentences about it. */
function restoreEpochs({ state, models }: LiveExplorer): string[] {
  const best = state.subjects.map(({ model, run }) => models[model].content.runs[run].best_epoch);
  const isOther = state.subjects.some(({ epoch }, k) => epoch !== best[k]);
  for (const [k, subject] of state.subjects.entries()) subject.epoch = best[k];
  return isOther ? ["The tour has put the trained parameters back: those after the epoch with the lowest validation loss."] : [];
}

/** Undo the change of the step before, so that each step shows one thing.
 *
 * @param start - The sequence of the first step; null: unknown.
 * @returns sentences about what the reader did not choose.
 */
export function prepareStep(explorer: LiveExplorer, step: StepName, start: TourContent["start"]): string[] {
  const { state } = explorer;
  const hadForced = step !== "forbid" && state.force.size > 0;
  const notes = restoreSource(explorer, step, start);
  if (hadForced) {
    state.force.clear();
    notes.push("The tour has taken back the forced weights.");
  }
  if ("cross" in (explorer.scene?.shown[0].answer.maps ?? {})) state.kind = "cross";
  return step === "look" || step === "forbid" ? notes : [...notes, ...restoreEpochs(explorer)];
}

/** Show a model with attention first, beside the models that are shown already. */
export function showAttending({ state, models }: LiveExplorer): void {
  const model = models.findIndex(({ content }) => content.layers > 0);
  if (model < 0) return;
  const subject = { model, run: 0, epoch: models[model].content.runs[0].best_epoch };
  state.subjects = distinct([subject, ...state.subjects]).slice(0, 4);
}
