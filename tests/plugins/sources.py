"""Plugins as text, which tests write into files."""

from __future__ import annotations

BILINEAR_TANH = '''
"""A bounded score."""

import seqattn


class BilinearTanhConfig(seqattn.ScoreConfig):
    """The score tanh(W q . U k)."""

    width: int = 8
    """Width of queries and keys."""


@seqattn.register_score("bilinear_tanh", BilinearTanhConfig)
class BilinearTanh(seqattn.Score):
    def __init__(self, hidden, width):
        super().__init__()
        self.query = seqattn.Linear(hidden, width, bias=False)
        self.key = seqattn.Linear(hidden, width, bias=False)

    @classmethod
    def from_config(cls, config, hidden):
        return cls(hidden, config.width)

    def keys(self, encoded):
        return self.key(encoded)

    def scores(self, queries, keys):
        return (self.query(queries) @ keys.mT).tanh()
'''

TORCH_LINEAR = '''
import math

import seqattn
from torch import nn


class PlainConfig(seqattn.ScoreConfig):
    """A score with a module of torch, which has no axis of runs."""


class OwnLinear(nn.Linear):
    init_bound = 0.4


@seqattn.register_score("torch_linear", PlainConfig)
class Plain(seqattn.Score):
    def __init__(self, hidden):
        super().__init__()
        self.key = OwnLinear(hidden, hidden)

    @classmethod
    def from_config(cls, config, hidden):
        return cls(hidden)

    def keys(self, encoded):
        return self.key(encoded)

    def scores(self, queries, keys):
        return queries @ keys.mT
'''

PARTS = '''
import numpy as np
import seqattn
import torch
from seqattn.models.attention.normalizers import NormalizerOutput, mask_scores
from seqattn.models.cells import recurrent_term


class WarmConfig(seqattn.NormalizerConfig):
    """The softmax of scores divided by a temperature."""

    temperature: float = 2.0
    """Temperature."""


@seqattn.register_normalizer("warm", WarmConfig)
class Warm(seqattn.Normalizer):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    @classmethod
    def from_config(cls, config):
        return cls(config.temperature)

    def normalize(self, scores, keep, u):
        return NormalizerOutput((mask_scores(scores, keep) / self.temperature).softmax(dim=-1))


@seqattn.register_normalizer("half")
class Half(seqattn.Normalizer):
    meaning = "partial"

    def normalize(self, scores, keep, u):
        return NormalizerOutput(mask_scores(scores, keep).softmax(dim=-1) / 2)


class LeakyConfig(seqattn.CellConfig):
    """A leaky tanh network."""

    leak: float = 0.5
    """Share of the new state."""


@seqattn.register_cell("leaky", LeakyConfig)
class Leaky(seqattn.Cell):
    num_gates = 1

    def __init__(self, inputs, hidden, leak):
        self.leak = leak
        super().__init__(inputs, hidden)

    @classmethod
    def from_config(cls, config, inputs, hidden):
        return cls(inputs, hidden, config.leak)

    def eager_step(self):
        leak = self.leak

        def step(projected, state, weight, bias):
            new = (projected + recurrent_term(state, weight, bias)).tanh()
            return leak * new if state is None else torch.lerp(state, new, leak)

        return step


class EveryConfig(seqattn.LocationConfig):
    """Attention to every n-th source step."""

    every: int = 2
    """n."""


@seqattn.register_location("every", EveryConfig)
class Every(seqattn.Location):
    def __init__(self, every):
        super().__init__()
        self.every = every

    @classmethod
    def from_config(cls, config, hidden, heads):
        return cls(config.every)

    def attention_weights(self, normalizer, queries, scores, keep, previous):
        outside = torch.arange(scores.shape[-1], device=scores.device) % self.every > 0
        scores = scores.masked_fill(outside, -float("inf"))
        return normalizer.normalize(scores, keep, None).weights, None


class PlusOneConfig(seqattn.TaskConfig):
    """The target is the source plus 1."""

    length: int = 5
    """Length of source and target."""


def first_point(source, lengths, steps):
    return np.repeat(source[:, :1], steps, axis=1)


@seqattn.register_task("plus_one", PlusOneConfig, baseline=("first point", first_point))
def plus_one(task, n, seed):
    source = np.random.RandomState(seed).standard_normal((n, task.length, 2))
    lengths = np.full(n, task.length)
    return seqattn.Sequences(
        source=source, source_lengths=lengths, target=source + 1, target_lengths=lengths,
        features=("x", "y"), ids=tuple(map(str, range(n))), ideal=source + 1,
    )


@seqattn.register_metric("largest_error")
def largest_error(forecast, target):
    return np.nanmax(np.abs(forecast - target))


@seqattn.register_check("loss above zero")
def loss_above_zero(evidence):
    if evidence.loss > 0:
        return "found", f"loss {evidence.loss:.3g}", "Every run has it.", "nothing"
    return "fine", "loss 0"
'''

MEAN_MODEL = '''
import seqattn
import torch
from seqattn.models import AttentionMap, ModelOutput


class MeanConfig(seqattn.ModelConfig):
    """A linear map of the mean of the source."""


@seqattn.register_model("mean", MeanConfig)
class Mean(seqattn.Seq2SeqModel):
    def __init__(self, config, features, lengths):
        super().__init__()
        self.features = features
        self.map = seqattn.Linear(features.source_dim, features.target_dim)

    def forward(self, source, target, *, source_lengths, teacher_forcing, with_attention=True,
                rng=None):
        return self.forecast(source, target.shape[-2], source_lengths=source_lengths)

    def forecast(self, source, steps, *, source_lengths=None, with_attention=True, override=None):
        if override is not None:
            raise seqattn.errors.UsageError("the weights are always uniform.")
        keep = torch.ones(source.shape[:-1], dtype=torch.bool, device=source.device)
        if source_lengths is not None:
            positions = torch.arange(source.shape[-2], device=source.device)
            keep = positions < source_lengths.unsqueeze(-1)
        weights = (keep / keep.sum(-1, keepdim=True)).to(source.dtype).unsqueeze(-2)
        mean = weights @ source.masked_fill(~keep.unsqueeze(-1), 0)
        values = self.map(mean).expand(*mean.shape[:-2], steps, -1)
        weights = weights.expand(*weights.shape[:-2], steps, -1).unsqueeze(-3)
        return ModelOutput(values, (AttentionMap(weights),) if with_attention else ())
'''
