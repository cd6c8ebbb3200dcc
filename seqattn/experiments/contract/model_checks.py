"""Checks of a model with the mechanism: shapes, weights, padding, batches, decoder steps, initial
values, stored state, finite numbers and scale.

A check returns its result as text, or raises one of the errors in `case`. seqattn's own tests call
the same functions for the built-in mechanisms.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from seqattn.config import ScoreConfig
from seqattn.experiments.contract.case import (
    TARGET_DIM,
    CheckFailedError,
    CheckWarningError,
    ContractCase,
    Difference,
    N,
    NotApplicableError,
    Probe,
    place_of,
    probes_of,
    tensor_difference,
)
from seqattn.models import AttentionMap, ModelOutput
from seqattn.models.attention.scores import build_score
from seqattn.models.layers import init_parameters
from seqattn.training.state import train_mode


def check_output_shapes(case: ContractCase) -> str:
    """Check the shapes of the forecast, the weights and the results of the mechanism's methods."""
    for probe in probes_of(case):
        with torch.no_grad():
            shape = tuple(probe().shape)
        fits = len(shape) == len(probe.shape) and all(
            size in (None, other) for size, other in zip(probe.shape, shape, strict=True)
        )
        if not fits:
            given = ", ".join(f"{name} {tuple(x.shape)}" for name, x in probe.inputs.items())
            raise CheckFailedError(
                f"`{probe.name}` returns the shape {shape} for {given}, but the contract is"
                f" {probe.expected_shape}: {_shape_mistake(shape, probe)}"
            )
    shape = tuple(case.free.values.shape)
    if shape != (N, case.T, TARGET_DIM):
        raise CheckFailedError(
            f"The forecast has the shape {shape} instead of {(N, case.T, TARGET_DIM)}, which is"
            " (sequences, target steps, target features)."
        )
    S, T = case.S, case.T
    for found in case.free.attention:
        sizes = {"cross": (T, S), "encoder_self": (S, S), "decoder_self": (T, T)}[found.kind]
        shape = tuple(found.weights.shape)
        if len(shape) != 4 or (shape[0], *shape[2:]) != (N, *sizes):
            raise CheckFailedError(
                f"The weights ({found.kind}) have the shape {shape} instead of"
                f" (N, heads, queries, keys) = ({N}, A, {sizes[0]}, {sizes[1]})."
            )
    return "all shapes are as documented"


def _shape_mistake(shape: tuple[int, ...], probe: Probe) -> str:
    expected = probe.shape
    if None not in expected and sorted(shape) == sorted(size or 0 for size in expected):
        return "two axes are exchanged. Transpose the result, or exchange the operands."
    if len(shape) == len(expected) + 1 and 1 in shape:
        return "an axis of size 1 is left over. Remove the axis with squeeze."
    if len(shape) == len(expected) - 1:
        return "an axis is missing. Use keepdim=True or unsqueeze, and split the heads."
    return "the product or the sum runs over the wrong axis. Count axes from the last axis (-1)."


# --- weights --------------------------------------------------------------------------------------


def check_weights(case: ContractCase) -> str:
    """Check that weights are 0 at padding. Unless the weights are signed, also check that they are
    non-negative, and that each row sums to 1. If `AttentionMap.meaning` is "partial", a row may
    also sum to less than 1."""
    case.require_finite()
    if not case.free.attention:
        raise NotApplicableError("the forecast has no attention weights.")
    seen = set[str]()
    for found in case.free.attention:
        _check_zero_on_padding(case, found)
        if found.meaning != "strength":
            seen.add(_check_sums(case, found))
    return "0 at padding" + "".join(f"; {words}" for words in sorted(seen))


def _check_zero_on_padding(case: ContractCase, found: AttentionMap) -> None:
    steps = torch.arange(case.S) >= case.lengths[:, None]
    outside = torch.zeros(found.weights.shape, dtype=torch.bool)
    if found.kind in ("cross", "encoder_self"):
        outside |= steps[:, None, None, :]
    if found.kind == "encoder_self":
        outside |= steps[:, None, :, None]
    wrong = found.weights.where(outside, 0.0).abs().nan_to_num(nan=torch.inf)
    if wrong.any():
        worst = tensor_difference(wrong, torch.zeros_like(wrong))
        place = worst.at("sequence", "head", "target step", "source step")
        raise CheckFailedError(
            f"A source step of padding gets the weight {place}: the mask is"
            " missing. Apply mask_scores(scores, keep) before the normalization."
        )


def _check_sums(case: ContractCase, found: AttentionMap) -> str:
    weights = found.weights
    axes = ("sequence", "head", "target step")
    if bool((weights < 0).any()):
        index = tuple(int(i) for i in (weights == weights.min()).nonzero()[0])
        raise CheckFailedError(
            f"A weight is negative: {float(weights.min()):.3g}"
            f" ({place_of(index, (*axes, 'source step'))}), but the weights are a"
            f" {found.meaning}. Return non-negative weights."
        )
    sums = weights.sum(dim=-1)
    expected = torch.ones_like(sums)
    if found.kind == "encoder_self":  # rows of padding are 0
        valid = (torch.arange(case.S) < case.lengths[:, None])[:, None].expand_as(sums)
        expected = expected.where(valid, sums)
    if found.meaning == "partial":
        # A stochastic location decides in forecasts, and may decide for no source step.
        may_be_zero = case.is_stochastic
        expected = sums.clamp(max=1.0).where((sums > 0) | may_be_zero, 1.0)
    worst = tensor_difference(sums, expected)
    if worst.value > 1e-11:
        total = float(sums[worst.index])
        raise CheckFailedError(
            f"The weights of a row sum to {total} instead of"
            f" {'more than 0 and at most ' if found.meaning == 'partial' else ''}1"
            f" ({place_of(worst.index, axes)}): the normalization runs over the wrong axis, or the"
            " mask is applied after the normalization."
        )
    return "rows sum to at most 1" if found.meaning == "partial" else "rows sum to 1"


# --- padding and batches --------------------------------------------------------------------------


def _alone(case: ContractCase) -> Tensor:
    """Return the forecast of each sequence alone and without padding, (N, T, F)."""
    return torch.cat([output.values for output in case.alone])


def _padded_alone(case: ContractCase) -> Tensor:
    """Return the forecast of each padded sequence that is alone in its batch, (N, T, F)."""
    parts = zip(case.sequences[0].split(1), case.lengths.split(1), strict=True)
    with torch.no_grad():
        return torch.cat([
            case.model.forecast(
                source, case.T, source_lengths=lengths, with_attention=False
            ).values
            for source, lengths in parts
        ])  # fmt: skip


def check_padding(case: ContractCase) -> str:
    """Check that NaN in the padding changes neither the forecasts nor the weights."""
    case.require_finite()
    in_batch = tensor_difference(case.free.values, _alone(case))
    changed = ""
    if not in_batch.is_equal:
        difference = tensor_difference(_padded_alone(case), _alone(case))
        if not difference.is_equal:
            changed = f"the forecast by up to {difference.at('sequence', 'step')}"
    elif (worst := _difference_of_weights(case)) is not None:
        place = worst.at("head", "target step", "source step")
        changed = f"the weights by up to {place}, and not the forecast"
    elif case.part != "model" and _leak(case) is not None:
        changed = "a result"
    if changed:
        raise CheckFailedError(f"Padding changes {changed}: {_padding_mistake(case)}")
    return f"largest difference {in_batch.value:.1e}" if in_batch.is_equal else "no effect"


def _difference_of_weights(case: ContractCase) -> Difference | None:
    """Compare the attention maps of each sequence in the batch with those of the sequence alone.
    Return the largest difference in the first map that differs, or None if no map differs."""
    for n, (alone, length) in enumerate(zip(case.alone, case.lengths.tolist(), strict=True)):
        for one, both in zip(alone.attention, case.free.attention, strict=True):
            assert (one.kind, one.layer, one.meaning) == (both.kind, both.layer, both.meaning)
            rows = length if both.kind == "encoder_self" else case.T
            columns = case.T if both.kind == "decoder_self" else length
            difference = tensor_difference(both.weights[n, :, :rows, :columns], one.weights[0])
            if not difference.is_equal:
                return difference
    return None


def _leak(case: ContractCase) -> tuple[Probe, Difference] | None:
    """Return the first probe on which padding has an effect, and the effect, or None if there is no
    such probe. Probes whose results depend on the other sequences of the batch are skipped, because
    `check_batch` reports them."""
    for probe in probes_of(case):
        if not probe.padding or not probe.effect_of_neighbours().is_equal:
            continue
        if not (effect := probe.effect_of_padding()).is_equal:
            return probe, effect
    return None


def _padding_mistake(case: ContractCase) -> str:
    """Return the likely reason why padding has an effect. The probes help to find this reason."""
    leak = _leak(case)
    if leak is None:
        return (
            "the values in the padding have no effect, but their number has. The mechanism reads"
            " the length of the array."
        )
    probe, effect = leak
    number = f"`{probe.name}` changes by {effect} at a valid step if only padding changes"
    remedy = {
        "score": "A method of the score combines source steps, padding included. A score gets no"
        " mask: leave that to the normalizer, which gets `keep`.",
        "normalizer": "Scores of padding reach the weights of valid steps: `keep` is not applied"
        " before the normalization.",
        "location": "The normalizer does not get `keep`, or steps of padding are counted.",
        "cell": "The cell is stepped over padding. Return last_valid(states, lengths).",
        "model": "A sum over source steps is not masked with `keep`.",
    }[case.part]
    return f"{number}. {remedy}"


def check_batch(case: ContractCase) -> str:
    """Check that the forecast of a sequence does not depend on the other sequences of its batch."""
    case.require_finite()
    difference = in_batch = tensor_difference(case.free.values, _alone(case))
    if not in_batch.is_equal:
        difference = tensor_difference(case.free.values, _padded_alone(case))
    needs_probes = case.part != "model" or not in_batch.is_equal
    changed = [
        f" `{probe.name}` of sequence 1 changes by {effect} if only the other sequences change."
        for probe in (probes_of(case) if needs_probes else ())
        if not (effect := probe.effect_of_neighbours()).is_equal
    ]
    if difference.is_equal and not changed:
        return f"largest difference {in_batch.value:.1e}" if in_batch.is_equal else "no effect"
    raise CheckFailedError(
        "The forecast of a sequence depends on its batch: it changes by up to"
        f" {difference.at('sequence', 'step')} if the other"
        f" sequences are removed.{''.join(changed[:1])} The mechanism combines sequences,"
        " for example with a mean over the axis N."
    )


# --- decoder steps --------------------------------------------------------------------------------


MIN_FORCING_EFFECT = 1e-9
"""Smallest difference between two forecasts that shows an effect of the decoder inputs."""


def check_decoder_steps(case: ContractCase) -> str:
    """Check that computing all decoder steps at once gives the same results as computing them one
    at a time, and that free running equals teacher forcing on the model's own forecast."""
    case.require_finite()
    worst = max(_check_lengths_of_forecasts(case), _check_forcing(case))
    if mixing := _mixed_steps(case):
        raise CheckFailedError(mixing)
    return f"largest difference {worst:.1e}"


def _check_lengths_of_forecasts(case: ContractCase) -> float:
    """Compare the forecast with a shorter forecast, and with a forecast without weights. Return the
    largest difference."""
    source, T = case.sequences[0], case.T
    with torch.no_grad():
        blind = case.model.forecast(source, T, source_lengths=case.lengths, with_attention=False)
        shorter = case.model.forecast(source, T - 1, source_lengths=case.lengths)
    if blind.attention:
        raise CheckFailedError("A forecast with with_attention=False contains weights.")
    without = tensor_difference(blind.values, case.free.values)
    difference = tensor_difference(shorter.values, case.free.values[:, :-1])
    if not without.is_equal:
        raise CheckFailedError(
            f"Without weights in the output (with_attention=False), the forecast changes by"
            f" {without.at('sequence', 'step')}."
        )
    if not difference.is_equal:
        raise CheckFailedError(
            f"A forecast of {T - 1} steps differs from the first {T - 1} of {T} steps by"
            f" {difference.at('sequence', 'step')}: a step reads later steps."
        )
    return max(without.value, difference.value)


def _check_forcing(case: ContractCase) -> float:
    """Compare free running with teacher forcing, and return the largest difference."""
    (source, target), T = case.sequences, case.T
    always = torch.ones(T, dtype=torch.bool)

    def run(inputs: Tensor, teacher_forcing: Tensor) -> ModelOutput:
        with torch.no_grad():
            output: ModelOutput = case.model(
                source, inputs, source_lengths=case.lengths, teacher_forcing=teacher_forcing
            )
        return output

    at_once = run(case.free.values, always)
    weights = [
        tensor_difference(one.weights, other.weights)
        for one, other in zip(at_once.attention, case.free.attention, strict=True)
    ]
    worst = max([tensor_difference(at_once.values, case.free.values), *weights])
    if not worst.is_equal:
        raise CheckFailedError(
            "All steps at once, with teacher forcing on the model's own forecast, differ from free"
            f" running by {worst.at('sequence', 'step')}: {_step_mistake(case)}"
        )
    forced = run(target, always).values
    if tensor_difference(forced[:, 1:], case.free.values[:, 1:]).value < MIN_FORCING_EFFECT:
        raise CheckFailedError(
            "Teacher forcing has no effect: with other decoder inputs, the forecast is the same to"
            f" {MIN_FORCING_EFFECT:.0e}. The step ignores its input."
        )
    if case.forces_every_step:
        return worst.value
    never = tensor_difference(run(target, ~always).values, case.free.values)
    mixed = torch.arange(N * T).view(N, T) % 3 == 0
    partly = run(target, mixed).values
    first = tensor_difference(partly[:, 0], forced[:, 0])
    if tensor_difference(partly[:, 1:], forced[:, 1:]).value < MIN_FORCING_EFFECT:
        raise CheckFailedError(
            "Teacher forcing at some steps gives the forecast of teacher forcing at all steps. The"
            " model ignores the mask `teacher_forcing`."
        )
    for difference, name in ((never, "no step"), (first, "some steps")):
        if not difference.is_equal:
            raise CheckFailedError(
                f"With teacher forcing at {name}, the forecast changes by"
                f" {difference.at('sequence')}: {_step_mistake(case)}"
            )
    return max(worst.value, never.value, first.value)


def _step_mistake(case: ContractCase) -> str:
    """Return the likely reason why several steps at once differ from single steps."""
    return _mixed_steps(case) or (
        "the computation of a step depends on the number of steps that are computed at once. A"
        " location must return the weights of the last step as `previous`."
    )


def _mixed_steps(case: ContractCase) -> str:
    """Return a message about a probe in which a later step affects earlier steps; "" if there is no
    such probe."""
    for probe in probes_of(case):
        if probe.step_axis is None:
            continue
        effect = probe.effect_of_later_steps()
        if not effect.is_equal:
            return (
                f"`{probe.name}` of an earlier step changes by {effect} if only the last"
                " step changes. The method combines decoder steps, such as with a mean over the"
                " axis T."
            )
    return ""


# --- initial values, state and finite numbers -----------------------------------------------------


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
    """Check that equal seeds give equal initial parameters, and that different seeds do not."""
    one, same, other = case.build(1), case.build(1), case.build(2)
    for (name, a), b in zip(one.named_parameters(), same.parameters(), strict=True):
        if not torch.equal(a, b):
            raise CheckFailedError(
                f"The initial values of {name} differ by up to {float((a - b).abs().max()):.2g}"
                " between two models of the same seed. Leave the values to init_bound."
            )
    if all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)):
        raise CheckFailedError("Two models of different seeds have the same initial parameters.")
    count = sum(parameter.numel() for name, parameter in one.named_parameters() if case.owns(name))
    return f"{count:,} parameter values of its own"


def check_checkpoint(case: ContractCase) -> str:
    """Check that models with equal parameters give equal forecasts. A checkpoint then contains all
    that a forecast needs."""
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
            f" {difference}: a tensor that the forecast needs is not a parameter, so"
            f" checkpoints lose it.{cause} Use nn.Parameter."
        )
    return "equal parameters give equal forecasts"


# --- state ----------------------------------------------------------------------------------------


def check_state(case: ContractCase) -> str:
    """Check that a forecast does not change the module, and that forecasts do not depend on earlier
    forecasts."""
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
    stored = [
        name for name, value in _attributes(model).items()
        if name not in attributes or attributes[name] is not value
    ]  # fmt: skip
    where = f" The module stores {', '.join(f'`{name}`' for name in stored)}." if stored else ""
    if difference.value > 0:
        cause = "the module keeps state." if stored else (
            "the module keeps state outside of its attributes, or draws random numbers of its own."
            " Random numbers come from `rng`."
        )  # fmt: skip
        raise CheckFailedError(
            f"The same source gives another forecast after other forecasts, by up to"
            f" {difference.at('sequence', 'step')}: {cause}{where}"
            " Return values instead of storing them."
        )
    if stored:
        raise CheckFailedError(
            f"A forecast changes {len(stored)} attributes: the module keeps state.{where} Return"
            " values instead of storing them."
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
    """Return the attributes of all modules, without parameters and submodules."""
    return {
        f"{module_name}.{name}".lstrip("."): value
        for module_name, module in model.named_modules()
        for name, value in vars(module).items()
        if name not in INTERNAL and not isinstance(value, nn.Module)
    }


# --- finite numbers -------------------------------------------------------------------------------


def check_finite(case: ContractCase) -> str:
    """Check that results and, except for whole models, gradients are finite for ordinary, large and
    zero inputs in float32."""
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
        return "The likely mistake is a division by a norm or a sum that is 0, or log of 0."
    if size > 1:
        return "The likely mistake is exp of a large number; softmax subtracts the largest first."
    return "The likely mistake is log of a negative number, a division by 0, or 0 times -inf."


# --- scale ----------------------------------------------------------------------------------------


def check_scale(case: ContractCase) -> str:
    """Check that the spread of the initial scores does not grow with a width.

    Queries and encoder states have unit variance. The widths are `hidden_dim` and each config
    key with an integer value that only this score has.
    """
    config = getattr(case.section, "attention", None)
    if case.part != "score" or not isinstance(config, ScoreConfig):
        raise NotApplicableError("only scores are tested for their scale.")
    config = config.model_copy(update={"heads": 1})
    own = {
        key: value for key, value in config
        if key not in ScoreConfig.model_fields and type(value) is int
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
                " missing division by sqrt(K)."
            )
    return "standard deviation of the scores: " + ", ".join(measured)


def _spread(config: ScoreConfig, hidden: int) -> tuple[float, float]:
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
