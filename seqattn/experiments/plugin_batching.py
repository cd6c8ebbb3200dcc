"""The check that decides whether runs of a model with plugin parts can be trained side by side.

If runs are trained side by side, the parameters of each module have a leading axis of runs. A
plugin may contain modules that cannot handle this axis, such as `torch.nn.Linear`. Each run of a
model with such a module is trained alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqattn.config import Model, as_plain, extension
from seqattn.models import FeatureSpec, Lengths, ModelOutput, Seq2SeqModel, build_model
from seqattn.models.registration import check_output
from seqattn.training.state import StackedParams, train_mode

R, N, S, T = 3, 5, 7, 4
"""Numbers of runs and sequences, and maximum numbers of source and target steps, in the comparison.
The numbers differ, so that a wrong axis changes the result."""
TOLERANCE = 1e-4

_known: dict[str, bool] = {}
"""The results by section `model`, features and lengths."""


def is_batchable(config: Model, features: FeatureSpec, lengths: Lengths) -> bool:
    """Return whether runs of a model can be trained side by side. If a part of the model comes from
    a plugin, the function computes forecasts of several runs side by side, and compares them with
    the forecasts of each run alone.

    Args:
        config: the section `model`.
        features: the features of source and target.
        lengths: the lengths of the longest source and the longest target.

    Raises:
        PluginError: if the code of a plugin raises an exception for a run alone.
    """
    if not (sources := list(extension.used_sources(config))):
        return True
    key = repr((as_plain(config), features, lengths))
    if key not in _known:
        with extension.plugin_errors(sources, "a forecast of the model"):
            _known[key] = _compare(config, features, lengths)
    return _known[key]


@dataclass(frozen=True)
class _FixedNumbers:
    """A source of random numbers that gives each run the same numbers.

    Attributes:
        runs: the number of runs; None for a run alone.
    """

    runs: int | None

    def uniform(self, name: str, *shape: int) -> Tensor:
        """Return numbers in [0, 1), with a leading axis of runs if there are several runs."""
        numbers = torch.linspace(0.05, 0.95, torch.Size(shape).numel()).reshape(shape)
        return numbers if self.runs is None else numbers.expand(self.runs, *shape)


def _compare(config: Model, features: FeatureSpec, lengths: Lengths) -> bool:
    models = [build_model(config, features, seed, lengths) for seed in range(R)]
    has_fixed_lengths = config.skip == "linear"
    source_steps = lengths.source if has_fixed_lengths else min(S, lengths.source)
    target_steps = lengths.target if has_fixed_lengths else min(T, lengths.target)
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(R, N, source_steps, features.source_dim, generator=generator)
    target = torch.randn(R, N, target_steps, features.target_dim, generator=generator)
    valid = None
    if not has_fixed_lengths:
        valid = torch.tensor([source_steps - k % source_steps for k in range(N)]).expand(R, N)
    with torch.no_grad():
        alone = [
            _forecasts(model, source[k], target[k], None if valid is None else valid[k], None)
            for k, model in enumerate(models)
        ]
        try:
            together = _forecasts(StackedParams(models).model, source, target, valid, R)
        except Exception:  # a module without an axis of runs may raise any exception
            return False
    expected = [torch.stack(values) for values in zip(*alone, strict=True)]
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        for a, b in zip(together, expected, strict=True)
    )


def _forecasts(
    model: Seq2SeqModel, source: Tensor, target: Tensor, valid: Tensor | None, runs: int | None
) -> list[Tensor]:
    """Return the forecasts of a training pass with and without teacher forcing, the teacher-forced
    forecast of the validation, and the free-running forecast."""
    T, name = target.shape[-2], type(model).__name__

    def forward(is_forced: bool, rng: _FixedNumbers | None) -> ModelOutput:
        found = model.forward(
            source, target, source_lengths=valid, rng=rng,
            teacher_forcing=torch.full((T,), is_forced),
        )  # fmt: skip
        return check_output(found, f"{name}.forward")

    with train_mode(model):
        outputs = [forward(is_forced, _FixedNumbers(runs)) for is_forced in (True, False)]
    free = model.forecast(source, T, source_lengths=valid)
    outputs += [forward(True, None), check_output(free, f"{name}.forecast")]
    return [output.values for output in outputs]
