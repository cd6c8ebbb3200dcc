"""Checks of initial values, of state that a module keeps, of non-finite numbers and of scale."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from seqattn.config.knobs import AttentionKnobs
from seqattn.experiments.contract.case import ContractCase, N
from seqattn.experiments.contract.probes import Probe, probes_of
from seqattn.experiments.contract.result import (
    CheckFailedError,
    CheckWarningError,
    NotApplicableError,
    place_of,
    tensor_difference,
)
from seqattn.models.attention.scores import build_score
from seqattn.models.layers import init_parameters
from seqattn.training.state import train_mode

MAX_INPUT = 1e3
WIDTHS = (16, 256)
QUERIES, KEYS = 64, 32
MAX_SPREAD = 2.0
"""Standard deviation of scores above which the softmax of 32 scores is close to one-hot."""
MIN_GROWTH = 2.0
"""Ratio of the standard deviations at widths 256 and 16 above which the scores count as growing.
Without a division by sqrt(K), the ratio is 4."""
INTERNAL = frozenset(vars(nn.Module()))
"""The names of the attributes that every module has."""


def check_build(case: ContractCase) -> str:
    """Check that equal seeds give equal initial parameters, and that different seeds do not.

    Raises:
        CheckFailedError: if a parameter is not reproducible, or if the seed has no effect.
        PluginError: if a parameter has no initial distribution.
    """
    one, same, other = case.build(1), case.build(1), case.build(2)
    for (name, a), b in zip(one.named_parameters(), same.parameters(), strict=True):
        if not torch.equal(a, b):
            raise CheckFailedError(
                f"The initial values of {name} differ by up to {float((a - b).abs().max()):.2g}"
                " between two models of the same seed. Leave the values to init_bound.",
                blocks=True,
            )
    if all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)):
        raise CheckFailedError("Two models of different seeds have the same initial parameters.")
    count = sum(parameter.numel() for name, parameter in one.named_parameters() if case.owns(name))
    return f"{count:,} parameter values of its own"


def check_checkpoint(case: ContractCase) -> str:
    """Check that models with equal parameters give equal forecasts. A checkpoint then contains all
    that a forecast needs.

    Raises:
        CheckFailedError: if two models with the same parameters give different forecasts.
    """
    source, _ = case.sequences
    one, other = case.build(1), case.build(2)
    other.load_state_dict(one.state_dict())
    with torch.no_grad():
        outputs = [
            model.forecast(source, case.T, source_lengths=case.lengths).values
            for model in (one, other)
        ]
    difference = tensor_difference(outputs[1], outputs[0])
    if not difference.is_equal:
        names = sorted({
            f"{type(module).__name__}.{name}"
            for module in one.modules() for name, value in vars(module).items()
            if name not in INTERNAL and isinstance(value, Tensor)
        })  # fmt: skip
        cause = f" The likely attribute is {names[0]}." if names else ""
        raise CheckFailedError(
            f"Two models with the same parameters forecast different values, by up to"
            f" {difference.value:.2g}: a tensor that the forecast needs is not a parameter, so"
            f" checkpoints lose it.{cause} Use nn.Parameter.",
            blocks=True,
        )
    return "equal parameters give equal forecasts"


# --- state ----------------------------------------------------------------------------------------


def check_state(case: ContractCase) -> str:
    """Check that a forecast does not change the module, and that forecasts do not depend on earlier
    forecasts.

    Raises:
        CheckFailedError: if the module keeps state, or if a repeated forecast differs.
    """
    model = case.build()
    before, attributes = copy.deepcopy(model.state_dict()), _attributes(model)
    (source, target), (other, _) = case.random_sequences(0), case.random_sequences(1)
    always = torch.ones(case.T, dtype=torch.bool)

    def forecast(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model.forecast(x, case.T, source_lengths=case.lengths).values

    first = forecast(source)
    forecast(other)
    with torch.no_grad(), train_mode(model):
        model(other, target, source_lengths=case.lengths, teacher_forcing=always)
    difference = tensor_difference(forecast(source), first)
    stored = _changed(attributes, _attributes(model))
    where = f" The module stores {', '.join(f'`{name}`' for name in stored)}." if stored else ""
    if difference.value > 0:
        cause = "the module keeps state." if stored else (
            "the module keeps state outside of its attributes, or draws random numbers of its own."
            " Random numbers come from `rng`."
        )  # fmt: skip
        raise CheckFailedError(
            f"The same source gives another forecast after other forecasts, by up to"
            f" {difference.value:.2g} ({difference.place('sequence', 'step')}): {cause}{where}"
            " Return values instead of storing them.",
            blocks=True,
        )
    if stored:
        raise CheckFailedError(
            f"A forecast changes {len(stored)} attributes: the module keeps state.{where} Stored"
            " tensors are missing in checkpoints and are shared by all callers. Return values"
            " instead of storing them."
        )
    for name, tensor in model.state_dict().items():
        if not torch.equal(tensor, before[name]):
            raise CheckFailedError(
                f"A forecast changes {name} of the state_dict by up to"
                f" {float((tensor - before[name]).abs().max()):.2g}: the module keeps state. Only"
                " the optimizer changes parameters."
            )
    return "two calls give the same bits"


def _attributes(model: nn.Module) -> dict[str, Any]:
    """Return copies of the attributes of all modules, without parameters and submodules."""
    found = dict[str, Any]()
    for module_name, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in INTERNAL and not isinstance(value, nn.Module):
                place = f"{module_name}.{name}".lstrip(".")
                found[place] = value if callable(value) else copy.deepcopy(value)
    return found


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name, value in after.items()
            if name not in before or not _equal(before[name], value)]  # fmt: skip


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return (
            isinstance(one, Tensor) and isinstance(other, Tensor)
            and one.shape == other.shape and tensor_difference(one, other).value == 0
        )  # fmt: skip
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    try:
        return one is other or bool(one == other)
    except (RuntimeError, TypeError, ValueError):
        return True  # objects that cannot be compared


# --- finite numbers -------------------------------------------------------------------------------


def check_finite(case: ContractCase) -> str:
    """Check that results and, except for whole models, gradients are finite for ordinary, large and
    zero inputs in float32.

    Raises:
        CheckFailedError: if a result or a gradient is not finite.
    """
    model = case.build().float()
    sizes = {"ordinary": 1.0, f"large (times {MAX_INPUT:g})": MAX_INPUT, "zero": 0.0}
    for words, size in sizes.items():
        for probe in probes_of(case, model):
            _check_probe(probe, words, size, is_model=case.part == "model")
        source, _ = case.random_sequences()
        with torch.no_grad():
            values = model.forecast(
                (source * size).float(), case.T, source_lengths=case.lengths, with_attention=False
            ).values
        if not values.isfinite().all():
            index = tuple(int(i) for i in (~values.isfinite()).nonzero()[0])
            raise CheckFailedError(
                f"The forecast is not finite for {words} sources: {float(values[index]):g}"
                f" ({place_of(index, ('sequence', 'step'))}). {_finite_mistake(size)}"
            )
    return "ordinary, large and zero inputs"


def _check_probe(probe: Probe, words: str, size: float, *, is_model: bool) -> None:
    inputs = {name: (x * size).float().requires_grad_() for name, x in probe.inputs.items()}
    result = probe(inputs)
    wrong = ~result.isfinite() & (probe.valid.expand(result.shape))
    if wrong.any():
        index = tuple(int(i) for i in wrong.nonzero()[0])
        raise CheckFailedError(
            f"`{probe.name}` has {int(wrong.sum())} of {result.numel()} values that are not finite"
            f" for {words} inputs in float32, first {float(result[index].detach()):g}"
            f" ({place_of(index, probe.axes)}). {_finite_mistake(size)}"
        )
    if is_model or not result.requires_grad:
        return
    tensors = inputs | dict(probe.module.named_parameters())
    total = result.masked_fill(~probe.valid, 0.0).sum()
    found = torch.autograd.grad(total, list(tensors.values()), allow_unused=True)
    for name, gradient in zip(tensors, found, strict=True):
        if gradient is not None and not gradient.isfinite().all():
            count = int((~gradient.isfinite()).sum())
            raise CheckFailedError(
                f"The gradient of `{probe.name}` with respect to {name} has {count} of"
                f" {gradient.numel()} values that are not finite for {words} inputs in float32."
                f" {_finite_mistake(size)}"
            )


def _finite_mistake(size: float) -> str:
    if size == 0:
        return (
            "The likely mistake is a division by a norm or a sum that is 0, or log or sqrt of 0."
            " Add a small number to the denominator, or clamp it."
        )
    if size > 1:
        return (
            "The likely mistake is exp of a large number. Subtract the largest number first, as"
            " softmax and logsumexp do."
        )
    return "The likely mistake is log or sqrt of a negative number, or a division by 0."


# --- scale ----------------------------------------------------------------------------------------


def check_scale(case: ContractCase) -> str:
    """Check that the spread of the initial scores does not grow with a width.

    Queries and encoder states have unit variance. The widths are `hidden_dim` and each config
    key with an integer value that only this score has.

    Raises:
        CheckWarningError: if the spread grows by more than the factor `MIN_GROWTH`, to more than
            `MAX_SPREAD`.
        NotApplicableError: if the mechanism is not a score.
    """
    config = getattr(case.section, "attention", None)
    if case.part != "score" or not isinstance(config, AttentionKnobs):
        raise NotApplicableError("only scores are tested for their scale.")
    config = config.model_copy(update={"heads": 1})
    own = {
        key: value for key, value in config
        if key not in AttentionKnobs.model_fields and type(value) is int
    }  # fmt: skip
    measured = []
    for key in ("hidden_dim", *own):
        spreads = []
        for width in WIDTHS:
            hidden = width if key == "hidden_dim" else WIDTHS[0]
            variant = config if key == "hidden_dim" else config.model_copy(update={key: width})
            spreads.append(_spread(variant, hidden))
        (small, _), (wide, peak) = spreads
        measured.append(f"{small:.2g} to {wide:.2g} with {key}")
        if wide > MAX_SPREAD and wide > MIN_GROWTH * small:
            raise CheckWarningError(
                f"The scale of the scores is wrong: their standard deviation grows from {small:.2g}"
                f" with {key}: {WIDTHS[0]} to {wide:.2g} with {key}: {WIDTHS[1]}, for queries and"
                f" keys of unit variance, and the largest of {KEYS} weights is {peak:.2f} on"
                " average, so the softmax saturates before training. The likely mistake is a"
                " missing division by sqrt(K), where K is the width."
            )
    return "standard deviation of the scores: " + ", ".join(measured)


def _spread(config: AttentionKnobs, hidden: int) -> tuple[float, float]:
    """Return two means over the queries: of the standard deviation of the scores over the keys, and
    of the largest softmax weight."""
    score = build_score(config, hidden)
    init_parameters(score, 1)
    rng = torch.Generator().manual_seed(1)
    queries = torch.randn(N, QUERIES, hidden, generator=rng)
    encoded = torch.randn(N, KEYS, hidden, generator=rng)
    with torch.no_grad():
        scores = score.scores(queries, score.keys(encoded))
    return float(scores.std(dim=-1).mean()), float(scores.softmax(-1).amax(-1).mean())
