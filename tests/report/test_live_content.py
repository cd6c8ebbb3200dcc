"""What of the models a page has, and what it says of the rest. Graphs are not traced here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from seqattn import experiments
from seqattn.analysis.comparison import read_comparison
from seqattn.config import resolve
from seqattn.config.comparing import plan_comparison
from seqattn.errors import UsageError
from seqattn.experiments.compare import run_comparison
from seqattn.export.live import LiveGraph
from seqattn.report.content import comparison_content, run_content, runs_content
from seqattn.report.content import live as live_content
from seqattn.runs import RunFolder
from seqattn.training import LoadedModel

TINY = ["training.epochs=2", "training.batch_size=8", "data.n_train=16", "data.n_validation=8",
        "data.n_test=8", "model.hidden_dim=4"]  # fmt: skip


pytestmark = pytest.mark.usefixtures("untraced_graphs")


def train(home: Path, name: str, *sets: str) -> RunFolder:
    config = resolve(None, [*TINY, f"name={name}", *sets]).config
    return experiments.train_one(config, home, plots=False)[0]


def train_on_table(
    home: Path, name: str, *sets: str, empty: Sequence[tuple[int, int]] = ()
) -> RunFolder:
    """Train on 24 series of 8 values, of which some cells are empty."""
    numbers = np.random.default_rng(0).normal(size=(24, 8)).cumsum(axis=1)
    rows = [f"s{k},{t},{'' if (k, t) in empty else numbers[k, t]}\n"
            for k in range(24) for t in range(8)]  # fmt: skip
    file = home / f"{name}.csv"
    file.write_text("sequence,step,speed\n" + "".join(rows))
    own = [*TINY[:2], TINY[-1], "data.kind=file", f"data.path={file}", "data.source_length=5"]
    config = resolve(None, [*own, f"name={name}", *sets]).config
    return experiments.train_one(config, home, plots=False)[0]


ALL_THIRD = [(k, 2) for k in range(24)]
FILLED = ["data.normalize=instance", "data.missing=interpolate"]


def test_a_model_that_ignores_filled_cells_is_not_live(tmp_path: Path) -> None:
    # The model takes mean and deviation of a source without the cells that were filled, and the
    # graph does not know which they are.
    filled = run_content(train_on_table(tmp_path, "filled", *FILLED, empty=ALL_THIRD), live=True)
    assert filled["live"] is None
    assert any("filled" in notice and "data.normalize" in notice for notice in filled["notices"])
    for name, sets, empty in [("observed", FILLED, []), ("plain", FILLED[1:], ALL_THIRD)]:
        content = run_content(train_on_table(tmp_path, name, *sets, empty=empty), live=True)
        assert content["live"] is not None, name


def test_without_its_data_a_model_that_ignores_filled_cells_is_not_live(tmp_path: Path) -> None:
    folder = train_on_table(tmp_path, "filled", *FILLED)
    (tmp_path / "filled.csv").unlink()
    content = run_content(folder, examine=False, live=True)
    assert content["live"] is None
    assert "filled.csv" in content["notices"][-1]


def test_runs_with_other_units_are_refused(tmp_path: Path) -> None:
    metres = train_on_table(tmp_path, "metres", "data.units={speed: m/s}")
    miles = train_on_table(tmp_path, "miles", "data.units={speed: mph}")
    bare = train_on_table(tmp_path, "bare")
    with pytest.raises(UsageError, match=r"speed is in mph in miles, and in m/s in metres"):
        runs_content([metres, miles])
    notices = runs_content([metres, bare])["notices"]
    assert any("speed" in notice and "m/s" in notice and "bare" in notice for notice in notices)
    assert runs_content([metres, metres])["notices"] == []


def test_runs_that_no_source_fits_are_refused(tmp_path: Path) -> None:
    skip = ["model.skip=linear"]
    two = train(tmp_path, "two", *skip)
    four = train(tmp_path, "four", *skip, "data.kind=copy", "data.length=4")
    learned = ["model.kind=transformer", "model.model_dim=4", "model.heads=1", "data.kind=copy",
               "training.teacher_forcing.probability=1", "model.positions=learned"]  # fmt: skip
    short = [name for name in learned if not name.startswith("model.hidden")]
    with pytest.raises(UsageError, match="two accepts sources of 2 points only"):
        runs_content([two, four])
    config = [*[one for one in TINY if "hidden" not in one], "name=short", "data.length=3",
              "model.longest=3", *short]  # fmt: skip
    limited = experiments.train_one(resolve(None, config).config, tmp_path, plots=False)[0]
    with pytest.raises(UsageError, match="four accepts sources of 4 points only"):
        runs_content([limited, four])


def test_differences_of_runs_side_by_side_are_named(tmp_path: Path) -> None:
    squares = train(tmp_path, "squares")
    copy = train(tmp_path, "copy", "data.kind=copy", "data.length=4")
    quiet = train(tmp_path, "quiet", "data.noise=0.01")
    (lengths, data) = runs_content([squares, copy])["notices"]
    assert re.search(r"forecast steps: 2 \(squares\), 4 \(copy\)", lengths)
    assert "data.kind" in data
    assert "test sequences" in data
    assert "of squares" in data
    (noise,) = runs_content([squares, quiet])["notices"]
    assert "data.noise" in noise
    other = train(tmp_path, "other", "data.train_seed=1", "data.test_seed=2")
    (seeds,) = runs_content([squares, other])["notices"]
    assert "they differ in data.train_seed, data.test_seed. The test sequences" in seeds
    fixed = train(tmp_path, "fixed", "model.skip=linear")
    (limit,) = runs_content([squares, fixed])["notices"]
    assert "fixed accepts sources of 2 points only" in limit


def compared(home: Path) -> Path:
    (home / "c.yaml").write_text("name: both\n")
    planned = plan_comparison(home / "c.yaml", TINY, ["model.attention.score=dot,uniform"], seeds=2)
    return run_comparison(planned, home).path


def test_a_comparison_with_unreadable_predictions_goes_on(tmp_path: Path) -> None:
    path = compared(tmp_path)
    best = min(read_comparison(path).variants, key=lambda each: median(each.losses.values()))
    first = best.folders[min(best.losses, key=best.losses.__getitem__)]
    (first.path / "predictions.npz").write_bytes(b"no archive")
    content = comparison_content(read_comparison(path), live=True)
    assert len(content["live"]["models"]) == 2
    assert content["live"]["examples"]["ids"]
    assert any(str(first.path / "predictions.npz") in notice for notice in content["notices"])
    assert content["live"]["models"][0]["runs"][0]["name"].startswith(best.name)
    for variant in read_comparison(path).variants:
        for folder in variant.folders.values():
            (folder.path / "predictions.npz").write_bytes(b"no archive")
    content = comparison_content(read_comparison(path), live=True)
    assert content["live"] is None
    assert any("no test sequences" in notice for notice in content["notices"])


def test_too_many_graphs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_content, "MAX_GRAPHS", 1)
    content = comparison_content(read_comparison(compared(tmp_path)), live=True)
    assert [len(model["runs"]) for model in content["live"]["models"]] == [2]
    (data, notice) = content["notices"]
    assert "they differ in data." in data
    assert "2 of 4 runs are not live" in notice
    assert "1 graph" in notice
    assert "scaling" in notice


def test_epochs_that_are_left_out_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = train(tmp_path, "run", "training.epochs=9", "training.record_attention=1")
    (run,) = run_content(folder, live=True)["live"]["models"][0]["runs"]
    assert (run["recorded"], len(run["epochs"])) == (10, 10)
    size = folder.read_parameter_history()["parameters"][0].nbytes
    monkeypatch.setattr(live_content, "MAX_PARAMETER_BYTES", 4 * size)
    content = run_content(folder, live=True)
    (run,) = content["live"]["models"][0]["runs"]
    assert run["recorded"] == 10
    assert len(run["epochs"]) < 10
    assert any("of 10 recorded epochs" in notice for notice in content["notices"])


def test_a_model_that_is_too_large_takes_no_room_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = train(tmp_path, "large", "model.hidden_dim=24")
    small = train(tmp_path, "small")
    monkeypatch.setattr(live_content, "MAX_PARAMETER_BYTES", 8_000)
    monkeypatch.setattr(live_content, "MAX_GRAPHS", 1)
    models = live_content.LiveModels()
    assert [models.add(large, "large"), models.add(small, "small")] == [False, True]
    (reason,) = models.reasons
    assert reason.startswith("The model of large is not in this page, because its parameters take")
    (model,) = models.models
    assert [run["name"] for run in model["runs"]] == ["small"]


def fail(error: Exception) -> Any:
    def trace(_: LoadedModel) -> LiveGraph:
        raise error

    return trace


def test_a_copied_run_is_no_difference(tmp_path: Path) -> None:
    run = train(tmp_path, "run")
    shutil.copytree(run.path, tmp_path / "copied")
    assert runs_content([run, RunFolder(tmp_path / "copied")])["notices"] == []


REVERSED = [*TINY, "data.kind=reverse", "data.symbols=6", "data.length=5",
            "data.min_length=2"]  # fmt: skip


def test_a_page_of_symbols_has_their_vocabularies_sequences_and_links(tmp_path: Path) -> None:
    config = resolve(None, [*REVERSED, "name=words"]).config
    folder = experiments.train_one(config, tmp_path, plots=False)[0]
    content = run_content(folder, live=True)
    (model,) = content["live"]["models"]
    words, predictions = content["live"]["words"], folder.read_predictions()
    assert model["source_vocabulary"]["symbols"] == list(predictions["source_vocabulary"])
    assert model["steps"] == 2 * 6  # twice the longest target, which has an end
    assert words["total"] == len(words["ids"]) == 8
    for k, (source, target) in enumerate(zip(words["sources"], words["targets"], strict=True)):
        S = int(predictions["source_lengths"][k])
        assert source == predictions["source"][k, :S, 0].tolist()
        assert target[:-1] == source[::-1]
        assert words["links"][k] == [[t, S - 1 - t, 1] for t in range(S)]
    assert content["symbols"]["rows"][0][0] == "this model"
    assert content["summary"] is None
    assert not any("points" in finding["question"] for finding in content["doctor"])


def test_models_with_other_vocabularies_share_no_page(tmp_path: Path) -> None:
    names = {"six": REVERSED, "seven": [*REVERSED, "data.symbols=7"]}
    folders = [
        experiments.train_one(
            resolve(None, [*sets, f"name={name}"]).config, tmp_path, plots=False
        )[0]
        for name, sets in names.items()
    ]  # fmt: skip
    with pytest.raises(UsageError, match="the vocabulary of its source differs from that of six"):
        runs_content(folders)


def test_a_page_has_no_absolute_path(tmp_path: Path) -> None:
    content = run_content(train(tmp_path, "run"), live=True)
    assert not [text for text in texts_of(content) if str(tmp_path) in text]


def texts_of(content: object) -> list[str]:
    """Return all texts in a page's content."""
    if isinstance(content, str):
        return [content]
    children = content.values() if isinstance(content, dict) else content
    return [text for child in children for text in texts_of(child)] if isinstance(
        content, (dict, list)
    ) else []  # fmt: skip


def test_a_live_run_names_its_folder_only_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = train(tmp_path, "run")
    paths = []
    for here in (tmp_path, folder.path / "checkpoints"):
        monkeypatch.chdir(here)
        paths.append(run_content(folder, live=True)["live"]["models"][0]["runs"][0]["path"])
    assert paths == ["run", None]
