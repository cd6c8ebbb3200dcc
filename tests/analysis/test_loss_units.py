"""Losses in different units are not compared, and pictures and tables name the units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.comparison import describe_result, read_comparison
from seqattn.analysis.comparison.formats import table_text
from seqattn.analysis.comparison.reading import read_results
from seqattn.analysis.comparison.result import ComparisonResult
from seqattn.analysis.comparison.tables import markdown
from seqattn.config.comparing import plan_comparison
from seqattn.experiments.compare import run_comparison
from tests.conftest import Ended

CONFIG = """
name: {name}
data: {{kind: file, path: small.csv, source_length: 3, scaling: {scaling}}}
model: {{hidden_dim: 3}}
training: {{epochs: 1}}
"""


def write_series(path: str, size: float) -> None:
    numbers = np.random.default_rng(1).normal(size=(30, 5)) * size
    rows = [f"{k},{t},{x:.6f}\n" for k, values in enumerate(numbers) for t, x in enumerate(values)]
    Path(path).write_text("series,step,x\n" + "".join(rows))


def compared(name: str, *vary: str, scaling: str = "standard") -> ComparisonResult:
    Path("c.yaml").write_text(CONFIG.format(name=name, scaling=scaling))
    return run_comparison(
        plan_comparison(Path("c.yaml"), vary=list(vary), seeds=2), Path("outputs")
    )


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pictures: None) -> None:
    monkeypatch.chdir(tmp_path)
    write_series("small.csv", 1.0)
    write_series("large.csv", 10.0)


def test_scales_that_were_fitted_to_different_files_are_different_units() -> None:
    result = compared("files", "data.path=small.csv,large.csv")
    assert (result.same_units, result.pairs) == (False, ())
    text = " ".join(describe_result(result))
    assert "data.scaling was fitted to different training data" in text
    assert "each variant in its own units" in markdown(result)
    again = read_comparison(Path("outputs/files"))  # the files differ, and nothing is wrong
    assert (again.same_units, again.pairs) == (False, ())
    both = [Path(f"outputs/files/{name}.csv/seed-23") for name in ("small", "large")]
    assert not read_results(both).same_units


def test_variants_with_one_scale_are_compared_in_its_unit() -> None:
    result = compared("models", "model.cell=gru,rnn")
    assert result.same_units
    assert len(result.pairs) == 1
    assert "on the test sequences, scaled units." in markdown(result)


def test_losses_without_scaling_have_the_units_of_the_data() -> None:
    result = compared("plain", "data.path=small.csv,large.csv", scaling="none")
    assert result.same_units
    assert result.unit_text == ""
    assert len(result.pairs) == 1
    assert "different test sequences" in " ".join(describe_result(result))


@pytest.mark.parametrize("vary", ["data.features=[x],[y]", "data.units={x: m},{x: mm}"])
def test_losses_of_other_features_and_other_units_are_not_compared(vary: str) -> None:
    numbers = np.random.default_rng(1).normal(size=(30, 5, 2)) * [1, 100]
    rows = [f"{k},{t},{x:.6f},{y:.6f}\n" for k, steps in enumerate(numbers)
            for t, (x, y) in enumerate(steps)]  # fmt: skip
    Path("small.csv").write_text("series,step,x,y\n" + "".join(rows))
    result = compared("features", vary, scaling="none")
    assert (result.same_units, result.pairs) == (False, ())
    text = " ".join(describe_result(result))
    assert "differ in data.scaling, data.relative, data.units or the target features" in text
    assert "each variant in its own units" in markdown(result)


def test_units_of_sources_are_not_units_of_losses() -> None:
    rows = [f"{k},{t},{k * t},{t}\n" for k in range(30) for t in range(5)]
    Path("small.csv").write_text("series,step,x,y\n" + "".join(rows))
    Path("c.yaml").write_text(CONFIG.format(name="c", scaling="none").replace(
        "scaling: none", "scaling: none, source_features: [x, y], target_features: [x]"
    ))  # fmt: skip
    vary = ["data.units={x: m, y: m},{x: m, y: mm}"]
    plan = plan_comparison(Path("c.yaml"), vary=vary, seeds=2)
    result = run_comparison(plan, Path("outputs"))
    assert result.same_units
    assert len(result.pairs) == 1


def test_a_variant_without_a_checkpoint_has_the_unit_of_the_others() -> None:
    result = compared("models", "model.cell=gru,rnn")
    for folder in result.variants[1].folders.values():
        folder.best.unlink()
    again = read_comparison(result.path)
    assert again.same_units
    assert replace(again, same_units=False).unit_text == ", each variant in its own units"


def test_every_table_of_losses_has_their_unit(seqattn: Callable[..., Ended]) -> None:
    result = compared("models", "model.cell=gru,rnn")
    for form in ("latex", "markdown"):
        for rows in ("variants", "runs"):
            text = table_text(result, form, rows)  # type: ignore[arg-type]
            assert "Mean squared error on the test sequences, scaled units." in text
            assert "standard deviations of each source" not in text
    done = seqattn("compare", "c.yaml", "--vary", "model.cell=gru,rnn", "--seeds", "2")
    assert "models: 2 seeds each, scaled units" in done.out
    done = seqattn("train", "c.yaml", "--seeds", "2", "--name", "seeds")
    assert "2 seeds of seeds, scaled units" in done.out


def test_the_unit_of_the_validation_losses_of_instance_normalization_is_stated() -> None:
    result = compared("models", "data.normalize=global,instance")
    assert result.instance_normalized
    assert (
        "With data.normalize: instance, the validation loss is in standard deviations of each"
        " source, so it cannot be compared with the test loss."
        in table_text(result, "latex", "runs")
    )


def test_the_losses_of_changed_weights_have_their_unit(seqattn: Callable[..., Ended]) -> None:
    Path("c.yaml").write_text(
        CONFIG.format(name="one", scaling="standard").replace(
            "hidden_dim: 3", "hidden_dim: 3, attention: {score: dot}"
        )
    )
    assert seqattn("train", "c.yaml").code == 0
    done = seqattn("predict", "outputs/one", "--attention-override", "uniform")
    assert "Mean squared error, scaled units: " in done.err
    assert " with the model's attention, " in done.err
