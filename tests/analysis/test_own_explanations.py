"""Scores, normalizers and locations explain themselves; those that do not show the model's numbers."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import seqattn.analysis.explanation
from seqattn.analysis.explanation import Explanation, explain
from seqattn.config import Attention as AttentionConfig
from seqattn.config import Location as LocationConfig
from seqattn.config import Recurrent, ScoreConfig
from seqattn.models import RecurrentModel, Seq2SeqModel, build_model
from seqattn.models.attention import (
    Attention,
    DotScore,
    Location,
    Normalizer,
    Score,
    Softmax,
    StraightThrough,
    build_attention,
)
from seqattn.models.attention.arithmetic import Array, AttentionStep, as_printed
from seqattn.models.attention.location_based import LOCATIONS
from seqattn.models.attention.normalizers import NORMALIZERS, NormalizerOutput
from seqattn.models.attention.scores import SCORES, ExplainedScores, split_heads

S, F, H, STEP = 5, 2, 6, 2
SOURCE = np.random.default_rng(3).normal(size=(S, F))


class DistanceConfig(ScoreConfig):
    score: Literal["distance"] = "distance"
    slope: float = 2.0


class Distance(Score):
    """-slope |q - k|^2, without an explanation."""

    def __init__(self, slope: float, heads: int = 1) -> None:
        super().__init__(heads)
        self.slope = slope

    @classmethod
    def from_config(cls, config: DistanceConfig, hidden: int) -> Self:
        return cls(config.slope, config.heads)

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(encoded, self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries = split_heads(queries, self.heads)
        return -self.slope * (queries.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1)


class ExplainedDistance(Distance):
    def explain(self, step: AttentionStep) -> ExplainedScores:
        query, keys = step.add_state_as_query(), step.add_states_as_keys()
        squares = as_printed(((keys - query) ** 2).sum(axis=1))
        columns = {"|k - q|^2": squares, "score": -self.slope * squares}
        formula = f"score = -{self.slope:g} |k - q|^2"
        return ExplainedScores(query, keys, step.record.add_columns("Scores", formula, columns))


class Doubled(DotScore):
    """Changes the arithmetic of its parent, and has no words for it."""

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 2 * super().scores(queries, keys)


class Squared(Normalizer):
    """Score squared over their sum, without an explanation."""

    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        squares = scores.masked_fill(scores.isinf(), 0).square()
        return NormalizerOutput(squares / squares.sum(dim=-1, keepdim=True))


class ExplainedSquared(Squared):
    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Array) -> Array:
        squares = as_printed(np.where(inside, scores**2, 0))
        columns = {"score^2": squares, "weight": squares / squares.sum()}
        return step.record.add_columns(name, "weight = score^2 / sum of these", columns)


class Sharper(Softmax):
    """Changes the arithmetic of its parent, and has no words for it."""

    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        return super().normalize(3 * scores, keep, u)


class FirstHalf(Location):
    """The content weights of the first places, without an explanation."""

    @classmethod
    def from_config(cls, config: Any, hidden: int, heads: int) -> Self:
        return cls()

    def attention_weights(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, None]:  # fmt: skip
        places = torch.arange(scores.shape[-1])
        return normalizer.normalize(scores, keep, None).weights * (places < 3), None


@pytest.fixture
def registered() -> Iterator[None]:
    SCORES[DistanceConfig] = ExplainedDistance
    yield
    del SCORES[DistanceConfig]


def model_with(**parts: Any) -> RecurrentModel:
    """Whose attention has other parts."""
    heads = parts["score"].heads if "score" in parts else 1
    config = Recurrent.model_validate(
        {"hidden_dim": H, "attention": {"score": "dot", "heads": heads}}
    )
    model = build_model(config, F, 3).double()
    assert isinstance(model, RecurrentModel)
    model.attention = Attention(**({"score": DotScore()} | parts))
    return model


def explained(model: Seq2SeqModel, **options: int) -> Explanation:
    return explain(model, SOURCE, step=STEP, features=["x", "y"], title="one", **options)


def column(made: Explanation, name: str) -> NDArray[np.float64]:
    (stage,) = (stage for stage in made.stages if stage.name == name)
    return np.array([numbers[-1] for _, numbers in stage.rows])


def weights_of(model: Seq2SeqModel, head: int = 0) -> Any:
    forecast = model.forecast(torch.as_tensor(SOURCE)[None], STEP)
    return forecast.attention[0].weights[0, head, -1].detach().numpy()


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("heads", [1, 2])
def test_a_score_that_only_this_test_knows_is_built_and_explained(heads: int) -> None:
    attention = DistanceConfig(slope=0.5, heads=heads)
    assert isinstance(build_attention(attention, H).score, ExplainedDistance)
    config = Recurrent(hidden_dim=H).model_copy(update={"attention": attention})
    model = build_model(config, F, 3).double()
    made = explained(model, head=heads - 1)
    (stage,) = (stage for stage in made.stages if stage.name == "Scores")
    assert stage.formula == "score = -0.5 |k - q|^2"
    squares, scores = np.array([numbers for _, numbers in stage.rows]).T
    np.testing.assert_allclose(scores, -0.5 * squares, atol=0.5001e-4)
    assert "Scores" not in made.computed_by_model
    np.testing.assert_allclose(column(made, "Weights"), weights_of(model, heads - 1), atol=2e-4)
    np.testing.assert_allclose(made.prediction, made.model_prediction, atol=2e-3)


def test_a_class_is_registered_by_its_config() -> None:
    class Local(Distance, config=DistanceConfig):
        pass

    try:
        assert SCORES[DistanceConfig] is Local
    finally:
        del SCORES[DistanceConfig]


@pytest.mark.parametrize("heads", [1, 2])
def test_a_score_without_an_explanation_shows_its_numbers(heads: int) -> None:
    model = model_with(score=Distance(2.0, heads))
    made = explained(model, head=heads - 1)
    (stage,) = (stage for stage in made.stages if stage.name == "Scores")
    assert stage.formula == "by Distance, which does not explain its arithmetic"
    assert "Scores" in made.computed_by_model
    names = [stage.name for stage in made.stages]
    assert "Query" not in names and "Keys" not in names and "query" not in made.vectors
    np.testing.assert_allclose(column(made, "Weights"), weights_of(model, heads - 1), atol=2e-4)
    assert made.vectors["keys"].shape == (S, H // heads)


def test_a_normalizer_explains_itself_or_shows_its_numbers() -> None:
    for normalizer, formula in (
        (Squared(), "by Squared, which does not explain its arithmetic"),
        (ExplainedSquared(), "weight = score^2 / sum of these"),
    ):
        model = model_with(normalizer=normalizer)
        made = explained(model)
        (stage,) = (stage for stage in made.stages if stage.name == "Weights")
        assert stage.formula == formula
        assert ("Weights" in made.computed_by_model) == (type(normalizer) is Squared)
        np.testing.assert_allclose(column(made, "Weights"), weights_of(model), atol=2e-3)


def test_a_location_without_an_explanation_shows_its_numbers() -> None:
    model = model_with(location=FirstHalf())
    made = explained(model)
    (stage,) = (stage for stage in made.stages if stage.name == "Weights")
    assert stage.formula == "by FirstHalf, which does not explain its arithmetic"
    assert (column(made, "Weights")[3:] == 0).all()
    np.testing.assert_allclose(column(made, "Weights"), weights_of(model), atol=1e-4)


def test_a_subclass_is_not_explained_by_arithmetic_that_it_changed() -> None:
    for parts, stage in (({"score": Doubled()}, "Scores"), ({"normalizer": Sharper()}, "Weights")):
        model = model_with(**parts)
        made = explained(model)
        assert stage in made.computed_by_model
        np.testing.assert_allclose(column(made, "Weights"), weights_of(model), atol=2e-4)
    plain = explained(model_with(score=DotScore()))
    assert explained(model_with(normalizer=StraightThrough())).computed_by_model == (
        plain.computed_by_model
    )


def test_every_section_of_the_config_has_its_class() -> None:
    for union, known in ((AttentionConfig, SCORES), (LocationConfig, LOCATIONS)):
        sections = {*get_args(get_args(union)[0])}
        assert sections == set(known)
    fields = ScoreConfig.model_fields
    names = get_args(fields["normalizer"].annotation)
    estimators = [
        name for each in get_args(fields["estimator"].annotation) for name in get_args(each)
    ]
    wanted = {(name, None) for name in names if name != "hard"}
    assert wanted | set(itertools.product(["hard"], estimators)) == set(NORMALIZERS)


def test_no_score_normalizer_or_location_is_named_in_the_explanation() -> None:
    """What is named there would have to be named there for every new one, too."""
    for known in (SCORES, NORMALIZERS, LOCATIONS):
        assert all("explain" in dir(each) for each in known.values())
    classes = {
        each.__name__ for known in (SCORES, NORMALIZERS, LOCATIONS) for each in known.values()
    }
    for path in Path(seqattn.analysis.explanation.__file__).parent.glob("*.py"):
        names = {
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        }
        assert not names & classes, path.name
