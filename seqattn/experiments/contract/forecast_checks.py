"""Checks of shapes, padding, batches and weights in forecasts.

seqattn's own tests call the same functions for the built-in mechanisms. A check returns its result
as text, or raises one of the errors in `result`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqattn.experiments.contract.case import TARGET_DIM, ContractCase, N
from seqattn.experiments.contract.probes import Probe, probes_of
from seqattn.experiments.contract.result import (
    CheckFailedError,
    Difference,
    NotApplicableError,
    largest,
    place_of,
    tensor_difference,
)
from seqattn.models import AttentionMap


def check_output_shapes(case: ContractCase) -> str:
    """Check the shapes of the forecast, of the weights and of the results of the mechanism's
    methods.

    Raises:
        CheckFailedError: if a shape is wrong.
    """
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
                f" {probe.expected_shape}: {_shape_mistake(shape, probe)}",
                blocks=True,
            )
    shape = tuple(case.free.values.shape)
    if shape != (N, case.T, TARGET_DIM):
        raise CheckFailedError(
            f"The forecast has the shape {shape} instead of {(N, case.T, TARGET_DIM)}, which is"
            " (sequences, target steps, target features).",
            blocks=True,
        )
    for weights in case.free.attention:
        _check_shape_of_map(case, weights)
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


def _check_shape_of_map(case: ContractCase, found: AttentionMap) -> None:
    S, T = case.S, case.T
    sizes = {"cross": (T, S), "encoder_self": (S, S), "decoder_self": (T, T)}[found.kind]
    shape = tuple(found.weights.shape)
    if len(shape) != 4 or (shape[0], *shape[2:]) != (N, *sizes):
        raise CheckFailedError(
            f"The weights ({found.kind}) have the shape {shape} instead of"
            f" (N, heads, queries, keys) = ({N}, A, {sizes[0]}, {sizes[1]}).",
            blocks=True,
        )


# --- weights --------------------------------------------------------------------------------------


def check_weights(case: ContractCase) -> str:
    """Check that weights are 0 at padding. Unless the weights are signed, also check that they are
    non-negative, and that each row sums to 1. If `AttentionMap.meaning` is "partial", a row may
    also sum to less than 1.

    Raises:
        CheckFailedError: if the weights violate one of these properties.
        NotApplicableError: if the model has no attention, or if a forecast is not finite.
    """
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
        place = worst.place("sequence", "head", "target step", "source step")
        raise CheckFailedError(
            f"A source step of padding gets the weight {worst.value:.3g} ({place}): the mask is"
            " missing. Apply `keep` before the normalization: scores ="
            " mask_scores(scores, keep) sets the scores of padding to -inf."
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
        expected = sums.clamp(max=1.0).where(sums > 0, 1.0)
    worst = tensor_difference(sums, expected)
    if worst.value > 1e-11:
        total = float(sums[worst.index])
        raise CheckFailedError(
            f"The weights of a row sum to {total} instead of"
            f" {'more than 0 and at most ' if found.meaning == 'partial' else ''}1"
            f" ({worst.place(*axes)}): the normalization runs over the wrong axis, or the mask"
            " is applied after the normalization. Mask the scores first, and normalize over the"
            " last axis."
        )
    return "rows sum to at most 1" if found.meaning == "partial" else "rows sum to 1"


# --- padding and batches --------------------------------------------------------------------------


def _in_batch_against_alone(case: ContractCase) -> tuple[int, Difference]:
    """Compare the forecast of each sequence in a padded batch with its forecast alone.

    Returns:
        the index of the sequence with the largest difference, and this difference. The index of the
        difference is (step, feature).
    """
    return largest(
        [
            tensor_difference(case.free.values[n], alone.values[0])
            for n, alone in enumerate(case.alone)
        ]
    )


def _padded_alone(case: ContractCase, n: int) -> Tensor:
    """Return the forecast (T, F) of a padded sequence that is alone in its batch."""
    source, _ = case.sequences
    with torch.no_grad():
        output = case.model.forecast(
            source[n : n + 1],
            case.T,
            source_lengths=case.lengths[n : n + 1],
            with_attention=False,
        )
    return output.values[0]


def check_padding(case: ContractCase) -> str:
    """Check that NaN in the padding changes neither the forecasts nor the weights.

    Raises:
        CheckFailedError: if padding has an effect.
    """
    case.require_finite()
    n, in_batch = _in_batch_against_alone(case)
    if not in_batch.is_equal:
        padded = [
            tensor_difference(_padded_alone(case, k), case.alone[k].values[0]) for k in range(N)
        ]
        n, difference = largest(padded)
        if not difference.is_equal:
            place = f"sequence {n + 1}, {difference.place('step')}"
            raise CheckFailedError(
                f"Padding changes the forecast by up to {size_of(difference)} ({place}):"
                f" {_padding_mistake(case)}"
            )
    elif (worst := _difference_of_weights(case)) is not None:
        raise CheckFailedError(
            f"Padding changes the weights by up to {size_of(worst)}"
            f" ({worst.place('head', 'target step', 'source step')}), and not the forecast:"
            f" {_padding_mistake(case)}"
        )
    elif case.part != "model" and _leak(case) is not None:
        raise CheckFailedError(f"Padding changes a result: {_padding_mistake(case)}")
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


def size_of(difference: Difference) -> str:
    """Return the size of a difference as text. The text of an infinite difference is "NaN", because
    only one of the two values is NaN."""
    return "NaN" if difference.value == torch.inf else f"{difference.value:.2g}"


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
            " the length of the array. Count valid steps with `keep` or `source_lengths`."
        )
    probe, effect = leak
    number = f"`{probe.name}` changes by {size_of(effect)} at a valid step if only padding changes"
    remedy = {
        "score": "A method of the score combines source steps, padding included, for example with"
        " a mean, a norm or a softmax over the source axis. A score gets no mask: compute the score"
        " of each source step alone, and leave the rest to the normalizer, which gets `keep`.",
        "normalizer": "Scores of padding reach the weights of valid steps. Apply `keep` before the"
        " normalization, with mask_scores(scores, keep), and not to its result.",
        "location": "Pass `keep` to the normalizer, and count only valid steps, as"
        " valid_lengths(keep, scores) does.",
        "cell": "The cell is stepped over padding, or returns the state of the last step of the"
        " array. Return last_valid(states, lengths) as the last state.",
        "model": "Replace the padding of the source (source.masked_fill(~keep, 0)), and mask every"
        " sum over source steps.",
    }[case.part]
    return f"{number}. {remedy}"


def check_batch(case: ContractCase) -> str:
    """Check that the forecast of a sequence does not depend on the other sequences of its batch.

    Raises:
        CheckFailedError: if a forecast depends on the other sequences.
    """
    case.require_finite()
    _, in_batch = _in_batch_against_alone(case)
    n, difference = 0, in_batch
    if not in_batch.is_equal:
        n, difference = largest(
            [tensor_difference(case.free.values[k], _padded_alone(case, k)) for k in range(N)]
        )
    needs_probes = case.part != "model" or not in_batch.is_equal
    changed = [
        f" `{probe.name}` of sequence 1 changes by {size_of(effect)} if only the other sequences"
        " change."
        for probe in (probes_of(case) if needs_probes else ())
        if not (effect := probe.effect_of_neighbours()).is_equal
    ]
    if difference.is_equal and not changed:
        return f"largest difference {in_batch.value:.1e}" if in_batch.is_equal else "no effect"
    raise CheckFailedError(
        "The forecast of a sequence depends on its batch: it changes by up to"
        f" {size_of(difference)} (sequence {n + 1}, {difference.place('step')}) if the other"
        f" sequences are removed.{''.join(changed[:1])} The mechanism combines sequences, for"
        " example with a mean, a maximum or a batch normalization over the axis N. Reduce over"
        " other axes only."
    )
