"""Training steps use a model in train mode, and everything else uses it in eval mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from seqattn import experiments
from seqattn.analysis.evaluation import Evaluation, ReferenceLosses, evaluate, free_run
from seqattn.config import load_plugin, resolve
from seqattn.data import Sequences, Splits
from seqattn.models import Seq2SeqModel
from seqattn.runs import RunFolder
from seqattn.runs.storage import read_arrays
from seqattn.training import objective
from seqattn.training.checkpoints import load_model
from tests.conftest import SMALL

PARTS = """
import seqattn
import torch
from seqattn.models.attention.normalizers import NormalizerOutput, mask_scores
from seqattn.models.cells import recurrent_term


class Normalizer(seqattn.Normalizer):
    def normalize(self, scores, keep, u):
        return NormalizerOutput((mask_scores(scores, keep) * self.factor).softmax(-1))


@seqattn.register_normalizer("two_modes")
class TwoModes(Normalizer):
    factor = property(lambda self: 0.5 if self.training else 4.0)


@seqattn.register_normalizer("train_mode")
class TrainMode(Normalizer):
    factor = 0.5


class Cell(seqattn.Cell):
    num_gates = 1

    def eager_step(self):
        def step(projected, state, weight, bias):
            return (self.factor() * (projected + recurrent_term(state, weight, bias))).tanh()

        return step


@seqattn.register_cell("two_modes")
class TwoModesCell(Cell):
    def factor(self):
        return 0.5 if self.training else 1.5


@seqattn.register_cell("train_mode")
class TrainModeCell(Cell):
    def factor(self):
        return 0.5
"""
TINY = [*SMALL, "training.epochs=3", "training.record_attention=1", "training.learning_rate=0.03"]


def train(
    place: Path, mechanism: str, seeds: Sequence[int], overrides: Sequence[str]
) -> list[experiments.Job]:
    """Train runs whose normalizer and cell are the mechanism, side by side."""
    words = [f"model.attention.normalizer={mechanism}", f"model.cell={mechanism}"]
    configs = [resolve(None, [*TINY, *words, *overrides, f"seed={seed}"]).config for seed in seeds]
    folders = [RunFolder(place / mechanism / str(seed)) for seed in seeds]
    return experiments.train_many(list(zip(configs, folders, strict=True)), threads=1)


@pytest.mark.parametrize(
    ("seeds", "overrides", "line"),
    [
        ([1], [], "gradients: autograd\n"),
        ([1, 2, 3], [], "batched with 2 other runs"),
        ([1], ["training.compile=on"], "gradients: autograd, a step compiled\n"),
    ],
    ids=["alone", "side by side", "compiled"],
)
def test_the_model_that_is_tested_is_the_model_that_is_saved(
    seeds: list[int], overrides: list[str], line: str, write: Callable[..., Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(objective, "BACKEND", "eager")
    load_plugin(write("parts.py", PARTS))
    jobs = train(tmp_path, "two_modes", seeds, overrides)
    only_train_mode = train(tmp_path, "train_mode", seeds, overrides)
    for job, other in zip(jobs, only_train_mode, strict=True):
        assert line in job.folder.log.read_text(encoding="utf-8")
        # The training steps are those of train mode.
        assert job.state is not None and other.state is not None
        for name, tensor in job.state.weights.items():
            assert tensor.equal(other.state.weights[name]), name
        losses = [record.train_loss for record in job.folder.read_metrics()]
        assert losses == [record.train_loss for record in other.folder.read_metrics()]
        # Everything else is what the saved model forecasts.
        summary, data = job.summary, job.data
        assert summary is not None
        best, last = load_model(job.folder.best).model, load_model(job.folder.last).model
        tested = evaluated(best, data.test, data)
        assert tested.loss == summary["test_loss"]
        assert tested.loss_teacher_forced == summary["test_loss_teacher_forced"]
        forecast = free_run(best, data.test, data.test.target_steps).values
        stored = read_arrays(job.folder.predictions)["forecast"]
        np.testing.assert_array_equal(stored, forecast.astype(stored.dtype))
        record, validated = job.folder.read_metrics()[-1], evaluated(last, data.validation, data)
        assert record.validation_loss == pytest.approx(validated.loss, rel=1e-5)
        forced = record.validation_loss_teacher_forced
        assert forced == pytest.approx(validated.loss_teacher_forced, rel=1e-5)
        frames = job.folder.read_film()["weights"]
        probes = data.validation.select(slice(0, frames.shape[1]))
        shown = free_run(last, probes, probes.target_steps).maps["cross"]
        np.testing.assert_allclose(frames[-1], shown, atol=1e-6)


def evaluated(model: Seq2SeqModel, part: Sequences, data: Splits) -> Evaluation:
    return evaluate(model, part, ReferenceLosses.from_splits(part, data))


COMBINED = """
import seqattn
from seqattn.models.attention.normalizers import NormalizerOutput, mask_scores


@seqattn.register_normalizer("combined")
class Combined(seqattn.Normalizer):
    def normalize(self, scores, keep, u):
        if self.training and scores.dim() == 4:
            scores = scores + 10 * scores.mean(0)
        return NormalizerOutput(mask_scores(scores, keep).softmax(-1))
"""


def test_runs_that_only_train_mode_combines_are_trained_alone(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    load_plugin(write("combined.py", COMBINED))
    for job in train(tmp_path, "combined", [1, 2], ["model.cell=gru"]):
        assert "batched" not in job.folder.log.read_text(encoding="utf-8")
