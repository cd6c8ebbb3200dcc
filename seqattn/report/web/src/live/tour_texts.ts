// The words of the tour, for the models and data of a page.
import { formatNumber, formatValue } from "../format";
import { largestChange, meanSquaredError } from "./loss";
import type { Scene } from "./scene";
import { hasOwnScales, shareOfRange, weightsOf } from "./scene";

/** What the page has, which decides the words. */
export interface Facts {
  /** Whether the path is drawn in a plane, so that points look like corners. */
  plane: boolean;
  /** none: the model has no attention; strength: fast weights. */
  attention: "none" | "distribution" | "strength";
  /** Whether weights can be forced. */
  canForce: boolean;
  /** Whether the page has the parameters of several epochs. */
  hasEpochs: boolean;
  /** The name of a model without attention to compare with; null: the page has none. */
  plain: string | null;
  /** Whether it is shown already. */
  isPlainShown: boolean;
}

export interface StepText {
  title: string;
  /** What this is. Terms of the glossary are in brackets. */
  about: string;
  /** What to do; null: there is nothing to do. */
  task: string | null;
  /** A command that makes what is missing. */
  command?: string;
}

const LOOK: Record<Facts["attention"], StepText> = {
  distribution: {
    title: "Where does it look?",
    about: "Before each step of the forecast, the model looks at the source again. This is [attention]. It gives each source point an [attention weight], and reads more from points with a larger weight. In the heatmap, each row is a forecast step and each column a source point; a bright cell is a large weight. In the picture of the sequence, a source point with a large weight is a large bright circle.",
    task: "Choose another forecast step: move the Step slider, or point at a diamond.",
  },
  strength: {
    title: "Where does it look?",
    about: "This model does not choose among the source points. It adds what it reads to a memory, and each forecast step reads from this memory. The heatmap shows how strongly each step reads what a source point wrote. These strengths may be negative, and they need not add up to 1, unlike an [attention weight].",
    task: "Choose another forecast step: move the Step slider, or point at a diamond.",
  },
  none: {
    title: "Where does it look?",
    about: "Nowhere: this model has no [attention]. The [encoder] has to put the whole source into one list of numbers of fixed size, and the [decoder] forecasts from that list alone. A model with attention looks at every source point again before each forecast step.",
    task: "Choose another forecast step: move the Step slider, or point at a diamond.",
  },
};

const CANNOT_FORBID: Record<"strength" | "none", string> = {
  strength: "In a model with attention you could now forbid this look, and see what the forecast loses. Here it is impossible: the strengths follow from the memory, so there are no weights to replace.",
  none: "In a model with attention you could now forbid a look at a point, and see what the forecast loses. This model does not look, so there is nothing to forbid.",
};

function forbid({ attention, canForce }: Facts): StepText {
  if (!canForce) return { title: "Forbid it", about: CANNOT_FORBID[attention === "none" ? "none" : "strength"], task: null };
  return {
    title: "Forbid it",
    about: "Does the forecast need this look, or is it a habit? To find out, force the chosen step to look elsewhere. The model then computes this step and all later ones with the weights that you give.",
    task: "In the heatmap, click a dark cell: its step now reads from that source point only. With the keyboard: go to the heatmap with Tab, choose a cell with the arrow keys, and press Enter.",
  };
}

function before({ hasEpochs }: Facts): StepText {
  const title = "What was it before training?";
  if (hasEpochs) {
    return {
      title,
      about: "This page has the model at several times of its training. An [epoch] is one pass through all training sequences. Before the first one, the parameters of the model are random numbers.",
      task: "Move the epoch slider to the left, as far as it goes. Then move it slowly to the right.",
    };
  }
  return {
    title,
    about: "This page has the trained model only. If you record the training, a slider appears here, and the model answers as it would have after each recorded [epoch]. At first it answers at random: the forecast goes nowhere in particular, and no source point stands out.",
    task: null,
    command: "seqattn train CONFIG --set training.record_attention=5",
  };
}

function plainModel({ plain, isPlainShown, attention }: Facts): StepText {
  const title = "What does the plain model do?";
  if (attention === "none") {
    return {
      title, about: "You have seen it: this is the plain model, without [attention]. To see what attention changes, train a second model with it and put both on one page.",
      task: null, command: "seqattn report RUN_WITH_ATTENTION RUN_WITHOUT --output both.html",
    };
  }
  if (plain === null) {
    return {
      title, about: "To see what [attention] is worth, compare it with a model that has none: its [decoder] gets one list of numbers for the whole source, and never looks back. Train one, and put both on one page. Or use seqattn compare, which trains several models with several seeds.",
      task: null, command: "seqattn train CONFIG --set model.attention=null --name plain; seqattn report RUN_A RUN_B --output both.html",
    };
  }
  return {
    title, about: `The model ${plain} has no [attention]: its [decoder] gets one list of numbers for the whole source, and never looks back. Both models answer the same source.`,
    task: isPlainShown ? "Move a source point, and see which forecast goes wrong first." : `Choose ${plain} under Compare with. Then move a source point, and see which forecast goes wrong first.`,
  };
}

/** Return the five steps of the tour. */
export function tourSteps(facts: Facts): StepText[] {
  const source = facts.plane
    ? "The numbered circles in the picture are the source: the points that the model is given, in this order. The diamonds are its forecast: how it continues the path. Crosses, if there are any, are the true continuation."
    : "In the picture, time runs from left to right. The numbered circles are the source: the values that the model is given. The diamonds are its forecast: how it continues them. Crosses, if there are any, are the true continuation.";
  const corner = facts.plane ? "corner" : "point";
  return [
    {
      title: `Move a ${corner}`,
      about: `${source} The model is inside this page, so it can answer any source.`,
      task: `Drag one of the circles${facts.plane ? ", a corner of the path," : ""} to another place. With the keyboard: go to a circle with Tab, and press the arrow keys.`,
    },
    LOOK[facts.attention], forbid(facts), before(facts), plainModel(facts),
  ];
}

/** Changes of the forecast below this share of the range of the shown values are called little. */
const LITTLE = 0.05;

const moved = (one: readonly number[][], other: readonly number[][]): string => formatNumber(largestChange(one, other), 2);

const error = (forecast: readonly number[][], { state: { truth } }: Scene, scale: readonly number[]): number | null => meanSquaredError(forecast, truth, scale);

/** Say what the first step shows. */
export function afterMove(scene: Scene, before: readonly number[][]): string {
  const { shown: [{ own: { forecast } }], state: { point } } = scene;
  return `You moved source point ${point + 1}, and the forecast moved by up to ${moved(forecast, before)}. The model computed every step again. ${shareOfRange(scene, forecast, before) < LITTLE ? "That is little: try another point, or a larger move." : "So this point matters to the forecast."}`;
}

/** Say where the chosen step looks. */
export function afterLook(scene: Scene, { attention }: Facts): string {
  const { state, shown: [{ answer }], alignment, targetFeatures } = scene;
  const row = weightsOf(answer, state.kind, state.layer, state.head)[state.step] as number[] | undefined;
  if (!row || attention === "none") {
    const values = targetFeatures.slice(0, 2).map((name, g) => `${name} ${formatValue(answer.forecast[state.step][g], 1)}`);
    return `Step ${state.step + 1} forecasts ${values.join(", ")}. It has seen nothing but that one list of numbers and its own previous steps.`;
  }
  const largest = row.reduce((best, weight, k) => (Math.abs(weight) > Math.abs(row[best]) ? k : best), 0);
  const strongest = formatValue(row[largest], 1);
  if (attention === "strength") return `Step ${state.step + 1} reads source point ${largest + 1} most strongly: ${strongest}.`;
  const share = row[largest] > 0.8 ? "So it looks almost only there." : row[largest] > 1.5 / row.length ? "It reads the others, too, but less." : "So it looks everywhere almost alike.";
  const needed = state.kind === "cross" && alignment[state.step] >= 0 ? alignment[state.step] : null;
  const hint = needed === null ? "" : needed === largest ? ` That is the point it needs: the one with the orange frame.` : ` The point it needs is point ${needed + 1}, the one with the orange frame.`;
  return `Step ${state.step + 1} gives source point ${largest + 1} the largest weight, ${strongest} of 1. ${share}${hint}`;
}

/** Say what the forced weights change. */
export function afterForce(scene: Scene): string {
  const { shown: [{ answer, own, scale }] } = scene;
  const [forced, free] = [error(answer.forecast, scene, scale), error(own.forecast, scene, scale)];
  const change = largestChange(answer.forecast, own.forecast);
  const errors = forced === null || free === null ? "" : ` The [mean squared error] goes from ${formatNumber(free, 2)} to ${formatNumber(forced, 2)}.`;
  const meaning = forced !== null && free !== null && forced > 2 * free ? " So the model needs what it read there." : shareOfRange(scene, answer.forecast, own.forecast) < LITTLE ? " So this look does not matter much here. Try another row." : "";
  return `The dashed line is the forecast with the model's own weights. With yours, it moves by up to ${formatNumber(change, 2)}.${errors}${meaning}`;
}

/** Say what the model was at the chosen epoch. */
export function afterEpoch(scene: Scene, today: readonly number[][]): string {
  const { shown: [{ own: { forecast }, scale }], state: { subjects: [{ epoch }] } } = scene;
  const [then, now] = [error(forecast, scene, scale), error(today, scene, scale)];
  const when = epoch === 0 ? "Before training" : `After epoch ${epoch}`;
  if (then === null || now === null) return `${when}, the forecast was up to ${moved(forecast, today)} away from that of the trained model.`;
  return `${when}, the [mean squared error] on this sequence was ${formatNumber(then, 2)}; now it is ${formatNumber(now, 2)}. ${epoch === 0 && then > now ? "All that the model can do, it has learned." : ""}`.trim();
}

/** Say how the models compare. */
export function afterPlain(scene: Scene): string {
  const [{ name: firstName, scale }] = scene.shown; // one scale for all, so that the errors can be compared
  const units = hasOwnScales(scene.shown) ? ` (all in the scaled units of ${firstName})` : "";
  const errors = scene.shown.map(({ name, answer }) => ({ name, loss: error(answer.forecast, scene, scale) }));
  if (errors.every(({ loss }) => loss !== null)) {
    const best = errors.reduce((least, each) => (each.loss! < least.loss! ? each : least));
    return `[Mean squared error|mean squared error] on this sequence${units}: ${errors.map(({ name, loss }) => `${name} ${formatNumber(loss, 2)}`).join(", ")}. So ${best.name} is closer to the truth here. Other sequences may differ: try some.`;
  }
  const [first, second] = scene.shown;
  return `The two forecasts are up to ${moved(first.answer.forecast, second.answer.forecast)} apart. The truth of a changed source is unknown; choose a sequence again to see the errors.`;
}
