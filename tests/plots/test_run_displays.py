"""Films, pages, boards and panels: what people look at, without a browser."""

from __future__ import annotations

import builtins
import os
import pty
import re
import shutil
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import seqattn as package
from seqattn import experiments
from seqattn.analysis.comparison import read_comparison
from seqattn.cli.text_heatmap import print_largest_weights, print_weights
from seqattn.config import resolve
from seqattn.data.units import can_share_axes
from seqattn.errors import CheckpointError, DataError, Interrupted, install_command
from seqattn.plots import attention_figure, run_pictures
from seqattn.plots.attention import Layout
from seqattn.report import report
from seqattn.report.content import (
    MAX_EXAMPLES,
    comparison_content,
    group_losses,
    run_content,
    sequence_losses,
    thin_history,
)
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.storage import read_arrays
from tests.conftest import ROOT, Ended
from tests.packed_points import unpack_points

pytestmark = pytest.mark.usefixtures("untraced_graphs")

SMALL = ["data.n_train=40", "data.n_validation=12", "data.n_test=15", "training.epochs=4",
         "training.batch_size=8", "training.record_attention=2"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    config = resolve(None, [*SMALL, "name=small", "model.attention.heads=2"]).config
    folder, _ = experiments.train_one(config, tmp_path_factory.mktemp("looking"))
    return folder


@pytest.fixture
def mine(run: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy to break."""
    shutil.copytree(run.path, tmp_path / "small")
    return RunFolder(tmp_path / "small")


# --- the film -------------------------------------------------------------------------------------


def test_a_film_has_the_beginning_and_every_so_many_epochs(run: RunFolder) -> None:
    film = read_arrays(run.film)
    assert film["epochs"].tolist() == [0, 2, 4]
    assert film["weights"].shape == (3, 8, 1, 2, 2, 2)
    assert np.allclose(film["weights"].sum(axis=-1), 1, atol=1e-6)


def test_filming_changes_nothing_that_is_learned(run: RunFolder, tmp_path: Path) -> None:
    sets = [*SMALL, "name=small", "model.attention.heads=2", "training.record_attention=null"]
    folder, _ = experiments.train_one(resolve(None, sets).config, tmp_path, plots=False)
    assert not folder.film.exists()
    ours, theirs = package.load(run.path), package.load(folder.path)
    for name, weight in ours.trained.model.state_dict().items():
        assert (weight == theirs.trained.model.state_dict()[name]).all()


def test_a_film_goes_on_after_a_stop(tmp_path: Path, run: RunFolder) -> None:
    config = resolve(None, [*SMALL, "name=small", "model.attention.heads=2"]).config
    steps = 0

    def stop() -> int:
        nonlocal steps
        steps += 1
        return 15 if steps >= 13 else 0

    with pytest.raises(Interrupted):
        experiments.train_one(
            config, tmp_path, plots=False, callbacks=experiments.Callbacks(stop=stop)
        )
    assert read_arrays(tmp_path / "small" / "film.npz")["epochs"].tolist() == [0, 2]
    folder, _ = experiments.train_one(config, tmp_path, resume=True, plots=False)
    assert folder.film.read_bytes() == run.film.read_bytes()


def test_each_of_many_runs_has_the_film_it_would_have_alone(tmp_path: Path, run: RunFolder) -> None:
    config = resolve(None, [*SMALL, "name=many", "model.attention.heads=2"]).config
    jobs = experiments.train_many(experiments.seeds_of(config, tmp_path / "many", 3), threads=1)
    film = read_arrays(jobs[0].folder.film)
    assert np.allclose(film["weights"], read_arrays(run.film)["weights"], atol=1e-5)


def test_a_model_without_attention_has_no_film(tmp_path: Path) -> None:
    config = resolve(None, [*SMALL, "model.attention=null"]).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    assert not folder.film.exists()


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["--epochs"], "attention_film.png"),
        (["--epochs", "--format", "gif"], "attention_film.gif"),
        (["--epochs", "--format", "svg", "--head", "1"], "attention_film-head1.svg"),
        (["--grid"], "attention-grid.png"),
    ],
)
def test_pictures(
    words: list[str], file: str, mine: RunFolder, seqattn: Callable[..., Ended]
) -> None:
    done = seqattn("plot-attention", mine.path, *words)
    assert done.code == 0, done.err
    kinds = {"png": b"\x89PNG", "gif": b"GIF8", "svg": b"<?xml", "pdf": b"%PDF"}
    assert (mine.path / file).read_bytes().startswith(kinds[file[-3:]])


def test_a_terminal_shows_blocks_and_values(run: RunFolder, seqattn: Callable[..., Ended]) -> None:
    done = seqattn("plot-attention", run.path, "--terminal", "--examples", "1", "--head", "2")
    weights = read_arrays(run.attention)["weights"][0, 0, 1]
    numbers = [float(number) for number in re.findall(r"\d\.\d\d", done.out.split("to █")[0])]
    assert np.allclose(numbers, weights.ravel(), atol=5e-3)
    assert "layer" not in done.out
    assert "head 2" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "--grid"], "--epochs draws the recorded weights"),
        (["--format", "gif"], "is an animation and needs --epochs"),
        (["--grid", "--head", "1"], "leave --layer and --head out"),
        (["--epochs", "--head", "7"], "--head 7: this model has 2"),
    ],
)
def test_wrong_pictures(
    words: list[str], message: str, run: RunFolder, seqattn: Callable[..., Ended]
) -> None:
    done = seqattn("plot-attention", run.path, *words)
    assert done.code == 2
    assert message in done.err


def test_a_run_without_a_film_says_how_to_get_one(
    mine: RunFolder, seqattn: Callable[..., Ended]
) -> None:
    mine.film.unlink()
    done = seqattn("plot-attention", mine.path, "--epochs")
    assert done.code == 2
    assert "--set training.record_attention=10" in done.err


def test_what_was_drawn_of_a_run_goes_with_it(
    mine: RunFolder, seqattn: Callable[..., Ended]
) -> None:
    for words in (["--grid"], ["--epochs"], ["--epochs", "--head", "1"], ["--head", "1"],
                  ["--format", "pdf"]):  # fmt: skip
        assert seqattn("plot-attention", mine.path, *words).code == 0
    assert seqattn("report", mine.path, "--no-live").code == 0
    (mine.path / "attention_of_mine.png").touch()
    sets = [word for text in SMALL for word in ("--set", text)]
    words = ["train", mine.config, *sets, "--output-dir", mine.path.parent, "--overwrite", "-q"]
    assert seqattn(*words, "--plots", "none").code == 0
    left = {path.name for path in mine.path.iterdir()}
    assert "attention_of_mine.png" in left, "that is nobody's but the user's"
    assert not left & {
        "report.html",
        "attention_film.png",
        "attention_film-head1.png",
        "attention-grid.png",
        "attention-head1.png",
        "attention.pdf",
    }


def test_a_film_of_strengths_has_a_scale_for_both_signs(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[float | None]()
    draw = run_pictures.attention_figure

    def noted(*arrays: Any, **more: Any) -> Any:
        asked.append(more["layout"].max_weight)
        return draw(*arrays, **more)

    monkeypatch.setattr(run_pictures, "attention_figure", noted)
    film = {**read_arrays(run.film), "meaning": np.array("strength")}
    film["weights"] = np.where(np.isfinite(film["weights"]), -5.0, np.nan)
    run_pictures.save_animation(film, tmp_path / "f.gif", 4)
    assert set(asked) == {5.0}


def test_a_film_names_each_epoch_and_each_sequence_once(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = read_arrays(run.film)
    figure, left_out = run_pictures.attention_history_picture(film, 2)
    assert figure.get_suptitle().replace("\n", " ") == left_out
    assert left_out == (
        "One head of one layer. --layer and --head draw another one."
        " The first 2 of 8 recorded sequences (--examples)."
    )
    panels = np.array(figure.axes[:-1]).reshape(2, 3)
    assert [axes.get_title() for axes in panels[0]] == [
        "before training", "after epoch 2", "after epoch 4",
    ]  # fmt: skip
    assert not any(axes.get_title() for axes in panels[1])
    names = [axes.get_ylabel().split("\n")[0] for axes in panels[:, 0]]
    assert names == ["validation 0", "validation 1"]
    frames = list[Figure]()
    monkeypatch.setattr(run_pictures, "as_gif", lambda drawn: frames.extend(drawn) or b"")
    run_pictures.save_animation(film, tmp_path / "f.gif", 4)
    assert [frame.get_suptitle() for frame in frames] == [
        "before training", "after epoch 2", "after epoch 4",
    ]  # fmt: skip
    titles = [axes.get_title() for axes in frames[1].axes[:-1]]
    assert len(set(titles)) == len(titles) == 4
    assert not any("epoch" in title for title in titles)


def test_a_panel_has_no_padding(run: RunFolder) -> None:
    """Its rows and columns are numbered through, and no such points would exist."""
    attention = {**read_arrays(run.attention)}
    N, layers, heads, T, S = attention["weights"].shape
    attention["encoder_self"] = np.zeros((N, layers, heads, S, S))
    attention["decoder_self"] = np.zeros((N, layers, heads, T, T))
    attention["source_lengths"] = np.full(N, 1)
    shape = {kind: run_pictures.attention_panels(attention, ["t"], 1, kind=kind)[0].weights.shape
             for kind in ("cross", "encoder_self", "decoder_self")}  # fmt: skip
    assert (T, S) == (2, 2)
    assert shape == {"cross": (2, 1), "encoder_self": (1, 1), "decoder_self": (2, 2)}


def test_long_sources_are_shown_up_to_the_largest_weight(
    run: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of forty points has 0.025 of the weight: on a scale to 1 that would be nothing."""
    weights = np.full((2, 40), 0.02)
    weights[:, 7] = 0.08
    for shown in (weights, weights[:, :16]):
        figure = attention_figure([shown], titles=["t"])
        assert figure.axes[0].images[0].get_clim() == (0, 0.08)
        assert figure.axes[-1].get_ylabel() == "attention weight\nup to the largest: 0.08"
    for largest, end in ((0.49, 0.49), (0.5, 1)):
        weights[0, 7] = largest
        figure = attention_figure([weights], titles=["t"])
        assert figure.axes[0].images[0].get_clim() == (0, end)
    assert figure.axes[-1].get_ylabel() == "attention weight"
    one = attention_figure([weights], titles=["t"], layout=Layout(max_weight=0.3))
    assert one.axes[0].images[0].get_clim() == (0, 0.3)
    weights[0, 7] = 0.08
    attention = {
        "weights": weights[None, None, None], "source_lengths": np.array([40]),
        "target_lengths": np.array([2]), "meaning": np.array("distribution"),
    }  # fmt: skip
    monkeypatch.setenv("COLUMNS", "60")
    print_weights(attention, ["t"], "cross", None, None)
    printed = capsys.readouterr().out
    assert f"{'░' * 7}█{'░' * 32}" in printed
    assert "░ to █: weights of about 0.02, 0.04, 0.06 and 0.08, the largest" in " ".join(
        printed.split()
    )
    assert max(map(len, printed.splitlines())) <= 60


@pytest.mark.parametrize("S", [2, 7, 10, 12, 13, 40, 104])
@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("symbols", [False, True])
def test_a_text_heatmap_fits_the_terminal(
    S: int, columns: int, symbols: bool,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    rng = np.random.default_rng(S)
    weights = rng.dirichlet(np.ones(S), size=(3, 1, 1, 3))
    arrays: dict[str, Any] = {
        "weights": weights, "source_lengths": np.full(3, S), "target_lengths": np.full(3, 3),
        "meaning": np.array("distribution"),
    }  # fmt: skip
    if symbols:
        words = [f"representation{k}" for k in range(S)]
        arrays["source_vocabulary"] = arrays["target_vocabulary"] = np.array(["", *words])
        numbers = np.broadcast_to(1 + np.arange(S), (3, S))[..., None]
        arrays |= {"source": numbers, "forecast": numbers[:, :3]}
    monkeypatch.setenv("COLUMNS", str(columns))
    print_weights(arrays, ["t"] * 2, "cross", None, None)
    print_largest_weights(arrays, ["t"] * 3, None, None)
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert max(map(len, lines)) <= columns
    numbers = [float(number) for number in re.findall(r"\d\.\d\d", lines[2])]
    if S <= 10 and columns >= 80:
        assert np.allclose(numbers, weights[0, 0, 0, 0], atol=5e-3)
    left_out = re.findall(r"the first (\d+) of (\d+) columns;", printed)
    assert not left_out if columns >= S + 15 else left_out
    below = " ".join(printed.split())
    for k in range(int(left_out[0][0]) if left_out else S) if symbols else ():
        # above its column or below the heatmap
        heads = lines[1].split()[2:]
        is_above = len(set(heads)) == S and "…" in heads[k] and heads[k].endswith(str(k))
        assert is_above or f"{k + 1} {words[k]}" in below


def test_recorded_weights_are_printed_for_each_epoch(
    run: RunFolder, seqattn: Callable[..., Ended]
) -> None:
    done = seqattn("plot-attention", run.path, "--epochs", "--terminal", "--examples", "2")
    assert done.code == 0, done.err
    headings = re.findall(r"--- (.*) ---", done.out)
    assert headings == ["before training", "after epoch 2", "after epoch 4"]
    weights = read_arrays(run.film)["weights"][:, :2, 0, 0]
    numbers = [float(number) for number in re.findall(r"\d\.\d\d", done.out.split("to █")[0])]
    assert np.allclose(numbers, weights.ravel(), atol=5e-3)
    assert "The first 2 of 8 recorded sequences" in done.err


# --- the page -------------------------------------------------------------------------------------


def test_the_command_writes_a_page(mine: RunFolder, seqattn: Callable[..., Ended]) -> None:
    done = seqattn("report", mine.path, "--no-live")
    assert done.code == 0, done.err
    text = (mine.path / "report.html").read_text()
    assert "default-src 'none'" in text
    assert len(text) < 12 * 2**20
    assert seqattn("report", mine.path, "--no-live", "--output", "x.txt").code == 2
    assert seqattn("report", "nowhere").code == 4


def test_what_was_typed_and_where_values_are_from(seqattn: Callable[..., Ended]) -> None:
    words = [
        "train",
        ROOT / "configs" / "squares.yaml",
        "--set",
        "training.epochs=1",
        "--seed",
        "7",
        "-q",
    ]
    assert seqattn(*words).code == 0
    content = run_content(RunFolder(Path("outputs/squares")))
    assert content["command_label"] == "Trained by"
    assert content["command"].startswith("seqattn train ")
    assert content["command"].endswith("squares.yaml --set training.epochs=1 --seed 7 -q")
    origins = {key: origin for key, _, origin in content["config"]}
    assert origins["training.epochs"] == "--set training.epochs=1"
    assert origins["seed"] == "--set seed=7"
    assert re.search(r"squares\.yaml:\d+$", origins["training.batch_size"])
    assert origins["training.momentum"] == "default"


def test_an_unfinished_run_has_a_page(mine: RunFolder) -> None:
    mine.summary.unlink()
    content = run_content(mine)
    assert "not finished: 4 epochs" in content["notices"][0]
    assert content["curves"]["epoch"] == [1, 2, 3, 4]
    assert "examples" not in content
    report(mine.path)
    mine.metrics.unlink()
    with pytest.raises(CheckpointError, match="no epoch has finished"):
        run_content(mine)


@pytest.mark.parametrize(
    "file", ["attention.npz", "predictions.npz", "film.npz", "checkpoints/best.safetensors"]
)
def test_unreadable_files_are_named_and_the_rest_is_shown(file: str, mine: RunFolder) -> None:
    (mine.path / file).write_bytes(b"broken")
    content = run_content(mine)
    assert len(content["notices"]) == 1
    assert file.rpartition("/")[2] in content["notices"][0]
    report(mine.path)


def test_ten_thousand_sequences_are_sampled_with_a_notice(mine: RunFolder) -> None:
    predictions, attention = read_arrays(mine.predictions), read_arrays(mine.attention)
    places = np.arange(10_000) % len(predictions["ids"])
    many = {k: v[places] if len(np.atleast_1d(v)) == 15 else v for k, v in predictions.items()}
    many["ids"] = np.array([str(k) for k in range(10_000)])
    many["forecast"] = many["forecast"] + np.random.default_rng(1).normal(
        size=many["forecast"].shape
    )
    np.savez(mine.predictions, **many)
    np.savez(
        mine.attention,
        **{k: v[places] if v.ndim and len(v) == 15 else v for k, v in attention.items()}
        | {"ids": many["ids"]},
    )
    content = run_content(mine)
    assert "1,000 of 10,000 test sequences" in content["notices"][0]
    examples = content["examples"]
    assert len(examples["ids"]) == MAX_EXAMPLES
    worst = np.argsort(-sequence_losses(many))[:10]
    assert [examples["ids"][k] for k in content["worst"]] == [str(k) for k in worst]
    assert sum(row[1] for row in content["classes"][0]["rows"]) == 10_000


def own_run(home: Path, *sets: str, wide: float = 1.0, names: str = "a,b") -> RunFolder:
    """A small run of two features, the second `wide` times the first, far from 0."""
    numbers, file = np.random.default_rng(3), home / "own.csv"
    points = numbers.normal(size=(30, 7, 2)).cumsum(axis=1) * [1, wide] + [0, 1e5]
    rows = [f"{k},{t},{a},{b}\n" for k, steps in enumerate(points)
            for t, (a, b) in enumerate(steps)]  # fmt: skip
    file.write_text(f"sequence,step,{names}\n" + "".join(rows))
    words = ["name=own", "data.kind=file", f"data.path={file}", "data.source_length=4",
             "training.epochs=1", "training.batch_size=8", *sets]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, words).config, home, plots=False)
    return folder


@pytest.mark.parametrize("relative", ["false", "true"])
def test_all_errors_of_a_page_are_in_the_units_of_the_loss(tmp_path: Path, relative: str) -> None:
    folder = own_run(tmp_path, "data.scaling=standard", f"data.relative={relative}", wide=900)
    content, summary = run_content(folder), folder.read_summary()
    losses = content["examples"]["losses"]
    assert np.mean(losses) == pytest.approx(summary["test_loss"], rel=1e-5)
    assert np.mean(losses) == pytest.approx(np.mean(content["by_step"]), rel=1e-5)
    assert content["unit"] == content["unit_of_one"] == " (scaled)"
    folder.best.write_bytes(b"broken")
    content = run_content(folder)
    assert content["unit_of_one"] == " (not scaled as the losses are)"
    assert np.mean(content["examples"]["losses"]) != pytest.approx(summary["test_loss"], rel=1e-3)
    assert "which need the checkpoint" in content["notices"][0]


@pytest.mark.parametrize(
    ("names", "wide", "plane"), [("x,y", 1, True), ("x,y", 900, False), ("a,b", 1, False)]
)
def test_features_of_unlike_units_have_no_plane(
    tmp_path: Path, names: str, wide: float, plane: bool
) -> None:
    run = own_run(tmp_path, "data.scaling=standard", wide=wide, names=names)
    content = run_content(run, examine=False)
    assert content["examples"]["plane"] is plane


def test_forecasts_of_a_file_with_dates_are_drawn_over_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seqattn: Callable[..., Ended]
) -> None:
    """The dates are those of the rows, which are not the same in each series."""
    file, numbers = tmp_path / "own.csv", np.random.default_rng(3)
    days = np.datetime64("2024-01-01") + np.arange(7)
    rows = [f"{k},{day + k},{a:.4f},{b:.4f}\n" for k in range(12) for day, (a, b) in
            zip(days, numbers.normal(size=(7, 2)).cumsum(axis=0), strict=True)]  # fmt: skip
    file.write_text("sequence,day,temp,humidity\n" + "".join(rows))
    words = ["name=own", "data.kind=file", f"data.path={file}", "data.target_length=2",
             "training.epochs=1"]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, words).config, tmp_path, plots=False)
    predictions = folder.read_predictions(2)
    first = np.datetime64("2024-01-01") + int(predictions["ids"][0])
    assert list(predictions["source_times"][0]) == list(days[:5] - days[0] + first)
    assert list(predictions["target_times"][0]) == list(days[5:] - days[0] + first)
    figure = run_pictures.predictions_picture(predictions, folder.read_summary(), 2)
    assert figure.get_supxlabel() == "time"
    drawn = figure.axes[0].lines[0].get_xdata()
    assert np.array_equal(np.asarray(drawn), predictions["source_times"][0])

    times = run_content(folder, examine=False)["examples"]["times"]
    assert times["is_date"]
    packed = unpack_points(times["source"])
    milliseconds = predictions["source_times"].astype("datetime64[ms]").astype(float)
    assert packed.tolist() == milliseconds.tolist()

    figures = list[Figure]()
    monkeypatch.setattr(run_pictures, "save", lambda figure, path: figures.append(figure))
    assert seqattn("data", "check", file, "--picture", tmp_path / "x.png").code == 0
    panels = np.array(figures[0].axes).reshape(2, 5)
    assert [axes.get_ylabel() for axes in panels[:, 0]] == ["temp", "humidity"]
    assert list(panels[0, 1].lines[0].get_xdata()) == list(days + 1)
    assert figures[0].get_supxlabel() == "time\nthe first 5 of 10 sequences"


def test_a_generated_task_records_its_name_and_alignment(tmp_path: Path) -> None:
    words = [*SMALL, "name=recall", "data.kind=recall", "data.pairs=3", "training.epochs=1"]
    folder, _ = experiments.train_one(resolve(None, words).config, tmp_path, plots=False)
    predictions, summary = folder.read_predictions(3), folder.read_summary()
    assert summary["task"] == "recall"
    assert predictions["alignment"].tolist() == folder.read_attention(3)["alignment"].tolist()
    assert "source_times" not in predictions
    figure = run_pictures.predictions_picture(predictions, summary, 3)
    assert all([text.get_text() for text in axes.texts] == ["1", "2", "3"] for axes in figure.axes)


@pytest.mark.parametrize(
    ("features", "target_features", "spread", "plane"),
    [("ab", "ab", (1, 1), False),
     ("xy", "xy", (1, 19), True), ("xy", "xy", (21, 1), False), ("xy", "yx", (1, 1), False),
       ("xy", "xy", (0, 0), True),
     ("xy", "xy", (0, 1), False)],
)  # fmt: skip
def test_which_features_share_a_plane(
    features: str, target_features: str, spread: tuple[float, float], plane: bool
) -> None:
    pattern = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1], [np.nan, np.nan]])
    points = [
        np.resize(pattern * spread + 7, (5, len(names))) for names in (features, target_features)
    ]
    if len(features) == 2:
        points = [pattern[None] * spread + 7, pattern * spread + 7]
    assert can_share_axes(features, target_features, points) is plane


@pytest.mark.parametrize(
    ("first", "second", "plane"),
    [("x", "y", True),  ("pos_x", "pos_y", True),
     ("longitude", "latitude", True), ("lon", "lat", True),
     ("latitude", "longitude", False), ("max", "may", False),
      ("x_x", "y_y", False),  ("x_a", "y_b", False),
     ("temp_in", "temp_out", False), ],
)  # fmt: skip
def test_names_of_coordinates(first: str, second: str, plane: bool) -> None:
    names = [first, second]
    assert can_share_axes(names, names, [np.eye(2)]) is plane


def test_where_it_starts_is_of_a_plane_alone() -> None:
    source = np.array([[[-1.0, 1e5]], [[1.0, -1e5]], [[1.0, 1e5]]])
    predictions: dict[str, Any] = {
        "labels": np.array([], dtype=str), "ids": np.arange(3), "features": ["x", "y"],
        "said": ["x", "y"], "source": source, "target": source, "forecast": source,
        "source_lengths": np.ones(3), "target_lengths": np.ones(3),
    }  # fmt: skip
    assert group_losses(predictions, np.ones(3)) == []
    for part in ("source", "target", "forecast"):
        predictions[part] = source / [1, 1e5]
    (found,) = group_losses(predictions, np.ones(3))
    assert found["name"] == "quadrant of the first point"


def test_what_is_shown_of_a_chosen_run(tmp_path: Path) -> None:
    config = resolve(None, [*SMALL, "data.length=5", "data.kind=copy", "model.attention.heads=2"])
    experiments.train_many(experiments.seeds_of(config.config, tmp_path / "many", 2), threads=1)
    outcome = read_comparison(tmp_path / "many")
    file = outcome.variants[0].folders[23].attention
    attention = read_arrays(file)
    attention["source_lengths"][0], attention["target_lengths"][0] = 3, 2
    attention["weights"][0, :, :, 2:] = attention["weights"][0, :, :, :, 3:] = np.nan
    attention["weights"][0, 0, 0, 1, 1] = np.nan
    np.savez(file, **attention)
    first, second = comparison_content(outcome)["variants"][0]["points"]
    weights = np.array(first["weights"], dtype=float)
    assert np.allclose(weights, attention["weights"][0, 0, 0, :2, :3], atol=5e-4, equal_nan=True)
    assert np.shape(second["weights"]) == (5, 5)
    for point in (first, second):
        assert point["part"] == ", head 0"
        assert [epoch for epoch, _ in point["curve"]] == [1, 2, 3, 4]


@pytest.mark.parametrize("best", [1, 437, 650, 999])
def test_a_long_curve_keeps_its_best_and_last(best: int) -> None:
    history = [
        EpochRecord(k, 1.0, abs(k - best) + 1.0, 1.0, 0.01, 0.5, 0.1) for k in range(1, 1000)
    ]
    curve = thin_history(history)
    assert len(curve) < 400
    assert [best, 1.0] in curve
    assert [epoch for epoch, _ in (curve[0], curve[-1])] == [1, 999]
    assert curve == sorted(curve)


def test_a_missing_extra_is_named(
    mine: RunFolder, seqattn: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == "jinja2":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    done = seqattn("report", mine.path, "--no-live")
    assert done.code == 2
    assert install_command("report") in done.err


# --- TensorBoard ----------------------------------------------------------------------------------


def test_a_board_has_every_epoch_once_after_a_stop(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = resolve(None, [*SMALL, "name=board", "logging.tensorboard=true"]).config
    steps = 0

    def stop() -> int:
        nonlocal steps
        steps += 1
        return 15 if steps >= 13 else 0

    with pytest.raises(Interrupted):
        experiments.train_one(
            config, tmp_path, plots=False, callbacks=experiments.Callbacks(stop=stop)
        )
    folder, summary = experiments.train_one(config, tmp_path, resume=True, plots=False)
    events = EventAccumulator(str(folder.tensorboard))
    events.Reload()
    rows = [(event.step, event.value) for event in events.Scalars("loss/validation")]
    assert [step for step, _ in rows] == [1, 2, 3, 4]
    assert np.allclose(
        [loss for _, loss in rows], [r.validation_loss for r in folder.read_metrics()]
    )
    assert events.Scalars("test loss")[0].value == pytest.approx(summary["test_loss"])
    assert set(events.Tags()["images"]) == {"loss", "predictions", "attention"}


# --- progress on a terminal -----------------------------------------------------------------------


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        termios.tcsetwinsize(0, (24, 100))
        os.chdir(tmp_path)
        words = [
            "train",
            str(ROOT / "configs/squares.yaml"),
            "--set",
            "training.epochs=30",
            "--plots",
            "none",
        ]
        os.execve(sys.executable, [sys.executable, "-m", "seqattn", *words],
                  {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"})  # fmt: skip
    received = b""
    while True:
        try:
            received += os.read(terminal, 65_536)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    text = received.decode()
    assert "30/30" in text
    assert "validation 0." in text
    assert "\x1b[?25l" not in text  # the cursor is never hidden, so a kill need not restore it


# --- from Python ----------------------------------------------------------------------------------


def test_a_loaded_run_forecasts_as_the_command_does(
    run: RunFolder, seqattn: Callable[..., Ended]
) -> None:
    loaded = package.load(run.path)
    predictions = read_arrays(run.predictions)
    assert np.allclose(loaded.predict(predictions["source"]), predictions["forecast"], atol=1e-6)
    assert np.allclose(
        loaded.predict(predictions["source"][3]), predictions["forecast"][3], atol=1e-6
    )
    attention = read_arrays(run.attention)["weights"]
    assert np.allclose(loaded.attention(predictions["source"])["cross"], attention, atol=1e-6)
    assert loaded.evaluate().loss == pytest.approx(loaded.summary["test_loss"])
    assert len(loaded.history) == 4
    assert len(loaded.doctor()) == 12
    assert loaded.plot_attention([0, 2]).axes
    assert loaded.plot_loss().axes
    assert loaded.plot_predictions(2).axes
    assert "small" in repr(loaded)


def test_shorter_sequences_end_in_nan(tmp_path: Path) -> None:
    config = resolve(None, [*SMALL, "data.variable_length=true"]).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    loaded = package.load(folder.path)
    pair = np.array([[[-1.0, -1.0], [-1.0, 1.0]], [[1.0, 1.0], [np.nan, np.nan]]])
    together = loaded.predict(pair)
    assert np.allclose(together[1], loaded.predict(pair[1, :1]), atol=1e-6)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 2.0, 3.0]], r"\(N, S, 2\) or \(S, 2\) with the features x, y; got \(1, 3\)"),
        ([[np.nan, np.nan], [1.0, 1.0]], "sequence 0: not all numbers"),
        ([["a", "b"]], "expected an array of numbers: could not convert string to float: 'a'"),
        (None, "got"),
    ],
)  # fmt: skip
def test_wrong_arrays_are_refused(points: Any, message: str, run: RunFolder) -> None:
    with pytest.raises(DataError, match=message):
        package.load(run.path).predict(points)
