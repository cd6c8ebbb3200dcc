"""Answer lines of text with the graphs in this folder. This script needs numpy and onnxruntime, but
not torch. It answers lines of UTF-8 text as `seqattn predict` does.

echo "9 march 2014" | python run.py
python run.py lines.txt --beam 5 --n-best 3 --scores
python run.py --example              runs example.npz and prints the differences from it
"""

import argparse
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # otherwise, ONNX Runtime uses the network

import onnxruntime

HERE = Path(__file__).parent
PAD, BEGIN, END, UNKNOWN = range(4)
WORD_BEGIN = "▁"
Arrays = dict[str, np.ndarray]
Answer = tuple[float, list[int]]
"""The score and the symbols of an answer. The last symbol is the end, unless the answer was cut
off."""


def read_json(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HERE / name).read_text(encoding="utf-8"))
    return content


class Vocabulary:
    """The symbols of one side, and how a text is split into them."""

    def __init__(self, name: str) -> None:
        known = read_json(name)
        self.unit, self.lowercase = known["unit"], known["lowercase"]
        self.symbols = known["symbols"]
        self.number_of = {symbol: k for k, symbol in enumerate(self.symbols) if k > UNKNOWN}

    def split(self, text: str) -> list[str]:
        text = unicodedata.normalize("NFC", text)
        text = text.lower() if self.lowercase else text
        if self.unit == "bpe":
            words = (WORD_BEGIN + word.replace(WORD_BEGIN, "\ufffd") for word in text.split())
            return [part for word in words for part in self.split_word(word)]
        return list(text) if self.unit == "character" else text.split()

    def split_word(self, word: str) -> list[str]:
        """Return the subwords of a word: of all neighbors that form a subword, those whose subword
        has the smallest number are joined, the leftmost first, until none is left."""
        parts = list(word)
        while True:
            joined = [a + b for a, b in pairwise(parts)]
            known = [(self.number_of[one], k) for k, one in enumerate(joined)
                     if one in self.number_of]  # fmt: skip
            if not known:
                return parts
            _, k = min(known)
            parts[k : k + 2] = [parts[k] + parts[k + 1]]

    def text(self, numbers: list[int]) -> str:
        symbols = [self.symbols[k] for k in numbers if k != END]
        if self.unit == "bpe":
            return " ".join(filter(None, "".join(symbols).split(WORD_BEGIN)))
        return ("" if self.unit == "character" else " ").join(symbols)


class OnnxGraph:
    """A graph of this folder, whose inputs and outputs have names."""

    def __init__(self, name: str) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(HERE / f"{name}.onnx"), options)

    def run(self, known: Arrays) -> Arrays:
        """Return the outputs, given all inputs and possibly more."""
        names = [output.name for output in self.session.get_outputs()]
        inputs = {one.name: known[one.name] for one in self.session.get_inputs()}
        return dict(zip(names, self.session.run(names, inputs), strict=True))


class Translator:
    """The model of this folder, which answers one line at a time."""

    def __init__(self) -> None:
        self.card = read_json("card.json")
        self.source, self.target = map(Vocabulary, self.card["vocabularies"])
        self.encoder, self.step = OnnxGraph("encoder"), OnnxGraph("step")

    def begin(self, symbols: list[str], rows: int) -> Arrays:
        """Return the inputs of the first step, in equal rows."""
        numbers = [[[self.source.number_of.get(one, UNKNOWN)] for one in symbols]] * rows
        source = np.array(numbers, dtype=np.int64)
        return self.encoder.run(
            {"source": source, "source_lengths": np.full(rows, len(symbols), dtype=np.int64)}
        )

    def advance(self, known: Arrays) -> tuple[np.ndarray, Arrays]:
        """Run a step. Return the log-probabilities (rows, symbols) of the next symbol, and the
        inputs of the next step."""
        found = self.step.run(known)
        logits = found["logits"].astype(np.float64)
        logits[:, [PAD, BEGIN]] = -np.inf  # these two are never written
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        after = {name: found[f"next_{name}"] for name in ("point", *self.card["state"])}
        return log_probs, {**known, **after}

    def greedy(self, symbols: list[str], steps: int) -> list[Answer]:
        """Write the most probable symbol at each step. The score is the log-probability."""
        known, total, written = self.begin(symbols, 1), 0.0, list[int]()
        while len(written) < steps and END not in written:
            log_probs, known = self.advance(known)
            written.append(int(known["point"][0, 0]))
            total += log_probs[0, written[-1]]
        return [(total, written)]

    def beam_search(
        self, symbols: list[str], steps: int, beam: int, n_best: int, penalty: float
    ) -> list[Answer]:
        """Keep the most probable beginnings. The score is the log-probability, divided by ((5 +
        length) / 6) ** penalty (Wu et al. 2016, "Google's Neural Machine Translation System", eq.
        14)."""
        known, ended = self.begin(symbols, beam), list[Answer]()
        active: list[Answer] = [(-np.inf if row else 0.0, []) for row in range(beam)]  # begin alike
        for t in range(steps):
            log_probs, known = self.advance(known)
            # Each row has one continuation that ends, so half of the candidates do not.
            found = continue_answers(active, log_probs, 2 * beam)
            stopped = [answer for _, answer in found if answer[1][-1] == END]
            ended = best_answers(ended + divide(stopped, t + 1, penalty), n_best)
            unended = [one for one in found if one[1][1][-1] != END][:beam]
            active = [answer for _, answer in unended]
            # A log-probability never rises, and the longest answer has the largest divisor.
            ((bound, _),) = divide(active[:1], steps, penalty)
            if len(ended) == n_best and ended[-1][0] >= bound:
                return ended
            kept = [row for row, _ in unended]
            known |= {name: known[name][kept] for name in self.card["state"]}
            known["point"] = np.array([[written[-1]] for _, written in active], dtype=np.int64)
        return (ended + best_answers(divide(active, steps, penalty), n_best))[:n_best]


def continue_answers(
    active: list[Answer], log_probs: np.ndarray, count: int
) -> list[tuple[int, Answer]]:
    """Return the most probable continuations by one symbol, with the row of each."""
    total = np.array([score for score, _ in active])[:, None] + log_probs
    best = np.argsort(-total, axis=None, kind="stable")[:count]
    rows, chosen = np.unravel_index(best, total.shape)
    return [
        (row, (float(total[row, symbol]), [*active[row][1], int(symbol)]))
        for row, symbol in zip(rows, chosen, strict=True)
    ]


def divide(answers: list[Answer], length: int, penalty: float) -> list[Answer]:
    """Divide the log-probabilities of answers, so that long answers can compete with short ones."""
    divisor = ((5 + length) / 6) ** penalty
    return [(score / divisor, written) for score, written in answers]


def best_answers(answers: list[Answer], count: int) -> list[Answer]:
    possible = [answer for answer in answers if np.isfinite(answer[0])]
    return sorted(possible, key=lambda answer: -answer[0])[:count]


def compare_example() -> Iterator[str]:
    """Yield the difference of each output from the example, over the steps up to the end."""
    example = np.load(HERE / "example.npz")
    lengths = (example["source"] != PAD).sum(axis=(1, 2))
    found = OnnxGraph("free_running").run({"source": example["source"], "source_lengths": lengths})
    valid = example["forecast"][..., 0] != PAD
    for name, result in found.items():
        if name in ("forecast", "logits"):
            difference = np.abs(result - example[name])[valid].max()
        elif name == "encoder_self":
            difference = np.abs(result - example[name]).max()
        else:  # (N, layers, heads, T, columns)
            difference = np.abs(result - example[name]).transpose(0, 3, 1, 2, 4)[valid].max()
        yield f"{name}: {result.shape}, {difference:.1e} from the example"


def answer_lines(lines: Iterable[str], options: argparse.Namespace) -> Iterator[str]:
    """Yield one answer for each line, or several with the number of the line."""
    model = Translator()
    steps = options.steps or model.card["longest_output"]
    for number, line in enumerate(lines, 1):
        symbols = model.source.split(line.rstrip("\r\n"))
        if not symbols:
            sys.exit(f"line {number}: is empty. Leave empty lines out.")
        unknown = dict.fromkeys(one for one in symbols if one not in model.source.number_of)
        if unknown:
            shown = ", ".join(map(repr, unknown))
            print(f"line {number}: unknown to the model: {shown}.", file=sys.stderr)
        if options.beam == 1:
            answers = model.greedy(symbols, steps)
        else:
            answers = model.beam_search(
                symbols, steps, options.beam, options.n_best, options.length_penalty
            )
        for score, written in answers:
            columns = [str(number)] if options.n_best > 1 else []
            columns += [f"{score:.4f}"] if options.scores else []
            yield "\t".join([*columns, model.target.text(written)])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="lines of text; by default, standard input")
    parser.add_argument("--beam", type=int, default=1, metavar="B", help="beams; 1: greedy")
    parser.add_argument("--length-penalty", type=float, default=0.6, metavar="A")
    parser.add_argument("--n-best", type=int, default=1, metavar="M", help="answers of each line")
    parser.add_argument("--scores", action="store_true", help="write the score of each answer")
    parser.add_argument("--steps", type=int, metavar="T", help="largest number of symbols")
    parser.add_argument("--example", action="store_true", help="run example.npz")
    options = parser.parse_args()
    if options.steps is not None and options.steps < 1:
        parser.error(f"--steps {options.steps}: expected 1 or more.")
    if not 1 <= options.n_best <= options.beam:
        parser.error("--n-best M: needs --beam M or more")
    return options


def source_lines(name: str | None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, or of standard input."""
    with Path(name).open("rb") if name else sys.stdin.buffer as lines:
        for number, line in enumerate(lines):
            yield line.decode("utf-8" if number else "utf-8-sig")


if __name__ == "__main__":
    options = parse_options()
    for result in (
        compare_example() if options.example else answer_lines(source_lines(options.file), options)
    ):
        sys.stdout.buffer.write(f"{result}\n".encode())
        sys.stdout.flush()
