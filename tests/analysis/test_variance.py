"""The variance components of a crossed design, against hand calculation and a simulated table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.comparison.reading import read_comparison
from seqattn.analysis.comparison.variance import VarianceComponents, describe_components
from seqattn.config.comparing import derive_data_seed, plan_comparison
from seqattn.errors import ConfigError
from tests.cli.small import SETS
from tests.conftest import Ended


def test_components_of_a_table_of_two_by_two_by_hand() -> None:
    # Means of rows 2 and 8, of columns 4 and 6, of all 5. Residuals +1, -1, -1, +1.
    # Mean squares: rows 2 (9 + 9) = 36, columns 2 (1 + 1) = 4, rest 4.
    found = VarianceComponents.of(np.array([[2.0, 2.0], [6.0, 10.0]]))
    assert found.estimates == pytest.approx({"data": (36 - 4) / 2, "seeds": 0, "rest": 4})
    assert found.deviations == pytest.approx({"data": 4, "seeds": 0, "rest": 2})
    assert found.shares == pytest.approx({"data": 0.8, "seeds": 0, "rest": 0.2})
    words = found.describe("plain", "loss")
    assert words == (
        "plain: with 2 data sets x 2 seeds, most of the variance of the loss comes from the data."
        " Standard deviations: data 4 (80% of the variance), seeds 0 (0% of the variance), rest 2"
        " (20% of the variance)."
    )


def test_components_of_simulated_tables_are_unbiased() -> None:
    rng, D, W = np.random.default_rng(11), 5, 7
    deviations = {"data": 3.0, "seeds": 0.5, "rest": 1.0}
    tables = [
        9 + rng.normal(0, 3, (D, 1)) + rng.normal(0, 0.5, (1, W)) + rng.normal(0, 1, (D, W))
        for _ in range(4000)
    ]
    found = [VarianceComponents.of(table).estimates for table in tables]
    for source, deviation in deviations.items():
        values = np.array([each[source] for each in found])
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - deviation**2) < 4 * error


def test_a_negative_estimate_is_reported_as_0() -> None:
    # Rows and columns have equal means, so that only the residuals of 1 remain.
    found = VarianceComponents.of(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert found.estimates == pytest.approx({"data": -2, "seeds": -2, "rest": 4})
    words = found.describe("", "symbol_error_rate")
    assert "variance of the symbol error rate comes from the combination of data and seed" in words
    assert words.endswith("A negative estimate is reported as 0: data, seeds.")
    equal = describe_components("", "loss", [{1: 3.0, 2: 3.0}] * 2, (1, 2))
    assert equal == "with 2 data sets x 2 seeds, all runs have the same loss."
    lacking = describe_components("a", "loss", [{1: 3.0, 2: np.inf}, {1: 3.0}], (1, 2))
    assert "2 of 4 runs have no finite value" in lacking


def test_a_crossed_design_trains_each_data_set_with_each_seed(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    options = ("compare", "squares", *SETS, "--vary", "model.cell=gru,rnn", "--seeds", "2",
               "--variance", "3", "--name", "crossed")  # fmt: skip
    done = seqattn(*options)
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert text.count("with 3 data sets x 2 seeds, ") == 2
    assert "are not tested against each other in this design" in text
    folder = tmp_path / "outputs/crossed"
    names = [f"{cell}_data-{d}" for cell in ("gru", "rnn") for d in (1, 2, 3)]
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == sorted(names)
    result = read_comparison(folder)
    assert result.pairs == ()
    manifest = json.loads((folder / "comparison.json").read_text())
    for variant in result.variants:
        d = int(variant.sweep_value or 0)
        seeds = manifest["variants"][variant.name]["data"]
        assert seeds["train_seed"] == derive_data_seed(13, 22 + d, "train")
        assert seeds["test_seed"] == derive_data_seed(19, 22 + d, "test")
        assert list(variant.folders) == [23, 24]
    assert "## Pairs" not in (folder / "comparison.md").read_text()
    assert (folder / "along.png").is_file()
    assert seqattn(*options).code == 0


def test_a_crossed_design_of_one_config_and_its_contradictions() -> None:
    plan = plan_comparison({"name": "one", "compare": {"variance": 4, "seeds": 3}})
    assert [variant.name for variant in plan.variants] == [f"data-{d}" for d in (1, 2, 3, 4)]
    with pytest.raises(ConfigError, match="--along: cannot be combined with --variance"):
        plan_comparison({"name": "one"}, along="seed=2,3", questions={"variance": 2})
    with pytest.raises(ConfigError) as caught:
        plan_comparison({"name": "one"}, resample_data=False, questions={"variance": 2})
    assert "variance: needs data sets of its own" in " ".join(caught.value.mistakes)
    section = {"along": {"model.hidden_dim": [2, 3]}, "variance": 2}
    with pytest.raises(ConfigError) as caught:
        plan_comparison({"name": "one", "compare": section})
    assert "variance: and along cannot both be set" in " ".join(caught.value.mistakes)
    own = {"name": "own", "data": {"kind": "file", "path": "a.csv"}}
    with pytest.raises(ConfigError, match="requires generated data"):
        plan_comparison(own, questions={"variance": 2})
