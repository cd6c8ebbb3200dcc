"""One contract for every combination that the config allows; every other is refused with a reason.

Every size is another prime (with two heads the width is twice one), so no transposed axis passes.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from seqattn.config import Model, Recurrent, all_keys
from seqattn.experiments.contract.case import (
    A,
    CheckWarningError,
    ContractCase,
    H,
    N,
    NotApplicableError,
    S,
    T,
)
from seqattn.experiments.contract.model_checks import (
    check_batch,
    check_decoder_steps,
    check_output_shapes,
    check_padding,
    check_weights,
)
from seqattn.experiments.contract.training_checks import check_gradients, check_runs
from seqattn.models import TransformerModel

SCORES = sorted({tag for path, _, tag in all_keys() if path == ("model", "attention", "score")})
NORMALIZERS: list[dict[str, Any]] = [
    {"normalizer": "softmax"},
    {"normalizer": "sparsemax"},
    {"normalizer": "entmax", "alpha": "learned"},
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
    {"kind": "monotonic", "offset": 0.0},
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
    assert len(every) == 172 * 4 * 24
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
    for positions, (norm, dropout), heads, layers in itertools.product(
        ("relative", "alibi", "rotary"), (("pre", 0.3), ("post", 0.0)), (1, A), (1, 3)
    ):
        yield {
            "kind": "transformer", "positions": positions, "norm": norm, "heads": heads,
            "layers": layers, "dropout": dropout, "feedforward_dim": 13,
            "model_dim": H * heads * (2 if positions == "rotary" else 1),
            "max_distance": 2 if positions == "relative" else None,
        }  # fmt: skip


def allowed(config: dict[str, Any]) -> bool:
    """The rules, written down a second time."""
    attention = config["attention"]
    tanh = config.get("readout") == "tanh"
    if config["context"] == "input" and (config.get("input_feeding") or tanh):
        return False
    if attention is None:
        return config["context"] == "output" and not (config.get("input_feeding") or tanh)
    if attention["score"] == "coverage" and attention.get("location") is not None:
        return False
    if (attention.get("location") or {}).get("kind") == "monotonic":
        return attention["normalizer"] == "softmax" and attention["score"] != "uniform"
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
    assert len(SCORES) == 8
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
    assert len(reasons) == 15, reasons
    assert len(EVERY) == 8 * 5 * 4 * 4 * 2 + 3 * 2 * 2 * 2 * 4 * 2 + 8 * 4 * 2
    # 6 scores x (3 soft x 3 places + 2 hard + softmax in the monotonic place) + uniform x 3 soft
    # x 3 places + coverage x 5, 3 contexts, 2 heads;
    # a readout of tanh with each score, with input_feeding and without
    assert len(ALLOWED) == (6 * 12 + 9 + 5) * 3 * 2 + 24 * (3 + 1) + 8 * 2
    with capsys.disabled():
        every = ALLOWED + MIXED + OTHERS + WITH_SKIP
        print(f" [{len(every)} combinations held to the contract,"
              f" {len(EVERY) - len(ALLOWED)} refused]", end="")  # fmt: skip


MODEL: TypeAdapter[Model] = TypeAdapter(Model)


def validated(config: dict[str, Any]) -> Model:
    return MODEL.validate_python(config)


def case_of(config: dict[str, Any]) -> ContractCase:
    return ContractCase(validated(config))


@pytest.mark.parametrize("config", ALLOWED + MIXED + OTHERS + WITH_SKIP, ids=name_of)
def test_padding_changes_nothing_and_weights_are_what_they_say(config: dict[str, Any]) -> None:
    case = case_of(config)
    check_output_shapes(case)
    check_padding(case)
    check_batch(case)
    heads = config.get("heads", (config.get("attention") or {}).get("heads", 1))
    layers = config["layers"] if config.get("kind") == "transformer" else 1
    free = case.free
    if config.get("attention", 1) is None:
        assert free.attention == ()
        return
    check_weights(case)
    kinds = KINDS if config.get("kind") == "transformer" else KINDS[:1]
    seen = [(shown.kind, shown.layer) for shown in free.attention]
    assert seen == [(kind, layer) for kind in kinds for layer in range(layers)]
    for shown in free.attention:
        size = {"cross": (T, S), "encoder_self": (S, S), "decoder_self": (T, T)}[shown.kind]
        assert shown.weights.shape == (N, heads, *size)
        if shown.meaning == "strength":
            assert config["kind"] == "fast_weights"
            assert (shown.weights < 0).any()
    attention = config.get("attention") or {}
    place = (attention.get("location") or {}).get("kind")
    if attention.get("normalizer") == "hard" or place == "monotonic":
        weights = free.attention[0].weights
        assert ((weights == 0) | (weights == 1)).all()


@pytest.mark.parametrize("config", ALLOWED + MIXED + OTHERS + WITH_SKIP, ids=name_of)
def test_one_step_at_a_time(config: dict[str, Any]) -> None:
    """A segment of known inputs against its single steps, and free running against forcing."""
    case = case_of(config)
    check_decoder_steps(case)
    assert case.forces_every_step == isinstance(case.model, TransformerModel)


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
    check_runs(case_of(config))


@pytest.mark.parametrize("config", covering(ALLOWED, 2) + OTHERS[::5] + WITH_SKIP[::9], ids=name_of)
def test_gradients_are_those_of_central_differences(config: dict[str, Any]) -> None:
    try:
        check_gradients(case_of(config))
    except NotApplicableError:
        attention = config["attention"]
        is_monotonic = (attention["location"] or {}).get("kind") == "monotonic"
        assert is_monotonic or attention["normalizer"] == "hard"
    except CheckWarningError as warning:  # without attention, nothing reads the encoder's states
        assert "encoder" in str(warning)
        assert config["attention"] is None
