// The words of the tour, for the models and data of a page.
import { capitalize, formatNumber, formatValue } from "../format";
import type { TourContent } from "./content";
import { largestChange, meanSquaredError } from "./loss";
import type { Scene } from "./scene";
import { hasOwnScales, isForced, pointNames, shareOfRange, weightsOf } from "./scene";

/** What the page has, which decides the words. */
export interface Facts {
  /** Whether the path is drawn in a plane. */
  plane: boolean;
  /** none: the model has no attention; strength: fast weights. */
  attention: "none" | "distribution" | "strength";
  /** Whether the encoder is recurrent, so that its states also contain earlier points. */
  isRecurrent: boolean;
  /** Whether weights can be forced. */
  canForce: boolean;
  /** Whether the page has the parameters of several epochs. */
  hasEpochs: boolean;
  /** Whether there is another step to choose. */
  hasSteps: boolean;
  /** Whether the picture numbers the source points. */
  isNumbered: boolean;
  /** The name of a model without attention to compare the first one with; null: there is none, or the first one has none itself. */
  plain: string | null;
  /** The name of a model with attention, if the first one has none; null: there is none. */
  attending: string | null;
  /** Whether the model to compare with is shown already. */
  isOtherShown: boolean;
  /** Whether the reader has a touch screen and no mouse, and so most likely no keyboard. */
  isTouch: boolean;
  /** What seqattn/report/content/verdict.py found; null in pages of earlier versions. */
  data: TourContent | null;
}

/** A button in the tour that makes a change in the explorer. */
export type TourAction = "uniform" | "next" | "attending";

export interface StepText {
  title: string;
  /** What the data of the page show, in one sentence or two: the answer to the title. */
  verdict?: string | undefined;
  /** What this is. Terms of the glossary are in brackets. */
  about: string;
  /** What to do; null: there is nothing to do. */
  task: string | null;
  /** How to do it with the keyboard. */
  keys?: string | undefined;
  action?: { name: string; act: TourAction } | undefined;
  /** What the data of the page show beyond the verdict, as sentences without terms. */
  conclusion?: string[] | undefined;
  /** Pairs of a sentence and a command, in a fold. */
  commands?: [label: string, command: string][] | undefined;
}

const CHOOSE = "Choose another forecast point: click a diamond, or move the slider Forecast point.";

const LOOK: Record<Facts["attention"], StepText> = {
  distribution: {
    title: "Where does it look?",
    about: "For each [forecast point], the model looks at the source again. This is [attention]. It gives each [source point] an [attention weight], and reads more from points with a larger weight. In the heatmap, each row is a forecast point and each column a source point; the brighter a cell, the larger the weight. In the picture of the sequence, the circle of a source point grows and brightens with its weight.",
    task: CHOOSE,
  },
  strength: {
    title: "Where does it look?",
    about: "This model does not choose among the source points. It adds what it reads to a memory, and each [forecast point] reads from this memory. The heatmap shows how strongly each forecast point reads what a source point wrote. These strengths may be negative, and they need not add up to 1, unlike an [attention weight].",
    task: CHOOSE,
  },
  none: {
    title: "Where does it look?",
    about: "Nowhere: this model has no [attention]. The [encoder] has to put the whole source into one list of numbers of fixed size, and the [decoder] forecasts from that list alone. A model with attention looks at every source point again for each [forecast point].",
    task: CHOOSE,
  },
};

const RECURRENT = " (In a recurrent model, what is read at a source point also contains traces of the points before it.)";

/** Return the step about the weights of the chosen forecast point. */
function look(facts: Facts): StepText {
  const { attention, isRecurrent, attending, data } = facts;
  const step = { ...LOOK[attention] };
  if (attention === "distribution" && isRecurrent) step.about += RECURRENT;
  if (attention !== "none") return step;
  if (attending === null) return { ...step, commands: data?.commands };
  return { ...step, about: `${step.about} The page also has ${attending}, which has attention:`, action: showFirst(attending) };
}

const showFirst = (attending: string): StepText["action"] => ({ name: `Show ${attending} instead`, act: "attending" });

const FORBID: StepText = {
  title: "Forbid it",
  about: "How much does this trained model depend on this look? To find out, make a forecast point look elsewhere. The model then computes this point and all later ones with the weights that you give. This shows how much this one model depends on the look, because it was trained with it. Whether attention is needed is the question of the last step.",
  task: "In the heatmap, click a cell that is not the brightest of its row: its forecast point now reads from that source point only. Or give all points equal weights:",
  keys: "With the keyboard: go to the heatmap with Tab, choose a cell with the arrow keys, and press Enter.",
  action: { name: "Equal weights everywhere", act: "uniform" },
};

const BEFORE: StepText = {
  title: "What was it before training?",
  about: "This page has the model at several times of its training. An [epoch] is one pass through all training sequences. Before the first one, the parameters of the model are random numbers.",
  task: "Move the slider of the epochs to the left, as far as it goes. Then move it slowly to the right.",
};

/** Return the last step of a page whose models all have attention, or all have none. */
function withoutOther({ attention, data }: Facts, verdict: string | undefined, rest: readonly string[]): StepText {
  const end = { verdict, task: null, conclusion: [data?.average ?? "", ...rest].filter((sentence) => sentence !== ""), commands: data?.commands };
  if (attention === "none") {
    return { ...end, title: "What would attention change?", about: "This page cannot tell: it has no model with [attention]. To find out, train a second model that differs in its attention only, and put both on one page." };
  }
  if (verdict !== undefined) return { ...end, title: "What do the test sequences show?", about: "The steps before show one sequence at a time. The sentence above is about all test sequences." };
  return { ...end, title: "Is attention needed?", about: "Whether a model needs its [attention] shows in a comparison with a model that has none: its [decoder] gets one list of numbers for the whole source, and never looks back." };
}

/** Return the last step, which compares a model with attention with one without. */
function compareModels(facts: Facts): StepText {
  const { plain, attending, isOtherShown, data } = facts;
  const [verdict, ...conclusion] = data?.conclusion ?? [];
  const other = plain ?? attending;
  if (other === null) return withoutOther(facts, verdict, conclusion);
  const count = "o through some sequences. This panel counts which forecast is closer to the truth:";
  const plainWords = `The model ${plain} has no [attention]: its [decoder] gets one list of numbers for the whole source, and never looks back.`;
  const attendingWords = `The model ${attending} has [attention]: for each [forecast point], it looks at all source points again.`;
  return {
    title: plain === null ? "Is the model with attention better?" : "Is the model without attention worse?", verdict,
    about: `${plain === null ? attendingWords : plainWords} Both models answer the same source.`,
    task: isOtherShown ? `G${count}` : `Choose ${other} under Compare with. Then g${count}`,
    action: { name: "Next sequence", act: "next" },
    conclusion, commands: data?.commands,
  };
}

/** Return the last step with the command that records the epochs that the page lacks. */
function withRecord({ hasEpochs, data }: Facts, step: StepText): StepText {
  return hasEpochs || !data ? step : { ...step, commands: [...(step.commands ?? []), ...data.record] };
}

/** What the steps of the tour are about, in their order. */
export const STEPS = ["move", "look", "forbid", "before", "compare"] as const;
export type StepName = (typeof STEPS)[number];

/** Return the steps of the tour: those whose task can be done on this page, and the conclusion. */
export function tourSteps(facts: Facts): (StepText & { step: StepName })[] {
  const circles = facts.isNumbered ? "numbered circles" : "circles";
  const source = facts.plane
    ? `The ${circles} in the picture are the source: the points that the model is given, in this order. The diamonds are its forecast: how it continues the path. The crosses are the truth: how the path really continues.`
    : `In the picture, time runs from left to right. The ${circles} are the source: the values that the model is given. The diamonds are its forecast: how it continues them. The crosses are the truth: how they really continue.`;
  const steps: (StepText & { step: StepName })[] = [
    {
      step: "move",
      title: "Move a source point",
      about: `${source} The model is inside this page, so it can answer any source.`,
      task: "Drag one of the circles to another place.",
      keys: "With the keyboard: go to a circle with Tab, and press the arrow keys.",
    },
    ...(facts.hasSteps ? [{ ...look(facts), step: "look" as const }] : []),
    ...(facts.canForce ? [{ ...FORBID, step: "forbid" as const }] : []),
    ...(facts.hasEpochs ? [{ ...BEFORE, step: "before" as const }] : []),
    { ...withRecord(facts, compareModels(facts)), step: "compare" },
  ];
  return facts.isTouch ? steps.map((step) => ({ ...step, keys: undefined })) : steps;
}

/** Changes of the forecast below this share of the range of the shown values are called little. */
const LITTLE = 0.05;

const moved = (one: readonly number[][], other: readonly number[][]): string => formatNumber(largestChange(one, other), 2);

const error = (forecast: readonly number[][], { state: { truth } }: Scene, scale: readonly number[]): number | null => meanSquaredError(forecast, truth, scale);

/** Return whether the scene shows a truth. */
const truthOf = ({ state: { truth } }: Scene): boolean => truth?.some((row) => row.some(Number.isFinite)) ?? false;

/** Return the indices of the numbers with the largest absolute value: one, or several equal ones. */
function indicesOfLargest(row: readonly number[]): number[] {
  const sizes = row.map((weight) => Math.abs(weight) || 0); // NaN counts as 0
  const largest = Math.max(...sizes);
  return sizes.flatMap((size, k) => (size === largest ? [k] : []));
}

/** Say what the first step shows. */
export function afterMove(scene: Scene, before: readonly number[][], { data }: Pick<Facts, "data"> = { data: null }): string {
  const { shown: [{ own: { forecast } }], state: { point } } = scene;
  const meaning = shareOfRange(scene, forecast, before) < LITTLE ? "That is little: try another point, or a larger move." : "So this point matters to the forecast.";
  const outside = data?.outside ? ` ${data.outside}` : "";
  const truth = truthOf(scene) ? "" : ` The crosses are gone, because nobody knows how a source that you made up really continues.${outside} Next starts again with the unchanged sequence.`;
  return `You moved source point ${point + 1}, and the forecast moved by up to ${moved(forecast, before)}. The model computed it again. ${meaning}${truth}`;
}

/** Say where the chosen step looks. */
export function afterLook(scene: Scene, { attention }: Facts): string {
  const { state, shown: [{ answer }], alignment, targetFeatures } = scene;
  const rows = weightsOf(answer, state.kind, state.layer, state.head);
  const row = rows[state.step] as number[] | undefined;
  const name = capitalize(pointNames(state).row(state.step));
  if (!row || attention === "none") {
    const values = targetFeatures.slice(0, 2).map((name, g) => `${name} ${formatValue(answer.forecast[state.step][g], 1)}`);
    return `${name} is ${values.join(", ")}. The model computed it from nothing but that one list of numbers and its own previous forecast points.`;
  }
  if (isForced(scene, state.step)) return `You forced the weights of ${pointNames(state).row(state.step)}, so they do not show where the model looks. The button Own weights again gives it its [own weights] back.`;
  const most = indicesOfLargest(row);
  const points = most.length > 1 ? `${most.length} source points` : `source point ${most[0] + 1}`;
  if (attention === "strength") return `${name} reads ${points} most strongly: ${most.map((k) => formatValue(row[k], 1)).join(", ")}.`;
  const share = shareText(row, row[most[0]]);
  const needed = state.kind === "cross" && alignment[state.step] >= 0 ? alignment[state.step] : null;
  const hint = needed === null ? "" : ` The truth depends on ${most.join() === String(needed) ? "that point" : `point ${needed + 1}`}: it has the orange frame.`;
  const forced = rows.some((_, step) => isForced(scene, step));
  const isEach = !forced && rows.length > 1 && rows.every(isUneven) && new Set(rows.flatMap(indicesOfLargest)).size === rows.flatMap(indicesOfLargest).length;
  const others = forced ? " You forced the weights of another forecast point, which may change these." : isEach ? " No two forecast points look most at the same source point." : "";
  return `${name} gives ${points} the largest weight, ${row[most[0]].toFixed(3)} of 1. ${share}${hint}${others}`;
}

/** Return whether the largest weight of a row is clearly above equal weights. */
const isUneven = (row: readonly number[]): boolean => row.length > 1 && Math.max(...row) > 1.2 / row.length;

/** Say how the weights of a row are spread. */
function shareText(row: readonly number[], largest: number): string {
  if (row.length === 1) return "There is no other source point.";
  if (largest > 0.9995) return "So it looks only there.";
  if (largest > 0.9) return "So it looks almost only there.";
  return isUneven(row) ? "It reads from other points, too, but less." : "So it looks everywhere almost alike.";
}

/** Forced weights that differ by less than this from the model's own change nothing. */
const ALIKE = 0.02;

/** Return whether the forced weights are almost those that the model gives anyway. */
function isAsBefore({ shown: [{ answer, own }] }: Scene): boolean {
  const [forced, free] = [answer, own].map(({ maps }) => maps.cross?.flat(2) ?? []);
  return free.length > 0 && largestChange(forced, free) < ALIKE;
}

/** Say what the forced weights change. */
export function afterForce(scene: Scene, { data }: Pick<Facts, "data"> = { data: null }): string {
  const { shown: [{ answer, own, scale }] } = scene;
  const [forced, free] = [error(answer.forecast, scene, scale), error(own.forecast, scene, scale)];
  const change = largestChange(answer.forecast, own.forecast);
  if (isAsBefore(scene) && shareOfRange(scene, answer.forecast, own.forecast) < LITTLE) return "The model gives almost the same weights without you, so the forecast stays where it is. Try another cell of the row.";
  const errors = forced === null || free === null ? "" : ` The [mean squared error] of this sequence goes from ${formatNumber(free, 2)} to ${formatNumber(forced, 2)}.`;
  const meaning = forced !== null && free !== null && forced > 2 * free ? " So this trained model depends on what it reads there." : shareOfRange(scene, answer.forecast, own.forecast) < LITTLE ? " So the forecast of this sequence hardly depends on this look. Try another row." : "";
  const average = data?.average ? ` One sequence may be an exception. ${data.average}` : "";
  return `The dashed line is the forecast with the model's [own weights]. With yours, it moves by up to ${formatNumber(change, 2)}.${errors}${meaning} A model without attention may still forecast as well: see the last step.${average}`;
}

/** Say what the model was at the chosen epoch.
 *
 * @param trained - The forecast of the model after its best epoch.
 * @param best - The best epoch.
 */
export function afterEpoch(scene: Scene, trained: readonly number[][], best: number): string {
  const { shown: [{ own: { forecast }, scale }], state: { subjects: [{ epoch }] } } = scene;
  const [then, now] = [error(forecast, scene, scale), error(trained, scene, scale)];
  const when = epoch === 0 ? "Before training" : `After epoch ${epoch}`;
  if (epoch === best) return `This is the trained model again, after epoch ${best}, which had the lowest validation loss.${now === null ? "" : ` The [mean squared error] of this sequence is ${formatNumber(now, 2)}.`}`;
  if (then === null || now === null) return `${when}, the forecast is up to ${moved(forecast, trained)} away from that of the trained model.`;
  return `${when}, the [mean squared error] of this sequence is ${formatNumber(then, 2)}; with the trained model (after epoch ${best}) it is ${formatNumber(now, 2)}.${epoch === 0 && then > now ? " All that the model can do, it has learned." : ""}`;
}

/** Return the indices of the shown models that are closest to the truth: one, or several with equal errors; none if the truth is unknown. */
export function closest(scene: Scene): number[] {
  const [{ scale }] = scene.shown; // one scale for all, so that the errors can be compared
  const losses = scene.shown.map(({ answer }) => error(answer.forecast, scene, scale) ?? NaN);
  const least = Math.min(...losses);
  return losses.flatMap((loss, k) => (loss === least ? [k] : []));
}

/** Say how the models compare.
 *
 * @param seen - The closest models of each sequence that the reader has seen.
 */
export function afterPlain(scene: Scene, seen: readonly (readonly number[])[] = []): string {
  const [{ name: firstName, scale }] = scene.shown;
  const units = hasOwnScales(scene.shown) ? ` (all in the scaled units of ${firstName})` : "";
  const best = closest(scene);
  if (best.length === 0) {
    const [first, second] = scene.shown;
    return `The two forecasts are up to ${moved(first.answer.forecast, second.answer.forecast)} apart. The truth of a changed source is unknown; choose a sequence again to see the errors.`;
  }
  const errors = scene.shown.map(({ name, answer }) => `${name} ${formatNumber(error(answer.forecast, scene, scale), 2)}`);
  const ties = seen.filter(({ length }) => length > 1).length;
  const counts = scene.shown.map(({ name }, k) => `${name} in ${seen.filter(({ length, 0: only }) => length === 1 && only === k).length}`);
  const score = seen.length > 1
    ? `Closest to the truth in the ${seen.length} sequences that you have seen: ${counts.join(", ")}${ties > 0 ? `; in ${ties}, equally close` : ""}.`
    : best.length > 1 ? `So ${best.map((k) => scene.shown[k].name).join(" and ")} are equally close to the truth here.` : `So ${scene.shown[best[0]].name} is closer to the truth here.`;
  return `[Mean squared error|mean squared error] of this sequence${units}: ${errors.join(", ")}. ${score}`;
}
