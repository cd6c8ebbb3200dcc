"""Small runs of symbols, and what Python computes for their sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.analysis.evaluation.load_run import open_run
from seqattn.analysis.evaluation.texts import longest_output
from seqattn.data.tokens import BEGIN, PAD
from seqattn.models import ModelOutput
from seqattn.models.attention import ForcedWeights
from seqattn.models.decoding import force
from seqattn.training import LoadedModel
from tests.browser.live_runs import LiveRuns

SMALL = ["training.epochs=2", "training.record_attention=1", "data.n_validation=16",
         "data.n_test=16"]  # fmt: skip
REVERSE = [*SMALL, "data.kind=reverse", "data.symbols=8", "data.length=6", "data.min_length=3",
           "data.n_train=96"]  # fmt: skip
NARROW = [*REVERSE, "model.hidden_dim=6"]
FORCING = "training.teacher_forcing.probability=1"
HOSTILE = [
    "<img/src=x/onerror=alert(1)>",
    "\u05e9\u05dc\u05d5\u05dd",  # Hebrew
    "\N{RIGHT-TO-LEFT OVERRIDE}drawkcab",
    "q\N{COMBINING TILDE OVERLAY}\N{COMBINING ACUTE ACCENT}" * 3,
    "w" * 200,
    "</script>",
    "&amp;",
    "'`$(touch${IFS}gone)",
]
"""Symbols that are dangerous or difficult to show."""
WORD_RUNS = {
    "additive": [*NARROW, "model.attention.score=additive"],
    "dot": [*NARROW, "model.attention.score=dot", "model.bidirectional=true",
            "model.embedding={dim: 6, tied: true}"],
    "scaled_dot": [*NARROW, "model.attention.score=scaled_dot", "model.cell=lstm"],
    "general": [*NARROW, "model.attention.score=general", "model.context=input"],
    "location": [*NARROW, "model.attention={score: dot, location: {kind: location_shift}}"],
    "heads": [*NARROW, "model.layers=2", "model.readout=tanh",
              "model.attention={score: scaled_dot, heads: 2, project_values: true}"],
    "fast_weights": [*NARROW, "model.kind=fast_weights"],
    "transformer": [*REVERSE, "model.kind=transformer", "model.model_dim=8", "model.heads=2",
                    "model.layers=2", "model.feedforward_dim=8", FORCING],
    "dates": [*SMALL, "data.kind=dates", "data.n_train=300", "model.hidden_dim=16",
              "training.learning_rate=0.02", "training.batch_size=10", FORCING],
    "hostile": [*SMALL[:2], "data.kind=text", "model.hidden_dim=6"],
}  # fmt: skip
TOGETHER = [name for name in WORD_RUNS if name not in ("dates", "hostile")]
"""The models of one page."""


class WordRuns(LiveRuns):
    """The runs of WORD_RUNS."""

    def write_table(self, name: str) -> Path:
        """Write pairs of hostile texts, and return their file."""
        rng = np.random.default_rng(0)
        file = self.home / f"{name}.tsv"
        lines = list[str]()
        for _ in range(80):
            words = [HOSTILE[k] for k in rng.integers(len(HOSTILE), size=4)]
            lines.append(" ".join(words) + "\t" + " ".join(words[::-1]) + "\n")
        file.write_text("".join(lines))
        return file


class Expected(NamedTuple):
    """What a model writes for one source.

    Attributes:
        symbols: (T,).
        logits: (T, V).
        maps: kind -> weights (layers, heads, T, S).
    """

    symbols: list[int]
    logits: NDArray[np.float64]
    maps: dict[str, NDArray[np.float64]]


@cache
def load_words(path: Path, epoch: int | None = None) -> LoadedModel:
    """Return the model of a run at an epoch; None for its best epoch."""
    best = open_run(path)[1]
    return best if epoch in (None, best.epoch) else open_run(path, epoch)[1]


def source_of(trained: LoadedModel, text: str) -> Tensor:
    """Return a text as a source (1, S, 1)."""
    tokens, _ = trained.spec.tokens
    return torch.from_numpy(tokens.numbers(tokens.split(text), ends=False)).view(1, -1, 1)


def write(trained: LoadedModel, text: str, rows: list[dict[str, Any]] | None = None) -> Expected:
    """Return the greedy output of a model, with forced weights if there are `rows`."""
    source, steps = source_of(trained, text), longest_output(trained)
    override = None
    if rows:
        layers, heads = trained.model.attention_shape()
        forced = torch.full((1, layers, heads, steps, source.shape[1]), torch.nan)
        for row in rows:
            place = row.get("layer", 0), row.get("head", 0), row["step"] - 1
            forced[0, place[0], place[1], place[2]] = torch.tensor(row["weights"])
        override = ForcedWeights(forced)
    with torch.inference_mode():
        output = trained.model.forecast(source, steps, override=override)
        symbols = trained.model.target_modality.read(output.values)[0, :, 0].tolist()
    return expected(symbols, output)


def read(trained: LoadedModel, text: str, symbols: list[int]) -> Expected:
    """Return what a model computes while its decoder reads given symbols."""
    with torch.inference_mode():
        output = force(trained.model, source_of(trained, text), None,
                       torch.tensor(symbols).view(1, -1, 1))  # fmt: skip
    return expected(symbols, output)


def expected(symbols: list[int], output: ModelOutput) -> Expected:
    logits = output.values[0, :, 0] if output.values.ndim == 4 else output.values[0]
    maps = dict[str, Any]()
    for one in output.attention:
        maps.setdefault(one.kind, []).append(one.weights[0].numpy())
    return Expected(symbols, logits.double().numpy(), {k: np.stack(v) for k, v in maps.items()})


def best_of(logits: NDArray[np.float64]) -> list[int]:
    """Return the symbols (T,) that a greedy search takes from logits (T, V)."""
    possible = logits.copy()
    possible[:, [PAD, BEGIN]] = -np.inf
    return possible.argmax(axis=-1).tolist()
