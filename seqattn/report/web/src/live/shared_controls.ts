// The controls that the explorers of points and of symbols share.
import type { AttentionKind } from "../content";
import { byId, fill, inputById, numberOf, selectById } from "../dom";
import { KIND_NAMES } from "../explorer/view";
import { capitalize } from "../format";
import type { LiveRun } from "./content";
import type { AnyExplorer } from "./explorer_base";
import type { PointNames } from "./scene";
import { isKnockedOut } from "./scene";
import type { Subject } from "./state";
import { distinct, withFirst } from "./state";

const NONE = "none";

interface Choice {
  name: string;
  subject: Subject;
}

/** Return the choices of a model: the name of each run of each graph. */
function runChoices(explorer: AnyExplorer): Choice[] {
  return explorer.models.flatMap(({ content }, model) => content.runs.map(({ name, best_epoch: epoch }, run) => ({ name, subject: { model, run, epoch } })));
}

/** Return the index of the choice that shows a run. */
const choiceOf = (choices: readonly Choice[], { model, run }: Subject): number => choices.findIndex(({ subject }) => subject.model === model && subject.run === run);

export const onClick = (id: string, act: () => void): void => { byId(id).addEventListener("click", act); };
export const onChange = (id: string, act: () => void): void => { byId(id).addEventListener("change", act); };

/** Prepare the controls and follow them. */
export function addSharedControls(explorer: AnyExplorer): void {
  const { state } = explorer;
  const names = explorer.exampleNames;
  fill(selectById("live-example"), [...names, "your own"], state.example ?? names.length);
  onChange("live-example", () => {
    const example = numberOf("live-example");
    if (example < names.length) explorer.chooseExample(example);
    else explorer.chooseOwn();
  });
  onClick("live-before", () => { explorer.chooseExample((state.example ?? 0) - 1); });
  onClick("live-after", () => { explorer.chooseExample((state.example ?? -1) + 1); });
  onClick("live-reset", () => { explorer.resetSource(); });
  onClick("live-undo", () => { explorer.undo(); });
  onClick("live-redo", () => { explorer.redo(); });
  onChange("live-kind", () => { explorer.change(() => { state.kind = kinds(explorer)[numberOf("live-kind")]; }); });
  onChange("live-layer", () => { explorer.change(() => { state.layer = numberOf("live-layer"); }); });
  onChange("live-head", () => { explorer.change(() => { state.head = numberOf("live-head"); }); });
  onChange("live-colours", () => { explorer.setRelative(selectById("live-colours").value === "largest"); });
  byId("live-step").addEventListener("input", () => { explorer.chooseStep(numberOf("live-step")); });
  onClick("live-own", () => { explorer.freeRow(); });
  onClick("live-own-all", () => { explorer.freeAll(); });
  onClick("live-uniform", () => { explorer.forceUniform(); });
  onClick("live-shuffle", () => { explorer.forceShuffled(); });
  onClick("live-knock-head", () => { explorer.knockOut(false); });
  onClick("live-knock-layer", () => { explorer.knockOut(true); });
  addSubjectControls(explorer);
}

/** The selects of the models, a second one to compare with, and a slider of epochs. */
function addSubjectControls(explorer: AnyExplorer): void {
  const { state } = explorer;
  const choices = runChoices(explorer);
  const names = choices.map(({ name }) => name);
  for (const id of ["live-run", "live-other"]) selectById(id).parentElement!.hidden = choices.length < 2;
  fill(selectById("live-run"), names);
  fill(selectById("live-other"), [NONE, ...names]);
  showSubjects(explorer);
  onChange("live-run", () => {
    const chosen = { ...choices[numberOf("live-run")].subject };
    explorer.change(() => { state.subjects = withFirst(state.subjects, chosen); });
  });
  onChange("live-other", () => {
    const chosen = numberOf("live-other");
    explorer.change(() => { state.subjects = chosen ? distinct([state.subjects[0], { ...choices[chosen - 1].subject }]) : [state.subjects[0]]; });
  });
  byId("live-epoch").addEventListener("input", () => {
    const { epochs } = epochsOf(explorer);
    explorer.change(() => { for (const subject of state.subjects) subject.epoch = nearest(explorer, subject, epochs[numberOf("live-epoch")]); });
  });
}

/** Show the chosen models, which a link may change. */
function showSubjects(explorer: AnyExplorer): void {
  const choices = runChoices(explorer);
  const [first, second] = explorer.state.subjects as [Subject, Subject | undefined];
  selectById("live-run").value = String(choiceOf(choices, first));
  const other = selectById("live-other");
  other.value = String(second ? choiceOf(choices, second) + 1 : 0);
  for (const [k, option] of [...other.options].entries()) option.disabled = k === choiceOf(choices, first) + 1; // a model beside itself shows nothing
}

/** Return the recorded epoch of a model's run that is nearest to an epoch. */
function nearest(explorer: AnyExplorer, { model, run }: Subject, epoch: number): number {
  const { epochs } = explorer.models[model].content.runs[run];
  return epochs.reduce((best, each) => (Math.abs(each - epoch) < Math.abs(best - epoch) ? each : best));
}

function epochsOf(explorer: AnyExplorer): { epochs: number[]; best: number } {
  const [{ model, run }] = explorer.state.subjects;
  const { epochs, best_epoch: best } = explorer.models[model].content.runs[run];
  return { epochs, best };
}

function kinds(explorer: AnyExplorer): AttentionKind[] {
  return Object.keys(explorer.scene?.shown[0].answer.maps ?? {}) as AttentionKind[];
}

/** Return names that count from 1. */
const countedNames = (count: number): string[] => Array.from({ length: count }, (_, k) => String(k + 1));

/** Show the state in the controls.
 *
 * @param names - the names of the steps.
 */
export function showSharedControls(explorer: AnyExplorer, names: PointNames): void {
  const { state, first, rowCount: rows } = explorer;
  const scene = explorer.scene!;
  selectById("live-example").value = String(state.example ?? explorer.exampleNames.length);
  (byId("live-reset") as HTMLButtonElement).disabled = !state.isChanged;
  (byId("live-undo") as HTMLButtonElement).disabled = !explorer.canUndo;
  (byId("live-redo") as HTMLButtonElement).disabled = !explorer.canRedo;
  const all = kinds(explorer);
  if (!all.includes(state.kind) && all.length) [state.kind] = all;
  fill(selectById("live-kind"), all.length ? all.map((kind) => KIND_NAMES[kind]) : ["no attention"], Math.max(0, all.indexOf(state.kind)));
  fill(selectById("live-layer"), countedNames(first.layers), state.layer);
  fill(selectById("live-head"), countedNames(first.heads), state.head);
  for (const id of ["live-kind", "live-layer", "live-head"]) selectById(id).parentElement!.hidden = selectById(id).options.length < 2;
  selectById("live-colours").value = state.isRelative ? "largest" : "1";
  selectById("live-colours").parentElement!.hidden = all.length === 0 || scene.shown[0].meaning === "strength";
  inputById("live-step").max = String(rows - 1);
  inputById("live-step").value = String(state.step);
  const name = names.row(state.step);
  byId("live-step-name").textContent = `${capitalize(name)} (${state.step + 1} of ${rows})`;
  byId("live-step").setAttribute("aria-valuetext", `${name}, ${state.step + 1} of ${rows}`);
  showSubjects(explorer);
  showEpoch(explorer);
  const row = state.kind === "cross" ? state.force.get(state.step + 1, state.layer, state.head) : undefined;
  byId("live-weights-name").textContent = `Weights of ${name}${!row ? "" : isKnockedOut(row) ? ": knocked out, so all are 0" : ": forced by you"}`;
  byId("live-force").hidden = !scene.canForce || state.kind !== "cross";
  byId("live-knock-layer").hidden = first.layers < 2 && first.heads < 2;
  (byId("live-own") as HTMLButtonElement).disabled = row === undefined;
  (byId("live-own-all") as HTMLButtonElement).disabled = state.force.size === 0;
}

/** Say which epochs the page lacks, and which epoch of the models beyond the first is shown.
 *
 * @param shown - The runs that are shown, with the epoch of each.
 */
export function describeEpochs(shown: readonly (Pick<LiveRun, "name" | "epochs" | "recorded" | "best_epoch"> & { epoch: number })[]): string {
  if (shown.every(({ epochs, recorded }) => epochs.length < 2 && recorded < 2)) return "";
  const [first, ...others] = shown;
  const lacking = shown.filter(({ epochs, recorded }) => epochs.length < recorded)
    .map(({ name, epochs, recorded }) => `The page has the parameters of ${name} at ${epochs.length} of ${recorded} recorded epochs; all would be too large.`);
  const elsewhere = others.filter(({ epoch }) => epoch !== first.epoch).map(({ name, epoch, epochs, best_epoch: best }) => {
    const when = epoch === 0 ? "before training" : `after epoch ${epoch}`;
    return `${name} is shown ${when}${epoch === best ? ", which had its lowest validation loss" : ""}${epochs.length < 2 ? "; the page has no other epoch of it" : ""}.`;
  });
  return [...lacking, ...elsewhere].join(" ");
}

function showEpoch(explorer: AnyExplorer): void {
  const { epochs, best } = epochsOf(explorer);
  const [{ epoch }] = explorer.state.subjects;
  byId("live-epochs").hidden = epochs.length < 2;
  inputById("live-epoch").max = String(epochs.length - 1);
  inputById("live-epoch").value = String(epochs.indexOf(epoch));
  const name = epoch === 0 ? "Before training" : `After epoch ${epoch}${epoch === best ? " (lowest validation loss)" : ""}`;
  byId("live-epoch-name").textContent = name;
  byId("live-epoch").setAttribute("aria-valuetext", name);
  const note = describeEpochs(explorer.state.subjects.map(({ model, run, epoch: each }) => ({ ...explorer.models[model].content.runs[run], epoch: each })));
  byId("live-epoch-note").textContent = note;
  byId("live-epoch-note").hidden = note === "";
}
