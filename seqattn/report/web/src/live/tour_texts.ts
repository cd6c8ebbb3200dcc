// The words of the tour, for the models and data of a page.
import { capitalize, formatNumber, formatValue } from "../format";
import type { TourContent } from "./content";
import { largestChange, meanSquaredError } from "./loss";
import type { Scene } from "./scene";
import { hasOwnScales, pointNames, shareOfRange, weightsOf } from "./scene";

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
  /** The name of a model without attention to compare with; null: the page has none. */
  plain: string | null;
  /** Whether it is shown already. */
  isPlainShown: boolean;
  /** Whether the reader has a touch screen and no mouse, and so most likely no keyboard. */
  isTouch: boolean;
  /** What seqattn/report/content/verdict.py found; null in pages of earlier versions. */
  data: TourContent | null;
}

/** A button in the tour that makes a change in the explorer. */
export type TourAction = "uniform" | "next";

export interface StepText {
  title: string;
  /** What this is. Terms of the glossary are in brackets. */
  about: string;
  /** What to do; null: there is nothing to do. */
  task: string | null;
  /** How to do it with the keyboard. */
  keys?: string | undefined;
  action?: { name: string; act: TourAction };
  /** What the data of the page show, as sentences without terms. */
  conclusion?: string[] | undefined;
  /** Pairs of a sentence and a command, in a fold. */
  commands?: [label: string, command: string][] | undefined;
}

const CHOOSE = "Choose another forecast point: click a diamond, or move the slider Forecast point.";

const LOOK: Record<Facts["attention"], StepText> = {
  distribution: {
    title: "Where does it look?",
    about: "For each [forecast point], the model looks at the source again. This is [attention]. It gives each [source point] an [attention weight], and reads more from points with a larger weight. In the heatmap, each row is a forecast point and each column a source point; a bright cell is a large weight. In the picture of the sequence, a source point with a large weight is a large bright circle.",
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

const CANNOT_FORBID: Record<"strength" | "none", string> = {
  strength: "In a model with attention you could now forbid this look, and see what the forecast loses. Here it is impossible: the strengths follow from the memory, so there are no weights to replace.",
  none: "In a model with attention you could now forbid a look at a point, and see what the forecast loses. This model does not look, so there is nothing to forbid.",
};

function forbid({ attention, canForce }: Facts): StepText {
  if (!canForce) return { title: "Forbid it", about: CANNOT_FORBID[attention === "none" ? "none" : "strength"], task: null };
  return {
    title: "Forbid it",
    about: "Does the forecast need this look, or is it a habit? To find out, make a forecast point look elsewhere. The model then computes this point and all later ones with the weights that you give.",
    task: "In the heatmap, click a dark cell: its forecast point now reads from that source point only. Or give all points equal weights:",
    keys: "With the keyboard: go to the heatmap with Tab, choose a cell with the arrow keys, and press Enter.",
    action: { name: "Equal weights everywhere", act: "uniform" },
  };
}

function before({ hasEpochs, data }: Facts): StepText {
  const title = "What was it before training?";
  if (hasEpochs) {
    return {
      title,
      about: "This page has the model at several times of its training. An [epoch] is one pass through all training sequences. Before the first one, the parameters of the model are random numbers.",
      task: "Move the slider of the epochs to the left, as far as it goes. Then move it slowly to the right.",
    };
  }
  return {
    title,
    about: "This page has the trained model only. If you record the training, a slider appears here, and the model answers as it would have after each recorded [epoch]. At first it answers at random: the forecast goes nowhere in particular, and no source point stands out.",
    task: null,
    commands: data?.record,
  };
}

function plainModel({ plain, isPlainShown, attention, data }: Facts): StepText {
  const [conclusion, commands] = [data?.conclusion, data?.commands];
  if (attention === "none") {
    return {
      title: "What does the plain model do?",
      about: "You have seen it: this is the plain model, without [attention]. To see what attention changes, train a second model with it and put both on one page.",
      task: null, conclusion, commands,
    };
  }
  if (plain === null) {
    return {
      title: "Does it need its attention?",
      about: conclusion?.length
        ? "You have changed the weights of one sequence. Here is the answer over the test sequences:"
        : "Whether a model needs its [attention] shows in a comparison with a model that has none: its [decoder] gets one list of numbers for the whole source, and never looks back.",
      task: null, conclusion: data ? [data.average, ...data.conclusion].filter((sentence) => sentence !== "") : [], commands,
    };
  }
  return {
    title: "What does the plain model do?", about: `The model ${plain} has no [attention]: its [decoder] gets one list of numbers for the whole source, and never looks back. Both models answer the same source.`,
    task: isPlainShown ? "Go through some sequences. This panel counts which forecast is closer to the truth:" : `Choose ${plain} under Compare with. Then go through some sequences. This panel counts which forecast is closer to the truth:`,
    action: { name: "Next sequence", act: "next" },
    conclusion, commands,
  };
}

/** Return the five steps of the tour. */
export function tourSteps(facts: Facts): StepText[] {
  const source = facts.plane
    ? "The numbered circles in the picture are the source: the points that the model is given, in this order. The diamonds are its forecast: how it continues the path. The crosses are the truth: how the path really continues."
    : "In the picture, time runs from left to right. The numbered circles are the source: the values that the model is given. The diamonds are its forecast: how it continues them. The crosses are the truth: how they really continue.";
  const look = { ...LOOK[facts.attention] };
  if (facts.attention === "distribution" && facts.isRecurrent) look.about += RECURRENT;
  const steps: StepText[] = [
    {
      title: "Move a source point",
      about: `${source} The model is inside this page, so it can answer any source.`,
      task: "Drag one of the circles to another place.",
      keys: "With the keyboard: go to a circle with Tab, and press the arrow keys.",
    },
    look, forbid(facts), before(facts), plainModel(facts),
  ];
  return facts.isTouch ? steps.map((step) => ({ ...step, keys: undefined })) : steps;
}

/** Changes of the forecast below this share of the range of the shown values are called little. */
const LITTLE = 0.05;

const moved = (one: readonly number[][], other: readonly number[][]): string => formatNumber(largestChange(one, other), 2);

const error = (forecast: readonly number[][], { state: { truth } }: Scene, scale: readonly number[]): number | null => meanSquaredError(forecast, truth, scale);

/** Return whether the scene shows a truth. */
const truthOf = ({ state: { truth } }: Scene): boolean => truth?.some((row) => row.some(Number.isFinite)) ?? false;

const indexOfLargest = (row: readonly number[]): number => row.reduce((best, weight, k) => (Math.abs(weight) > Math.abs(row[best]) ? k : best), 0);

/** Say what the first step shows. */
export function afterMove(scene: Scene, before: readonly number[][]): string {
  const { shown: [{ own: { forecast } }], state: { point } } = scene;
  const meaning = shareOfRange(scene, forecast, before) < LITTLE ? "That is little: try another point, or a larger move." : "So this point matters to the forecast.";
  const truth = truthOf(scene) ? "" : " The crosses are gone, because nobody knows how a source that you made up really continues. Next starts again with the unchanged sequence.";
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
  const largest = indexOfLargest(row);
  const strongest = formatValue(row[largest], 1);
  if (attention === "strength") return `${name} reads source point ${largest + 1} most strongly: ${strongest}.`;
  const share = row[largest] > 0.9 ? "So it looks almost only there." : row[largest] > 1.5 / row.length ? "It reads the others, too, but less." : "So it looks everywhere almost alike.";
  const needed = state.kind === "cross" && alignment[state.step] >= 0 ? alignment[state.step] : null;
  const hint = needed === null ? "" : needed === largest ? ` That is the point it needs: the one with the orange frame.` : ` The point it needs is point ${needed + 1}, the one with the orange frame.`;
  const isEach = rows.length > 1 && new Set(rows.map(indexOfLargest)).size === rows.length;
  return `${name} gives source point ${largest + 1} the largest weight, ${strongest} of 1. ${share}${hint}${isEach ? " Each forecast point looks most at another source point." : ""}`;
}

/** Say what the forced weights change. */
export function afterForce(scene: Scene, { data }: Pick<Facts, "data"> = { data: null }): string {
  const { shown: [{ answer, own, scale }] } = scene;
  const [forced, free] = [error(answer.forecast, scene, scale), error(own.forecast, scene, scale)];
  const change = largestChange(answer.forecast, own.forecast);
  const errors = forced === null || free === null ? "" : ` The [mean squared error] of this sequence goes from ${formatNumber(free, 2)} to ${formatNumber(forced, 2)}.`;
  const meaning = forced !== null && free !== null && forced > 2 * free ? " So the model needs what it read there." : shareOfRange(scene, answer.forecast, own.forecast) < LITTLE ? " So this look does not matter much here. Try another row." : "";
  const average = data?.average ? ` One sequence may be an exception. ${data.average}` : "";
  return `The dashed line is the forecast with the model's own weights. With yours, it moves by up to ${formatNumber(change, 2)}.${errors}${meaning}${average}`;
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

/** Return the index of the shown model that is closest to the truth; null if the truth is unknown. */
export function closest(scene: Scene): number | null {
  const [{ scale }] = scene.shown; // one scale for all, so that the errors can be compared
  const losses = scene.shown.map(({ answer }) => error(answer.forecast, scene, scale));
  return losses.some((loss) => loss === null) ? null : indexOfLargest(losses.map((loss) => 1 / (loss! + 1e-300)));
}

/** Say how the models compare.
 *
 * @param counts - In how many sequences each shown model was closest to the truth.
 */
export function afterPlain(scene: Scene, counts: readonly number[] = []): string {
  const [{ name: firstName, scale }] = scene.shown;
  const units = hasOwnScales(scene.shown) ? ` (all in the scaled units of ${firstName})` : "";
  const best = closest(scene);
  if (best === null) {
    const [first, second] = scene.shown;
    return `The two forecasts are up to ${moved(first.answer.forecast, second.answer.forecast)} apart. The truth of a changed source is unknown; choose a sequence again to see the errors.`;
  }
  const errors = scene.shown.map(({ name, answer }) => `${name} ${formatNumber(error(answer.forecast, scene, scale), 2)}`);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const score = total > 1
    ? `Closest to the truth in the ${total} sequences that you have seen: ${scene.shown.map(({ name }, k) => `${name} in ${counts[k]}`).join(", ")}.`
    : `So ${scene.shown[best].name} is closer to the truth here.`;
  return `[Mean squared error|mean squared error] of this sequence${units}: ${errors.join(", ")}. ${score}`;
}
