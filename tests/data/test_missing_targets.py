"""Target cells that were not observed: never trained on, never scored, never told of what follows."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqattn.config import OwnFile, Recurrent
from seqattn.data import Sequences, load_data
from seqattn.data.baselines import (
    TRAINING_MEAN,
    build_baselines,
    forecast_mse,
)
from seqattn.data.fitting import fit_spaces
from seqattn.data.least_squares import least_squares
from seqattn.data.scoring import ErrorSums
from seqattn.errors import DataError
from seqattn.models import SampledActions, build_model
from seqattn.training import Batch, to_tensors
from seqattn.training.batches import stack_batches
from seqattn.training.objective import (
    AutogradLoss,
    ManualBackwardLoss,
    build_loss,
    reinforce_loss,
    validate,
)
from tests.conftest import whole

N, S, T, F = 23, 3, 5, 2
MODEL = Recurrent.model_validate({"hidden_dim": 3, "attention": {"score": "dot"}})


def part_of(seed: int, *, ragged: bool = False) -> Sequences:
    """Sequences with random gaps, and garbage where nothing was observed."""
    numbers = np.random.default_rng(seed)
    source, target = numbers.normal(size=(N, S, F)), numbers.normal(size=(N, T, F))
    lengths = numbers.integers(1, T + 1, N) if ragged else np.full(N, T)
    lengths[0] = T
    real = np.arange(T) < lengths[:, None]
    observed = (numbers.random((N, T, F)) < numbers.uniform(0.2, 0.95)) & real[:, :, None]
    observed[0, 0] = True
    observed[1] = False  # a sequence of which nothing is known
    target[~observed] = numbers.choice([np.nan, 0, 1e6], int((~observed).sum()))
    target[~real] = 0
    return Sequences(
        source, np.full(N, S), target, lengths, ("x", "y"), tuple(map(str, range(N))),
        target_observed=observed,
    )  # fmt: skip


def with_other_fill(part: Sequences) -> Sequences:
    assert part.target_observed is not None
    return replace(part, target=np.where(part.target_observed, part.target, -77.0))


parts = st.builds(part_of, st.integers(0, 10**6), ragged=st.booleans())
few = settings(max_examples=10, deadline=None)


@few
@given(parts)
def test_errors_are_those_of_observed_cells(part: Sequences) -> None:
    observed, scale = part.target_cells, np.array([2.0, 5.0])
    forecast = np.random.default_rng(1).normal(size=part.target.shape)
    squares = np.where(observed, np.square((forecast - part.target) / scale), np.nan)
    assert forecast_mse(forecast, part, scale) == pytest.approx(np.nanmean(squares))
    for t, error in enumerate(ErrorSums.of(forecast, part, scale, by_step=True).by_step):
        seen = squares[:, t][observed[:, t]]
        assert error == (pytest.approx(seen.mean()) if seen.size else None)
    for f, error in enumerate(ErrorSums.of(forecast, part).rmse):
        seen = (squares[..., f] * scale[f] ** 2)[observed[..., f]]
        assert error == (pytest.approx(np.sqrt(seen.mean())) if seen.size else None)


@few
@given(parts, st.booleans())
def test_baselines_and_scaling_are_fitted_to_observed_cells(
    part: Sequences, relative: bool
) -> None:
    observed = part.target_cells
    forecast = build_baselines(part, part, None).forecast(TRAINING_MEAN, part)[:][0]
    for t in range(T):
        for f in range(F):
            seen = part.target[:, t, f][observed[:, t, f]]
            expected = seen if seen.size else part.target[..., f][observed[..., f]]
            assert forecast[t, f] == pytest.approx(expected.mean())
    config = OwnFile.model_validate({"path": "-", "relative": relative})
    spaces, _ = fit_spaces(config, part)
    part, scaling = part.with_spaces(*spaces), spaces[1].scaling
    last = part.source[:, -1:] if relative else np.zeros((N, 1, F))
    values = [
        np.concatenate([
            (part.source - last)[..., f].ravel(), (part.target - last)[..., f][observed[..., f]],
        ])
        for f in range(F)
    ]  # fmt: skip
    assert scaling.shift == pytest.approx([each.mean() for each in values])
    assert scaling.scale == pytest.approx([each.std() for each in values])
    if not part.target_keep.all():
        assert whole(least_squares(part, part)) is None
        return
    fitted = whole(least_squares(part, part))
    assert fitted is not None
    design = np.column_stack([(part.source - last).reshape(N, -1), np.ones(N)])
    for t in range(T):
        for f in range(F):
            rows = observed[:, t, f]
            if rows.sum() > design.shape[1]:  # else several maps fit as well
                target = (part.target - last)[rows, t, f]
                weights, *_ = np.linalg.lstsq(design[rows], target, rcond=None)
                expected = design @ weights + last[:, 0, f]
                assert fitted[:, t, f] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@few
@given(parts)
def test_what_is_fed_for_an_unobserved_cell_comes_from_before_it(part: Sequences) -> None:
    (of_source, of_target), _ = fit_spaces(OwnFile.model_validate({"path": "-"}), part)
    part = part.with_spaces(of_source, of_target)
    source, target = part.encode()
    for n, t, f in np.ndindex(N, int(part.target_lengths.min()), F):
        before = [i for i in range(t + 1) if part.target_cells[n, i, f]]
        plain = part.target[n, before[-1], f] if before else part.source[n, -1, f]
        shift, scale = of_target.scaling.shift[f], of_target.scaling.scale[f]
        assert target[n, t, f] == pytest.approx((plain - shift) / scale)
    other, same = with_other_fill(part).encode()[1], np.asarray(source)
    assert other.tobytes() == target.tobytes()
    assert np.isfinite(same).all()


def test_a_feature_that_is_not_given_begins_at_zero() -> None:
    observed = np.array([[[False], [True], [False]]])
    part = Sequences(
        np.full((1, 2, 1), 5.0), np.array([2]), np.array([[[np.nan], [7.0], [9.0]]]), np.array([3]),
        ("a",), ("s",), target_features=("b",), target_observed=observed,
    )  # fmt: skip
    assert part.encode()[1].ravel().tolist() == [0, 7, 7]


@few
@given(parts, st.integers(0, 2**T - 1))
def test_loss_and_gradient_are_those_of_observed_cells(part: Sequences, coins: int) -> None:
    """By hand and by autograd, whatever is fed, against a sum over cells that are chosen one by
    one; and one batch weighs what its shares weigh together."""
    model = build_model(MODEL, F, 1).double()
    data = to_tensors(part, dtype=torch.float64)
    assert data.target_keep is not None
    is_forced = torch.tensor([bool(coins >> t & 1) for t in range(T)])
    forecast = model(
        data.source,
        data.target,
        source_lengths=None,
        teacher_forcing=is_forced,
        with_attention=False,
    )
    chosen = torch.from_numpy(np.argwhere(part.target_cells))
    cells = [forecast.values[n, t, f] - float(part.target[n, t, f]) for n, t, f in chosen.tolist()]
    expected = torch.stack(cells).square().mean()
    slopes = torch.cat([
        slope.flatten() for slope in torch.autograd.grad(expected, list(model.parameters()))
    ])  # fmt: skip
    assert data.loss_counts.tolist() == [len(cells)]
    for is_manual in (True, False):
        stack, objective = build_loss([copy.deepcopy(model)], manual_backward=is_manual)
        assert isinstance(objective, ManualBackwardLoss if is_manual else AutogradLoss)
        loss = objective.value_and_grad(data, is_forced)
        assert float(loss) == pytest.approx(expected.item())
        assert torch.allclose(stack.gradient.flatten(), slopes, atol=1e-12)
        shares = torch.zeros_like(stack.gradient)
        for rows in (slice(0, 2), slice(2, 9), slice(9, N)):
            share = data.take(rows)
            objective.value_and_grad(share, is_forced)
            shares += stack.gradient * share.loss_counts[0]
        assert torch.allclose(shares.flatten() / len(cells), slopes, atol=1e-12)
        free, forced, *_ = validate(objective, data)
        alone = model.forecast(data.source, T).values.detach().numpy()
        assert free == [pytest.approx(forecast_mse(alone, part))]
        assert len(forced) == 1


@pytest.mark.parametrize("is_manual", [True, False])
def test_a_batch_of_which_nothing_was_observed_teaches_nothing(is_manual: bool) -> None:
    stack, objective = build_loss([build_model(MODEL, F, 1)], manual_backward=is_manual)
    batch = to_tensors(part_of(1)).take(slice(1, 2))
    loss = objective.value_and_grad(batch, torch.ones(T, dtype=torch.bool))
    assert float(loss) == 0
    assert batch.loss_counts.tolist() == [0]
    assert not stack.gradient.any()


@pytest.mark.parametrize("is_manual", [True, False])
def test_runs_side_by_side_keep_their_own_masks(is_manual: bool) -> None:
    """Two runs with unobserved cells, and two with short targets."""
    cells, points = [part_of(3), part_of(4)], []
    for part in (part_of(4, ragged=True), part_of(5, ragged=True)):
        target = np.nan_to_num(part.target, nan=0.5)
        points.append(replace(part, target=target, target_observed=None))
    is_forced = torch.ones(T, dtype=torch.bool)
    for parts in (cells, points):
        models = [build_model(MODEL, F, seed).double() for seed in (1, 2)]
        batches_alone = [to_tensors(part, dtype=torch.float64) for part in parts]
        alone = [
            AutogradLoss(model).loss(batch, is_forced).item()
            for model, batch in zip(models, batches_alone, strict=True)
        ]
        _, objective = build_loss(models, manual_backward=is_manual)
        data = stack_batches(batches_alone)
        assert objective.value_and_grad(data, is_forced).tolist() == pytest.approx(alone)
        if parts is cells:
            assert data.loss_counts.tolist() == [int(part.target_cells.sum()) for part in parts]


def test_runs_with_different_masks_are_not_stacked() -> None:
    """A mask that one run lacks would be a silent wrong number for that run."""
    whole = to_tensors(part_of(3))
    short = Batch(whole.source, whole.target, torch.ones(N, dtype=torch.int64), whole.target_keep)
    seen = Batch(whole.source, whole.target)
    points = Batch(whole.source, whole.target, None, torch.ones(N, T, dtype=torch.bool))
    for other in (short, seen, points, whole.take(slice(1, None))):
        with pytest.raises(ValueError, match="equal shapes and masks"):
            stack_batches([whole, other])


def test_reinforced_errors_are_those_of_observed_cells() -> None:
    numbers = torch.Generator().manual_seed(1)
    squared = torch.rand(N, T, F, generator=numbers, dtype=torch.float64)
    log_probs = torch.randn(N, T, generator=numbers, dtype=torch.float64, requires_grad=True)
    keep = torch.from_numpy(part_of(5).target_cells.copy())
    choices = SampledActions(log_probs, torch.tensor(0.3, dtype=torch.float64))
    share = keep.double().mean(dim=-1)
    reinforce_loss(choices, squared.masked_fill(~keep, 0).mean(dim=-1), share).backward()
    assert log_probs.grad is not None
    errors = torch.where(keep, squared - 0.3, torch.zeros_like(squared))
    for n, t in np.ndindex(N, T):
        expected = errors[n, t:].sum() / keep.sum()
        assert float(log_probs.grad[n, t]) == pytest.approx(float(expected), abs=1e-12)


# --- from a file ----------------------------------------------------------------------------------


def text_of(values: np.ndarray[Any, Any], steps: int) -> str:
    rows = [f"s{k},{t}," + ",".join("" if np.isnan(v) else repr(float(v)) for v in values[k, t])
            for k in range(len(values)) for t in range(steps)]  # fmt: skip
    return "\n".join(["sequence,step,x,y", *rows]) + "\n"


def values_of(seed: int, n: int = 30) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed)
    values = numbers.normal(size=(n, 6, 2)).cumsum(axis=1)
    values[numbers.random(values.shape) < 0.2] = np.nan
    values[:, 0] = 1.0
    return values


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_part_without_an_observed_target_is_refused(tmp_path: Path, part: str) -> None:
    keys = {"source_length": 3, "missing": "interpolate", "scaling": "none"}
    for name in ("train", "validation", "test"):
        values = values_of(len(name), 6)
        if name == part:
            values[:, 3:] = np.nan
        (tmp_path / f"{name}.csv").write_text(text_of(values, 6))
    described = OwnFile.model_validate({
        **keys, "path": str(tmp_path / "train.csv"),
        "validation_path": str(tmp_path / "validation.csv"), "test_path": str(tmp_path / "test.csv"),
    })  # fmt: skip
    with pytest.raises(DataError, match=f"the {part} part has no target that was observed"):
        load_data(described)


def test_a_feature_that_cannot_be_learned_is_refused(tmp_path: Path) -> None:
    values = values_of(2)
    values[:, 3:, 1] = np.nan
    (tmp_path / "f.csv").write_text(text_of(values, 6))
    keys = {"path": str(tmp_path / "f.csv"), "source_length": 3, "missing": "interpolate"}
    with pytest.raises(DataError, match="the train part has no observed 'y' in its targets"):
        load_data(OwnFile.model_validate(keys))
