// What the explorer of points shares: the input as CSV, the forced weights, and the command.
import { byId } from "../dom";
import { command, GENERATED_FORM, INPUT_FILE, toCsv, toWeightsFile, WEIGHTS_FILE } from "./csv";
import type { InputForm } from "./content";
import type { LiveExplorer } from "./explorer";
import type { ForcedRow } from "./force";
import type { Shared } from "./share";

const LEGEND = "Circles: source points. Diamonds: forecast. Crosses: true continuation, if it is known. Dashed, without crosses: the forecast with the model's own weights.";

/** Say where the command reads less than the page shows. */
function describeLimit({ window }: InputForm, points: number): string {
  return window !== null && points > window ? ` Since the run was trained on windows of ${window} points, the command reads only the last ${window} of these ${points}, so its forecast is another one.` : "";
}

/** Return what the explorer of points shares. */
export function sharedPoints(explorer: LiveExplorer): Shared {
  const form = (): InputForm => explorer.first.input ?? GENERATED_FORM;
  const forced = (): ForcedRow[] => (explorer.canForce ? explorer.rowsFor(explorer.models[explorer.state.subjects[0].model]) : []);
  return {
    files: [
      { id: "live-save-csv", button: "Save input as CSV", name: INPUT_FILE, type: "text/csv", content: () => toCsv(form(), explorer.first.features, explorer.state.source), isEnabled: () => true },
      { id: "live-save-weights", button: "Save forced weights", name: WEIGHTS_FILE, type: "application/json", content: () => toWeightsFile(forced()), isEnabled: () => forced().length > 0 },
    ],
    command: (run) => {
      const [{ model, run: index, epoch }] = explorer.state.subjects;
      const { best_epoch: best } = explorer.models[model].content.runs[index];
      return command({ run, form: form(), epoch: epoch === best ? null : epoch, isForced: forced().length > 0 });
    },
    explain: () => {
      const { shown, state: { source } } = explorer.scene!;
      const of = shown.length > 1 ? ` of ${shown[0].name}` : "";
      const files = forced().length ? `${INPUT_FILE} and ${WEIGHTS_FILE} are the saved files` : `${INPUT_FILE} is the saved input`;
      return `This command gives the forecast${of} that is shown: ${files}.${describeLimit(form(), source.length)}`;
    },
    sourceName: () => {
      const { example, isChanged } = explorer.scene!.state;
      return example === null ? "a source of the user's own" : `sequence ${explorer.sequences.names[example]}${isChanged ? ", changed" : ""}`;
    },
    legend: LEGEND,
    picture: () => byId("live-path").querySelector("svg"),
  };
}
