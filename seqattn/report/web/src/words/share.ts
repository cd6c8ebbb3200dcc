// What the explorer of symbols shares: the command that repeats an output.
import { byId } from "../dom";
import { quote } from "../live/csv";
import type { Shared } from "../live/share";
import type { WordExplorer } from "./explorer";

/** Quote a text for a POSIX shell. */
const quoteText = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Return what the explorer of symbols shares. */
export function sharedWords(explorer: WordExplorer): Shared {
  return {
    files: [],
    command: (run) => {
      const { state, models } = explorer;
      const [{ model, run: index, epoch }] = state.subjects;
      const { source, content: { runs } } = models[model];
      const words = ["seqattn", "predict", run];
      if (state.beam > 1) words.push("--beam", String(state.beam));
      if (epoch !== runs[index].best_epoch) words.push("--epoch", String(epoch));
      return `printf '%s\\n' ${quoteText(source.write(state.source))} | ${words.map(quote).join(" ")}`;
    },
    explain: () => {
      const { state: { given, force }, scene } = explorer;
      const of = scene!.shown.length > 1 ? ` of ${scene!.shown[0].name}` : "";
      const yours = [...(given.length ? ["the symbols that you chose"] : []), ...(force.size ? ["the weights that you forced"] : [])];
      return `This command prints the output${of}${yours.length ? `, without ${yours.join(" and ")}` : " that is shown"}.`;
    },
    sourceName: () => {
      const { example, isChanged } = explorer.scene!.state;
      return example === null || isChanged ? "a source of the user's own" : `sequence ${explorer.page.examples.ids[example]}`;
    },
    legend: "Orange frames: known links, dashed where they are only possible.",
    picture: () => (explorer.state.picture === "lines" ? byId("live-lines").querySelector("svg") : null),
  };
}
