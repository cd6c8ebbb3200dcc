"""One contract for every combination that the config allows; every other is refused with a reason.

Every size is another prime (with two heads the width is twice one), so no transposed axis passes.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from seqattn.config import Model, Recurrent, all_keys
from seqattn.models import (
    FeatureSpec,
    Lengths,
    ModelOutput,
    RecurrentModel,
    Seq2SeqModel,
    TransformerModel,
    build_model,
)
from seqattn.training.batches import Batch
from seqattn.training.objective import AutogradLoss
from seqattn.training.stacked_params import StackedParams
from seqattn.training.step_rng import StepRNG

N, S, T, F, H, A, RUNS = 3, 7, 5, 2, 11, 2, 2
TARGET_DIM = 3
POINTS = FeatureSpec(F, TARGET_DIM, (1, -1, 0))  # the source lacks the second target feature
LENGTHS = torch.tensor([7, 1, 4])
SKIP_SOURCE_LENGTH = 4  # valid steps of every source of a model with a skip
EXACT: dict[str, Any] = {"atol": 1e-11, "rtol": 0}

SCORES = sorted({tag for path, _, tag in all_keys() if path == ("model", "attention", "score")})
NORMALIZERS: list[dict[str, Any]] = [
    {"normalizer": "softmax"},
    {"normalizer": "sparsemax"},
    {"normalizer": "hard", "estimator": "straight_through"},
    {"normalizer": "hard", "estimator": "reinforce"},
]
CONTEXTS: list[dict[str, Any]] = [
    {"context": "output"}, {"context": "input"}, {"context": "output", "input_feeding": True},
    {"context": "input", "input_feeding": True},
]  # fmt: skip
MIXED_CONTEXTS: list[dict[str, Any]] = [
    *CONTEXTS[:3], {"context": "output", "readout": "tanh"},
]  # fmt: skip
LOCATIONS: list[dict[str, Any] | None] = [
    None, {"kind": "location_shift", "shift_range": 3}, {"kind": "local", "window": 2},
]  # fmt: skip
CELLS = ("gru", "lstm", "rnn")


def combinations() -> Iterator[dict[str, Any]]:
    """Every score x normalizer x context x location x heads on a GRU; and every cell x layers x
    direction x dropout x context, with attention and without."""
    for score, normalizer, context, location, heads in itertools.product(
        SCORES, NORMALIZERS, CONTEXTS, LOCATIONS, (1, A)
    ):
        attention = {"score": score, "heads": heads, "location": location} | normalizer
        yield {"hidden_dim": H * heads, "attention": attention} | context
    for cell, layers, two_way, dropout, context, attended in itertools.product(
        CELLS, (1, 3), (False, True), (0.0, 0.3), CONTEXTS, (True, False)
    ):
        yield {
            "cell": cell, "layers": layers, "bidirectional": two_way, "dropout": dropout,
            "hidden_dim": H, "attention": {"score": "general"} if attended else None,
        } | context  # fmt: skip
    for (score, normalizer), context, attended in itertools.product(
        zip(SCORES, itertools.cycle(NORMALIZERS[:2])), CONTEXTS, (True, False)
    ):
        attention = {"score": score, "heads": A} | normalizer
        yield {
            "readout": "tanh", "hidden_dim": H * A, "attention": attention if attended else None,
        } | context  # fmt: skip


def mixtures() -> list[dict[str, Any]]:
    """All of these at once: every one with CONTRACT=all (`make contract`), else a fixed sample."""
    every = []
    for attended, cell, layers, two_way, dropout in itertools.product(
        itertools.product(SCORES, NORMALIZERS, MIXED_CONTEXTS, LOCATIONS, (1, A)),
        CELLS, (1, 3), (False, True), (0.0, 0.3),
    ):  # fmt: skip
        score, normalizer, context, location, heads = attended
        config = {
            "cell": cell, "layers": layers, "bidirectional": two_way, "dropout": dropout,
            "hidden_dim": H * heads,
            "attention": {"score": score, "heads": heads, "location": location} | normalizer,
        } | context  # fmt: skip
        if allowed(config):
            every.append(config)
    assert len(every) == 92 * 4 * 24
    if os.environ.get("CONTRACT") == "all":
        return every
    return random.Random(0).sample(every, 60)


def other_families() -> Iterator[dict[str, Any]]:
    for layer_norm, inner_steps in itertools.product((True, False), (1, 3)):
        yield {
            "kind": "fast_weights", "hidden_dim": H, "layer_norm": layer_norm,
            "inner_steps": inner_steps,
        }  # fmt: skip
    for positions, norm, heads, layers, dropout in itertools.product(
        ("sinusoidal", "learned", "none"), ("pre", "post"), (1, A), (1, 3), (0.0, 0.3)
    ):
        yield {
            "kind": "transformer", "positions": positions, "norm": norm, "heads": heads,
            "layers": layers, "dropout": dropout, "model_dim": H * heads, "feedforward_dim": 13,
            "longest": 17 if positions == "learned" else None,
        }  # fmt: skip


def allowed(config: dict[str, Any]) -> bool:
    """The rules, written down a second time."""
    attention = config["attention"]
    tanh = config.get("readout") == "tanh"
    if config["context"] == "input" and (config.get("input_feeding") or tanh):
        return False
    if attention is None:
        return config["context"] == "output" and not (config.get("input_feeding") or tanh)
    hard = attention.get("normalizer") == "hard"
    return not (hard and (attention["score"] == "uniform" or attention["location"] is not None))


EVERY = list(combinations())
ALLOWED = [config for config in EVERY if allowed(config)]
MIXED = mixtures()
OTHERS = list(other_families())


def covering(configs: list[dict[str, Any]], strength: int = 3) -> list[dict[str, Any]]:
    """Some of them, with every combination of so many values that is in any; all with CONTRACT=all.

    A config is a set of dotted keys and values; one is taken, in turn, if it has a combination that
    none before it had. They are gone through in a fixed order that mixes them.
    """

    def values(config: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
        for key, value in config.items():
            if isinstance(value, dict) and key != "location":
                yield from values(value, f"{path}{key}.")
            else:
                yield f"{path}{key}", repr(value)

    if os.environ.get("CONTRACT") == "all":
        return configs
    seen, chosen = set[tuple[tuple[str, str], ...]](), []
    for place in random.Random(1).sample(range(len(configs)), len(configs)):
        here = set(itertools.combinations(sorted(values(configs[place])), strength))
        if here - seen:
            seen |= here
            chosen.append(place)
    return [configs[place] for place in sorted(chosen)]


RECURRENT_WITH_SKIP = [config | {"skip": "linear"} for config in (ALLOWED + MIXED)[::11]]
WITH_SKIP = RECURRENT_WITH_SKIP + [config | {"skip": "linear"} for config in OTHERS[::3]]
KINDS = ("cross", "encoder_self", "decoder_self")


def name_of(config: dict[str, Any]) -> str:
    def flat(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if inner not in (None, False, 0.0) and key not in ("window", "shift_range"):
                    yield from flat(inner)
        else:
            yield str(value)

    return " ".join(flat(config)) + (" plain" if config.get("attention", 1) is None else "")


def test_every_other_combination_is_refused_with_a_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(SCORES) == 6
    reasons: dict[str, int] = {}
    for config in EVERY:
        if config in ALLOWED:
            Recurrent.model_validate(config)
            continue
        with pytest.raises(ValidationError) as caught:
            Recurrent.model_validate(config)
        for error in caught.value.errors():
            assert error["type"] == "contradiction", error
            reasons[error["msg"]] = reasons.get(error["msg"], 0) + 1
    assert len(reasons) == 8, reasons
    assert len(EVERY) == 6 * 4 * 4 * 3 * 2 + 3 * 2 * 2 * 2 * 4 * 2 + 6 * 4 * 2
    # 5 scores x (2 soft x 3 places + 2 hard) + uniform x 2 soft x 3 places, 3 contexts, 2 heads;
    # a readout of tanh with each score, with input_feeding and without
    assert len(ALLOWED) == (5 * 8 + 6) * 3 * 2 + 24 * (3 + 1) + 6 * 2
    with capsys.disabled():
        every = ALLOWED + MIXED + OTHERS + WITH_SKIP
        print(f" [{len(every)} combinations held to the contract,"
              f" {len(EVERY) - len(ALLOWED)} refused]", end="")  # fmt: skip


def model_of(config: dict[str, Any], seed: int = 1) -> Seq2SeqModel:
    model = build_model(validated(config), POINTS, seed, Lengths(SKIP_SOURCE_LENGTH, T)).double()
    if model.skip is not None:  # what starts at zero would hide everything else
        numbers = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if not parameter.any():
                    parameter.uniform_(-0.3, 0.3, generator=numbers)
    return model


def lengths_of(config: dict[str, Any]) -> Tensor:
    return torch.full((N,), SKIP_SOURCE_LENGTH) if config.get("skip") == "linear" else LENGTHS


MODEL: TypeAdapter[Model] = TypeAdapter(Model)


def validated(config: dict[str, Any]) -> Model:
    return MODEL.validate_python(config)


def sequences(lengths: Tensor = LENGTHS, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sources whose padding is NaN, and targets."""
    numbers = torch.Generator().manual_seed(seed)
    source = torch.randn(N, S, F, generator=numbers, dtype=torch.float64)
    target = torch.randn(N, T, TARGET_DIM, generator=numbers, dtype=torch.float64)
    source[torch.arange(S) >= lengths[:, None]] = math.nan
    return source, target


@pytest.mark.parametrize("config", ALLOWED + MIXED + OTHERS + WITH_SKIP, ids=name_of)
def test_padding_changes_nothing_and_weights_are_what_they_say(config: dict[str, Any]) -> None:
    model, lengths = model_of(config), lengths_of(config)
    source, target = sequences(lengths)
    with torch.no_grad():
        free = model.forecast(source, T, source_lengths=lengths)
        blind = model.forecast(source, T, source_lengths=lengths, with_attention=False)
        shorter = model.forecast(source, T - 1, source_lengths=lengths)
        torch.testing.assert_close(shorter.values, free.values[:, :-1], **EXACT)
        torch.testing.assert_close(blind.values, free.values, **EXACT)
        assert blind.attention == ()
        for n, length in enumerate(lengths.tolist()):
            alone = model.forecast(source[n : n + 1, :length], T)
            torch.testing.assert_close(alone.values[0], free.values[n], **EXACT)
            for one, both in zip(alone.attention, free.attention, strict=True):
                assert (one.kind, one.layer, one.meaning) == (both.kind, both.layer, both.meaning)
                rows = length if both.kind == "encoder_self" else T
                columns = T if both.kind == "decoder_self" else length
                weights = both.weights[n]
                torch.testing.assert_close(one.weights[0], weights[:, :rows, :columns], **EXACT)
                assert (weights[..., columns:] == 0).all()
                assert (weights[:, rows:] == 0).all()
        check_teacher_forcing(model, source, target, lengths, free)
    heads = config.get("heads", (config.get("attention") or {}).get("heads", 1))
    layers = config["layers"] if config.get("kind") == "transformer" else 1
    if config.get("attention", 1) is None:
        assert free.attention == ()
        return
    kinds = KINDS if config.get("kind") == "transformer" else KINDS[:1]
    seen = [(shown.kind, shown.layer) for shown in free.attention]
    assert seen == [(kind, layer) for kind in kinds for layer in range(layers)]
    for shown in free.attention:
        size = {"cross": (T, S), "encoder_self": (S, S), "decoder_self": (T, T)}[shown.kind]
        assert shown.weights.shape == (N, heads, *size)
        if shown.meaning == "strength":
            assert config["kind"] == "fast_weights"
            assert (shown.weights < 0).any()
            continue
        assert (shown.weights >= 0).all()
        sums = shown.weights.sum(-1)
        if shown.kind == "encoder_self":  # rows of padding are 0
            sums = sums[(torch.arange(S) < lengths[:, None])[:, None].expand_as(sums)]
        if shown.meaning == "partial":
            assert (sums <= 1 + 1e-12).all()
            assert (sums > 0).all()
        else:
            torch.testing.assert_close(sums, torch.ones_like(sums), **EXACT)
    if (config.get("attention") or {}).get("normalizer") == "hard":
        weights = free.attention[0].weights
        assert ((weights == 0) | (weights == 1)).all()


def check_teacher_forcing(
    model: Seq2SeqModel, source: Tensor, target: Tensor, lengths: Tensor, free: ModelOutput
) -> None:
    """Without teacher forcing a model runs free; with teacher forcing on its own forecast it gives
    that forecast."""
    always = torch.ones(T, dtype=torch.bool)
    its_own = model(source, free.values, source_lengths=lengths, teacher_forcing=always)
    torch.testing.assert_close(its_own.values, free.values, **EXACT)
    for one, both in zip(its_own.attention, free.attention, strict=True):
        torch.testing.assert_close(one.weights, both.weights, **EXACT)
    if isinstance(model, TransformerModel):
        with pytest.raises(ValueError, match="teacher forcing at every step"):
            model(source, target, source_lengths=lengths, teacher_forcing=~always)
        return
    forced_free = model(source, target, source_lengths=lengths, teacher_forcing=~always)
    torch.testing.assert_close(forced_free.values, free.values, **EXACT)
    mixed = torch.arange(N * T).view(N, T) % 3 == 0
    forced = model(source, target, source_lengths=lengths, teacher_forcing=always)
    mixed_output = model(source, target, source_lengths=lengths, teacher_forcing=mixed)
    torch.testing.assert_close(mixed_output.values[:, 0], forced.values[:, 0], **EXACT)
    assert not torch.allclose(mixed_output.values[:, 1:], forced.values[:, 1:])


@pytest.mark.parametrize("config", ALLOWED + MIXED + RECURRENT_WITH_SKIP, ids=name_of)
def test_one_step_at_a_time(config: dict[str, Any]) -> None:
    """A segment of known inputs against its single steps."""
    model, lengths = model_of(config), lengths_of(config)
    assert isinstance(model, RecurrentModel)
    source, target = sequences(lengths)
    with torch.no_grad():
        always = model(
            source, target, source_lengths=lengths,
            teacher_forcing=torch.ones(T, dtype=torch.bool),
        )  # fmt: skip
        _, state, x = model.encode(source, lengths)
        memory = model.encode(source, lengths).memory
        skips = model.skip_outputs(source, lengths, [1] * T)
        for t in range(T):  # one step at a time, against the segment of all
            output, attended, state = model.step(x, state, memory)
            added = skips[t]
            output = output if added is None else output + added
            torch.testing.assert_close(always.values[:, [t]], output, **EXACT)
            x = target[:, t]
            if attended is not None:
                shown = always.attention[0].weights[..., [t], :]
                torch.testing.assert_close(shown, attended.weights.view_as(shown), **EXACT)


def test_the_covering_sample_has_every_triple() -> None:
    def triples(configs: list[dict[str, Any]]) -> set[tuple[object, ...]]:
        rows = [(c.get("cell"), c["context"], c.get("input_feeding"), *(
            (a["score"], a.get("normalizer"), a.get("estimator"), repr(a.get("location")), a.get("heads"))
            if (a := c["attention"]) else (None,) * 5
        )) for c in configs]  # fmt: skip
        return {(k, values) for row in rows for k in itertools.combinations(range(8), 3)
                if (values := tuple(row[i] for i in k))}  # fmt: skip

    chosen = covering(ALLOWED)
    assert len(chosen) < 0.6 * len(ALLOWED) or os.environ.get("CONTRACT") == "all"
    assert triples(chosen) == triples(ALLOWED)


@pytest.mark.parametrize("config", covering(ALLOWED) + MIXED + OTHERS + WITH_SKIP, ids=name_of)
def test_a_step_of_run_k_of_many_is_the_step_of_the_run_alone(config: dict[str, Any]) -> None:
    """Loss and gradient of a training step with its own coins, dropout and choices."""
    numbers = torch.Generator().manual_seed(3)
    source = torch.randn(RUNS, N, S, F, generator=numbers, dtype=torch.float64)
    target = torch.randn(RUNS, N, T, TARGET_DIM, generator=numbers, dtype=torch.float64)
    lengths = torch.stack([lengths_of(config), lengths_of(config).flip(0)])
    source[torch.arange(S) >= lengths[..., None]] = math.nan
    keep = torch.arange(T) < torch.tensor([[5, 2, 3], [1, 5, 4]]).unsqueeze(-1)
    coins = torch.rand(RUNS, N, T, generator=numbers) < 0.5
    if config.get("kind") == "transformer":
        coins = torch.ones(RUNS, N, T, dtype=torch.bool)
    seeds = [4, 9]
    models = [model_of(config, seed) for seed in seeds]
    stack = StackedParams([model_of(config, seed) for seed in seeds])
    draws = StepRNG(seeds, 2, 3, stack.weights)
    batch = Batch(source, target, lengths, keep)
    losses = AutogradLoss(stack.model, stack).value_and_grad(batch, coins, draws)
    together = stack.gradient.clone()
    assert together.isfinite().all()
    for k, seed in enumerate(seeds):
        alone = StackedParams([models[k]])
        batch = Batch(source[k], target[k], lengths[k], keep[k])
        draws = StepRNG([seed], 2, 3, alone.weights)
        loss = AutogradLoss(alone.model, alone).value_and_grad(batch, coins[k], draws)
        torch.testing.assert_close(losses[k], loss, **EXACT)
        torch.testing.assert_close(together[[k]], alone.gradient, **EXACT)
        assert together[k].abs().max() > 1e-6
