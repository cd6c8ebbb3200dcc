"""The Python API: what it opens, trains, tabulates and shows."""

from __future__ import annotations

import html.parser
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray

import seqattn
from seqattn.errors import CheckpointError, ConfigError, DataError, UsageError
from seqattn.runs import RunFolder
from tests.comparisons import read_table, write_divergence
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("no_pictures")
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "data": {"kind": "squares", "n_train": 16, "n_validation": 8, "n_test": 7},
    "model": {"kind": "recurrent", "hidden_dim": 2},
    "training": {"epochs": 2, "batch_size": 16},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a comparison of two variants, three seeds each."""
    home = tmp_path_factory.mktemp("api")
    names = ["scaled_dot", "general"]
    seqattn.compare(CONFIG, vary={"model.attention.score": names}, seeds=3, output_dir=home)
    return home / "tiny"


@pytest.fixture(scope="module")
def comparison(home: Path) -> seqattn.Comparison:
    return seqattn.Comparison.open(home)


# --- opening --------------------------------------------------------------------------------------


def test_load_opens_runs_seeds_and_comparisons(home: Path) -> None:
    one = seqattn.load(home)
    assert isinstance(one, seqattn.Comparison)
    assert list(one) == ["scaled_dot", "general"]
    assert repr(one) == f"<seqattn comparison {str(home)!r}, 2 variants>"
    many = seqattn.load(home / "general")
    assert isinstance(many, seqattn.Seeds)
    assert list(many) == [23, 24, 25]
    assert repr(many) == f"<seqattn seeds {str(home / 'general')!r}, 3 seeds>"
    assert many.losses == one["general"].losses == one.result.variants[1].losses
    run = seqattn.load(home / "general/seed-24")
    assert isinstance(run, seqattn.Run)
    assert run.summary["test_loss"] == many.losses[24] == many[24].summary["test_loss"]
    assert isinstance(seqattn.load(run.folder.best), seqattn.Run)
    assert many.best.config.seed == min(many.losses, key=many.losses.__getitem__)


def test_what_cannot_be_opened_is_named(home: Path, comparison: seqattn.Comparison) -> None:
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: seqattn.load(home / "none"), CheckpointError, "no such run"),
        (lambda: seqattn.load(home.parent), CheckpointError, "is not a run folder"),
        (lambda: seqattn.load(home, epoch=1), UsageError, "epoch 1: .* is not a run folder"),
        (lambda: seqattn.Comparison.open(home / "general"), CheckpointError, "no comparison.json"),
        (lambda: seqattn.Seeds.open(home), CheckpointError, "is not the folder of a comparison or"),
        (lambda: comparison["dot"], UsageError, "variant 'dot': .* has scaled_dot, general"),
        (lambda: comparison["general"][7], UsageError, "seed 7: .* has the seeds 23, 24, 25"),
    ]  # fmt: skip
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


# --- training -------------------------------------------------------------------------------------


def test_keyword_arguments_change_keys_of_the_config(tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text("name: tiny\ndata: {n_train: 16, n_validation: 8, n_test: 7}\n")
    kept = {**CONFIG}
    runs = [
        seqattn.train(CONFIG, output_dir=tmp_path / "a", training__epochs=1, seed=np.int64(3),
                      model__attention={"score": "general"}),
        seqattn.train(file, output_dir=tmp_path / "b", training={"epochs": 1, "batch_size": 16},
                      seed=3, overrides={"model.hidden_dim": 2, "model.attention.score": "general"}),
        seqattn.train(str(file), output_dir=tmp_path / "c", training__epochs=1,
                      overrides=["seed=3", "training.epochs=7", "training.batch_size=16",
                                 "model={hidden_dim: 2, attention: {score: general}}"]),
    ]  # fmt: skip
    assert kept == CONFIG
    losses = {run.summary["test_loss"] for run in runs}
    assert len(losses) == 1
    assert {len(run.history) for run in runs} == {1}
    assert runs[0].config == runs[1].config == runs[2].config


def test_a_name_selects_a_shipped_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = seqattn.train("squares", training__epochs=1, data__n_train=16, data__n_test=7)
    assert run.config.name == "squares"
    assert run.config.training.learning_rate == 0.02
    with pytest.raises(ConfigError, match="squares"):
        seqattn.train("squars")
    with pytest.raises(ConfigError, match="describes a comparison"):
        seqattn.train("compare/scores")


def test_mistakes_in_a_config_name_the_argument(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"training__epoch": 5}, ConfigError, r"training\.epoch=5: training\.epoch: .*epochs"),
        ({"training__epochs": -1}, ConfigError, r"training\.epochs=-1: training\.epochs: "),
        ({"epochs": 5}, ConfigError, "epochs=5: epochs: "),
        ({"seed__x": 5}, ConfigError, "seed.x=5: seed is not a section"),
        ({"overrides": "seed=3"}, UsageError, "overrides 'seed=3': expected a list of strings"),
        ({"overrides": [3]}, UsageError, r"overrides \[3\]: expected a list of strings"),
        ({"overrides": 5}, UsageError, r"overrides 5: expected a list of strings"),
    ]
    for overrides, error, message in cases:
        with pytest.raises(error, match=message):
            seqattn.train({**CONFIG, "seed": 1}, output_dir=tmp_path, **overrides)
    with pytest.raises(ConfigError, match=r"the config: model\.attentoin: .*attention"):
        seqattn.train({"model": {"attentoin": None}}, output_dir=tmp_path)
    with pytest.raises(ConfigError, match="the config: describes a comparison .*seqattn.compare"):
        seqattn.train({**CONFIG, "compare": {"vary": {}}}, output_dir=tmp_path)
    with pytest.raises(DataError, match=r"got dict\. To change a key .*, use data__KEY=VALUE"):
        seqattn.train(CONFIG, data={"n_train": 7}, output_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_seeds_train_together_and_equal_the_command(
    tmp_path: Path, seqattn: Callable[..., Ended]
) -> None:
    import seqattn as api

    many = api.train_seeds(CONFIG, 2, output_dir=tmp_path / "api", training__epochs=1)
    assert list(many) == [23, 24]
    (tmp_path / "c.yaml").write_text(
        "name: tiny\ndata: {n_train: 16, n_validation: 8, n_test: 7}\nmodel: {hidden_dim: 2}\n"
        "training: {epochs: 1, batch_size: 16}\n"
    )
    assert seqattn("train", "c.yaml", "--seeds", "2", "--threads", "1").code == 0
    assert api.Seeds.open("outputs/tiny").losses == many.losses
    with pytest.raises(UsageError, match="seeds 0: expected 1 to 100000"):
        api.train_seeds(CONFIG, 0, output_dir=tmp_path / "api")
    for count in (0, -1, 1025):
        with pytest.raises(UsageError, match=f"threads {count}: expected 1 to 1024"):
            api.train_seeds(CONFIG, 2, threads=count, output_dir=tmp_path / "new")


def test_a_comparison_equals_the_command(
    tmp_path: Path, seqattn: Callable[..., Ended], home: Path
) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: tiny\ndata: {n_train: 16, n_validation: 8, n_test: 7}\nmodel: {hidden_dim: 2}\n"
        "training: {epochs: 2, batch_size: 16}\n"
    )
    vary = "model.attention.score=scaled_dot,general"
    assert seqattn("compare", "c.yaml", "--vary", vary, "--seeds", "3").code == 0
    assert (tmp_path / "outputs/tiny/pairs.csv").read_text() == (home / "pairs.csv").read_text()


def test_a_comparison_takes_the_arguments_of_the_command(tmp_path: Path) -> None:
    import seqattn as api

    along = {"data.noise": [0.1, 0.2]}
    with pytest.raises(UsageError, match="along: expected one key"):
        api.compare(CONFIG, along={**along, "seed": [1]}, output_dir=tmp_path)
    with pytest.raises(UsageError, match="compare: expected the path"):
        api.compare(None, output_dir=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the config: a comparison needs two variants or more"):
        api.compare(CONFIG, output_dir=tmp_path)
    swept = api.compare(CONFIG, along=along, seeds=2, resample_data=False, training__epochs=1,
                        output_dir=tmp_path)  # fmt: skip
    assert swept.result.sweep_key == "data.noise"
    assert [variant.sweep_value for variant in swept.result.variants] == [0.1, 0.2]
    assert swept.result.data_of_seeds == "same"
    assert swept.conclusions


# --- tables ---------------------------------------------------------------------------------------


def test_dataframes_of_a_comparison_have_the_numbers_of_its_files(
    home: Path, comparison: seqattn.Comparison
) -> None:
    for table, name in (
        ("variants", "variants.csv"),
        ("pairs", "pairs.csv"),
        ("seeds", "seeds.csv"),
    ):
        expected = read_table(home / name)
        for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
            frame = comparison.to_dataframe(table, library=library)  # type: ignore[arg-type]
            assert isinstance(frame, kind)
            assert list(frame.columns) == list(expected[0])
            records = frame.to_dict("records") if library == "pandas" else frame.to_dicts()
            for record, row in zip(records, expected, strict=True):
                for key, cell in record.items():
                    empty = cell is None or cell != cell
                    same = row[key] == "" if empty else (
                        row[key] == str(cell) or float(row[key]) == float(cell))  # fmt: skip
                    assert same, (table, library, key, cell, row[key])
    metrics = comparison.to_dataframe("metrics")
    assert len(metrics) == 2 * 3 * 2
    one = metrics[(metrics.variant == "general") & (metrics.seed == 24)]
    history = comparison["general"][24].history
    assert one.validation_loss.tolist() == [record.validation_loss for record in history]
    pd.testing.assert_frame_equal(
        one.drop(columns=["variant", "seed"]).reset_index(drop=True),
        comparison["general"][24].to_dataframe("metrics"),
    )
    assert len(comparison["general"].to_dataframe()) == 3
    with pytest.raises(UsageError, match="table 'pair': expected one of variants, pairs, seeds"):
        comparison.to_dataframe("pair")  # type: ignore[arg-type]


def test_predictions_give_the_test_loss(comparison: seqattn.Comparison) -> None:
    run = comparison["general"][25]
    frame = run.to_dataframe("predictions")
    assert list(frame.columns) == ["sequence", "label", "step", "feature", "target", "forecast"]
    T, F = 2, 2
    assert len(frame) == 7 * T * F
    assert frame.step.tolist()[: 2 * F] == [1, 1, 2, 2]
    assert frame.feature.tolist()[:F] == list(run.trained.spec.target_features)
    error = float(((frame.forecast - frame.target) ** 2).mean())
    assert error == pytest.approx(run.summary["test_loss"], rel=1e-6)
    arrays = run.folder.read_predictions()
    chosen = frame[(frame.sequence == arrays["ids"][3]) & (frame.step == 2)]
    assert chosen.forecast.tolist() == arrays["forecast"][3, 1].tolist()
    joined = comparison.to_dataframe("predictions", library="polars")
    assert joined.shape == (2 * 3 * len(frame), 8)


def test_unobserved_targets_and_short_sequences_are_missing(ragged_run: Path) -> None:
    run = seqattn.Run.open(ragged_run)
    arrays = run.folder.read_predictions()
    arrays["target"][0, 0, 0] = np.nan
    content = io.BytesIO()
    np.savez(content, **arrays)
    copy = ragged_run.parent / "copy"
    shutil.copytree(ragged_run, copy, dirs_exist_ok=True)
    (copy / "predictions.npz").write_bytes(content.getvalue())
    changed = seqattn.Run.open(copy)
    frame = changed.to_dataframe("predictions")
    assert len(frame) == 2 * int(arrays["target_lengths"].sum())
    assert frame.target.isna().sum() == 1
    assert not frame.forecast.isna().any()
    of_polars = changed.to_dataframe("predictions", library="polars")
    assert of_polars["target"].null_count() == 1
    assert not of_polars["target"].is_nan().any()


# --- weights --------------------------------------------------------------------------------------


def test_weights_have_named_axes_and_nan_where_there_is_no_step(ragged_run: Path) -> None:
    run = seqattn.Run.open(ragged_run)
    arrays = run.folder.read_attention()
    weights = run.attention_weights()
    assert isinstance(weights, xarray.DataArray)
    assert weights.dims == ("sequence", "layer", "head", "target_step", "source_step")
    assert weights.attrs == {"kind": "cross", "meaning": "distribution"}
    short = int(arrays["source_lengths"].argmin())
    S = int(arrays["source_lengths"][short])
    one = weights.sel(sequence=arrays["ids"][short], layer=0, head=0, target_step=1)
    assert bool(one.sel(source_step=slice(1, S)).notnull().all())
    assert weights.sizes["source_step"] > S
    assert bool(one.sel(source_step=slice(S + 1, None)).isnull().all())
    np.testing.assert_array_equal(weights.values, arrays["weights"])
    plain = run.attention_weights(library="numpy")
    assert isinstance(plain, seqattn.LabelledArray)
    assert plain.dims == weights.dims
    for name in plain.dims:
        np.testing.assert_array_equal(plain.coords[name], weights.coords[name])
    with pytest.raises(UsageError, match="kind 'encoder_self': this model has cross"):
        run.attention_weights("encoder_self")
    with pytest.raises(UsageError, match="need a source"):
        run.attention_weights(steps=3)


@pytest.mark.filterwarnings("ignore:Longer than all training sequences")
def test_weights_of_new_sources_are_those_of_the_forecast(attention_run: Path) -> None:
    run = seqattn.Run.open(attention_run)
    source = np.full((2, 3, 2), np.nan)
    source[0] = [[-1, -1], [-1, 1], [0, 1]]
    source[1, :2] = [[1, 1], [1, -1]]
    weights = run.attention_weights(source=source, steps=5)
    assert weights.sizes == {
        "sequence": 2,
        "layer": 1,
        "head": 1,
        "target_step": 5,
        "source_step": 3,
    }
    assert np.isnan(weights.values[1, ..., 2]).all()
    raw = run.attention(source, 5)["cross"]
    np.testing.assert_array_equal(weights.values[0], raw[0])
    np.testing.assert_array_equal(weights.values[1, ..., :2], raw[1, ..., :2])
    equal = run.attention_weights(source=source[:1], attention_override="uniform")
    np.testing.assert_allclose(equal.values, 1 / 3, rtol=1e-6)


def test_a_run_without_attention_has_no_weights(plain_run: Path) -> None:
    with pytest.raises(UsageError, match="its model has no attention"):
        seqattn.Run.open(plain_run).attention_weights()


# --- what a notebook shows ------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The tags, cells and pictures of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.words, self.pictures = list[str](), list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        assert not [name for name in found if name.startswith("on")]
        if tag == "img":
            self.pictures.append(str(found["alt"]))
            assert str(found["src"]).startswith("data:image/png;base64,iVBOR")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


ALLOWED = {"div", "p", "strong", "table", "tr", "th", "td", "img"}


def test_a_run_shows_its_losses_and_pictures(attention_run: Path, plain_run: Path) -> None:
    run = seqattn.Run.open(attention_run)
    page = Page(run._repr_html_())
    assert set(page.tags) <= ALLOWED
    words = page.words
    assert words[words.index("noise floor") + 1] == f"{run.summary['noise_floor']:.4f}"
    assert f"{run.summary['test_loss']:.4f}" in words
    names = ["losses of each epoch", "forecasts of test sequences"]
    assert page.pictures == [*names, "attention weights"]
    assert Page(seqattn.Run.open(plain_run)._repr_html_()).pictures == names
    last = seqattn.Run.open(run.folder.last)
    other = last.trained.epoch != run.trained.epoch
    assert Page(last._repr_html_()).pictures == (names[:1] if other else page.pictures)


def test_a_picture_that_cannot_be_drawn_is_left_out(
    comparison: seqattn.Comparison, tmp_path: Path
) -> None:
    run = comparison["general"][23]
    assert len(Page(run._repr_html_()).pictures) == 3
    copy = tmp_path / "run"
    shutil.copytree(run.folder.path, copy)
    (copy / "predictions.npz").unlink()
    page = Page(seqattn.Run.open(copy)._repr_html_())
    assert page.pictures == ["losses of each epoch"]
    (copy / "summary.json").unlink()
    page = Page(seqattn.Run.open(copy)._repr_html_())
    assert any("summary.json" in word for word in page.words)


def test_text_of_files_is_escaped(comparison: seqattn.Comparison, tmp_path: Path) -> None:
    mark = "<img src=x onerror=alert(1)>"
    copy = tmp_path / mark.replace("/", "")
    shutil.copytree(comparison.path, copy)
    folder = copy / "general/seed-23"
    text = json.dumps(RunFolder(folder).read_summary()).replace("last source point", mark)
    assert mark in text
    RunFolder(folder).write_summary(json.loads(text))
    write_divergence(seqattn.Run.open(copy / "general/seed-24").folder, 1, mark)
    opened = [seqattn.Run.open(folder), seqattn.Run.open(copy / "general/seed-24"),
              seqattn.Seeds.open(copy / "general"), seqattn.Comparison.open(copy)]  # fmt: skip
    for each in opened:
        text = each._repr_html_()
        page = Page(text)
        assert set(page.tags) <= ALLOWED
        assert "x" not in re.findall(r'src="([^"]*)"', text)
        assert any(mark in word for word in page.words), each


def test_seeds_and_comparisons_show_their_table(comparison: seqattn.Comparison) -> None:
    page = Page(comparison._repr_html_())
    assert set(page.tags) <= ALLOWED
    assert page.pictures == ["test losses by variant", "median attention weights by variant"]
    assert {"variant", "scaled_dot", "general", "median loss [95%]"} <= set(page.words)
    assert any("3 seeds are too few" in word for word in page.words)
    seeds = Page(comparison["general"]._repr_html_())
    assert seeds.pictures == ["test losses", "median attention weights"]
    assert comparison["general"].table("csv").startswith("kind,variant,")
    assert comparison.table("latex", rows="pairs").count(r"\midrule") == 1
    with pytest.raises(UsageError, match="table: expected 'latex' or .*, got 'pairs'"):
        comparison.table("pairs")  # type: ignore[arg-type]


# --- progress -------------------------------------------------------------------------------------


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Let stderr be a terminal, and return its content."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_bar_is_shown_in_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    seqattn.train(CONFIG, output_dir=tmp_path, name="a")
    assert "2/2" in terminal.getvalue()
    assert ", validation " in terminal.getvalue()
    shown = len(terminal.getvalue())
    seqattn.train(CONFIG, output_dir=tmp_path, name="b", progress=False)
    assert len(terminal.getvalue()) == shown
    monkeypatch.setattr(terminal, "isatty", lambda: False, raising=False)
    seqattn.train(CONFIG, output_dir=tmp_path, name="c")
    assert len(terminal.getvalue()) == shown
    seqattn.train_seeds(CONFIG, 2, output_dir=tmp_path, name="d", progress=True)
    assert "4/4" in terminal.getvalue()[shown:]
    assert "2 of 2 runs training, median validation " in terminal.getvalue()[shown:]
