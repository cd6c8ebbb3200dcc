"""Rows of scripts/bench.py for words: how fast a model of symbols is trained, how fast it finds its
outputs, and how fast `seqattn predict` answers one line.

The model is that of configs/pronounce.yaml with random parameters, and the words come from its
dictionary. The end of an output is made certain at the step of `ends_of`, so that outputs are as
long as pronunciations, and impossible before. The reference is scripts/practised_words.py, which
sorts the words by length, too.
"""

from __future__ import annotations

import lzma
import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from bench_results import BenchTable
from practised_words import PractisedWords
from torch import Tensor, nn

from seqattn.config import (
    AdditiveAttention,
    ConstantForcing,
    EmbeddingConfig,
    Recurrent,
    Training,
    Transformer,
    resolve,
)
from seqattn.data.tokens import END
from seqattn.models import FeatureSpec, build_model
from seqattn.models.decoding import Decoding, decode
from seqattn.models.recurrent import RecurrentModel
from seqattn.training import Batch, RunProgress, TrainingRun
from seqattn.training.learner import build_group
from seqattn.training.loop import train_step
from seqattn.training.state import train_mode

ROOT = Path(__file__).resolve().parents[1]
DICTIONARY = ROOT / "seqattn/data/shipped/cmudict.tsv.xz"
LETTERS, PHONES, STEPS = 33, 43, 64


def drawn_words(count: int) -> tuple[Tensor, Tensor]:
    """Return random words as numbers of letters (N, S, 1) with padding, and their lengths (N,)."""
    with lzma.open(DICTIONARY, "rt", encoding="utf-8") as file:
        every = [line.partition("\t")[0] for line in file]
    words = random.Random(0).sample(every, count)
    lengths = torch.tensor([len(word) for word in words])
    source = torch.zeros((count, int(lengths.max()), 1), dtype=torch.long)
    for row, word in zip(source, words, strict=True):
        row[: len(word), 0] = torch.tensor([4 + ord(letter) % 29 for letter in word])
    return source, lengths


def ends_of(source: Tensor, lengths: Tensor) -> Tensor:
    """Return the steps (N,) at which outputs end: one to three before the length of the source,
    since a pronunciation has 6.3 phones for 7.5 letters on average."""
    return (lengths - 1 - source.sum(dim=(1, 2)) % 3).clamp(min=1)


class TimedModel(RecurrentModel):
    """A model whose outputs end at the steps of `ends_of`, which its state counts down."""

    def begin(self, source: Tensor, steps: int, **options: Any) -> Any:
        start = super().begin(source, steps, **options)
        return start._replace(state=(start.state, ends_of(source, options["source_lengths"])))

    def decoder_step(
        self, decoder_input: Tensor, memory: Any, state: Any, *, with_attention: bool
    ) -> Any:
        inner, left = state
        step = super().decoder_step(decoder_input, memory, inner, with_attention=with_attention)
        step.output[:, 0, END] += torch.where(left <= 0, 40.0, -40.0)
        return step._replace(state=(step.state, left - 1))


def pairs_of(count: int, V: int, *, pronunciations: bool = False) -> Batch:
    """Return random pairs of 20 + 20 symbols, or words with random pronunciations of about the
    length of the true ones."""
    if not pronunciations:
        source, target = torch.randint(4, V, (2, count, 20, 1)).unbind()
        return Batch(source, target)
    source, lengths = drawn_words(count)
    ends = ends_of(source, lengths) + 1
    keep = torch.arange(int(ends.max())) < ends.unsqueeze(1)
    target = torch.randint(4, V, (*keep.shape, 1)).masked_fill_(~keep.unsqueeze(-1), 0)
    target.scatter_(1, (ends - 1).view(-1, 1, 1), END)
    return Batch(source, target, lengths, keep)


def steps_of_seqattn(
    config: Recurrent | Transformer, data: Batch, V: int, *, seeds: int = 1, sort: bool = False
) -> Callable[[], None]:
    """Return a function that trains one epoch of `seeds` runs, without validation."""
    settings = Training(
        batch_size=64, learning_rate=1e-3, clip_norm=1.0,
        teacher_forcing=ConstantForcing(probability=1.0),
        batch_order="by_length" if sort else "shuffled",
    )  # fmt: skip
    features = FeatureSpec(1, 1, (-1,), V, V)
    few = data.take(slice(0, 4))
    runs = [
        TrainingRun(build_model(config, features, seed), data, few, settings, seed)
        for seed in range(seeds)
    ]
    state, learner = build_group([RunProgress(run) for run in runs])

    def train() -> None:
        plan = learner.plan_epoch(state)
        with train_mode(learner.params.model):
            for _ in range(len(plan)):
                train_step(state, learner, plan)
        state.step = 0
        state.pending.clear()

    return train


def steps_of_torch(
    model: nn.Module, data: Batch, loss_of: Callable[..., Tensor], *, sort: bool = False
) -> Callable[[], None]:
    """Return a function that trains one epoch as a practised user of torch does: fused Adam, and
    batches of sequences of equal length or in random order."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    source, target = data.source.squeeze(-1), data.target.squeeze(-1)
    n, S, T = len(source), source.shape[1], target.shape[1]
    lengths = torch.full((n,), S) if data.source_lengths is None else data.source_lengths
    ends = torch.full((n,), T) if data.target_keep is None else data.target_keep.sum(1)

    def train() -> None:
        batches = [*(lengths.argsort() if sort else torch.randperm(n)).split(64)]
        random.shuffle(batches)
        for rows in batches:
            of_rows, last = lengths[rows], int(ends[rows].max())
            optimizer.zero_grad()
            loss_of(source[rows, : int(of_rows.max())], of_rows, target[rows, :last]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return train


def bench_training(table: BenchTable) -> None:
    """Measure training steps of models of symbols."""
    sizes = {"hidden_dim": 256, "embedding": EmbeddingConfig(dim=128)}
    config = Recurrent(**sizes, bidirectional=True, context="input", attention=AdditiveAttention())
    for V, must in ((50, ">= 1.15"), (8000, ">= 1.35")):
        data = pairs_of(256, V)
        ours = steps_of_seqattn(config, data, V)
        for kind, merged in (("", False), (", same equations", True)):
            model = PractisedWords(V, V, 128, 256, merged=merged)
            table.pair(f"words: steps, V = {V:,}{kind}", steps_of_torch(model, data, model.loss),
                       ours, must)  # fmt: skip
    data = pairs_of(1280, PHONES, pronunciations=True)
    ours = steps_of_seqattn(
        resolve(ROOT / "configs/pronounce.yaml").config.model, data, PHONES, sort=True
    )
    model = PractisedWords(PHONES, PHONES, 128, 256)
    table.pair("words: pronunciations, tutorial's loop in random batches",
               steps_of_torch(model, data, model.tutorial_loss), ours, ">= 3.5")  # fmt: skip
    table.pair("words: pronunciations, practised, sorted batches",
               steps_of_torch(model, data, model.loss, sort=True), ours, "")  # fmt: skip
    data, small = pairs_of(256, 40), Recurrent(hidden_dim=64, bidirectional=True,
                                               attention=AdditiveAttention())  # fmt: skip
    model = PractisedWords(40, 40, 64, 64)
    table.pair("words: 32 seeds of width 64, of one seed of practised torch",
               steps_of_torch(model, data, model.loss),
               steps_of_seqattn(small, data, 40, seeds=32), "<= 8", times=False)  # fmt: skip


def bench_decoding(table: BenchTable) -> None:
    """Measure greedy decoding and beam search, and print words a second."""
    config = resolve(ROOT / "configs/pronounce.yaml").config.model
    features = FeatureSpec(1, 1, (0,), source_symbols=LETTERS, target_symbols=PHONES)
    model = build_model(config, features, 1)
    model.__class__ = TimedModel
    practised = PractisedWords(LETTERS, PHONES, 128, config.hidden_dim).eval()

    def ours(source: Tensor, lengths: Tensor, at_once: int, beam: int) -> None:
        for rows in torch.arange(len(source)).split(1 if at_once == 1 else 2048):
            of_rows = lengths[rows]
            decode(model, source[rows, : int(of_rows.max())], of_rows, STEPS, Decoding(beam))

    def theirs(source: Tensor, lengths: Tensor, at_once: int, beam: int) -> None:
        for rows in lengths.argsort().split(at_once):
            of_rows = lengths[rows]
            read = source[rows, : int(of_rows.max())]
            ends = ends_of(read, of_rows)
            if beam == 1:
                practised.greedy(read.squeeze(-1), of_rows, STEPS, ends)
            else:
                practised.beam(read.squeeze(-1), of_rows, STEPS, ends, beam)

    for name, count, at_once, beam in (
        ("greedy, batches of 256", 4096, 256, 1),
        ("greedy, one at a time", 256, 1, 1),
        ("beam of 5, batches of 256", 1024, 256, 5),
        ("beam of 5, one at a time", 64, 1, 5),
    ):
        words = drawn_words(count)
        row = f"decode: {name}"
        table.pair(row, lambda: theirs(*words, at_once, beam),  # noqa: B023
                   lambda: ours(*words, at_once, beam), "")  # noqa: B023  # fmt: skip
        medians = [count / statistics.median(table.rows[row][side]) for side in ("theirs", "ours")]
        print(f"    (words a second: {medians[0]:,.0f} and {medians[1]:,.0f})")


def bench_start(
    table: BenchTable, folder: Path, command: Callable[..., Callable[[], None]], seqattn: Path
) -> None:
    """Measure `seqattn predict` for one line as a process, against `import torch`."""
    run, line = folder / "start", folder / "line.txt"
    line.write_text("attention\n")
    sizes = ["model.hidden_dim=16", "data.n_train=64", "data.n_validation=8", "data.n_test=8",
             "training.epochs=1"]  # fmt: skip
    command(seqattn, "train", ROOT / "configs/dates.yaml", "--output-dir", run, "--plots", "none",
            *(word for one in sizes for word in ("--set", one)))()  # fmt: skip
    theirs = command(sys.executable, "-c", "import torch")
    ours = command(seqattn, "predict", run / "dates", "--input", line)
    table.pair("start: predict one line, of importing torch", theirs, ours, "<= 1.3", times=False)
