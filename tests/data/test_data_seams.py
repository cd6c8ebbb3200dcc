"""Where two parts of the data path meet: steps and numbers of several types in the cache, files of a
folder that disagree, entries made elsewhere, sequences that are all left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from seqattn.data import load_data
from seqattn.errors import DataError
from tests.conftest import Ended
from tests.data.test_cache import assert_same, config
from tests.many_files import folder_of, long


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("SEQATTN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def dated(n: int, first: int) -> pa.Table:
    """The same with days for steps."""
    table = long(n, first)
    days = np.datetime64("2024-01-01") + table["step"].to_numpy()
    return table.set_column(1, "step", pa.array(days))


def test_dates_can_be_cached(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "d", dated(20, 0), dated(20, 20))
    cached = load_data(config(folder))
    assert_same(cached, load_data(config(folder, cache="never")))
    assert_same(cached, load_data(config(folder)))
    assert cached.train.last_steps is not None
    assert cached.train.last_steps.dtype == np.dtype("datetime64[us]")


def test_a_later_file_of_wider_numbers_keeps_them(tmp_path: Path) -> None:
    """A first file of float32 does not round the float64 of the second."""
    folder = tmp_path / "d"
    folder.mkdir()
    points = np.random.default_rng(0).normal(size=(20, 6, 2))
    np.save(folder / "a.npy", points[:10].astype(np.float32))
    np.save(folder / "b.npy", points[10:])
    cached = load_data(config(folder))
    assert_same(cached, load_data(config(folder, cache="never")))
    assert cached.train.source.dtype == np.float64


@pytest.mark.parametrize("kind", ["always", "never"])
@pytest.mark.parametrize("dates_first", [True, False])
def test_dates_and_numbers_in_one_folder_are_refused(
    kind: str, dates_first: bool, tmp_path: Path
) -> None:
    tables = [dated(20, 0), long(20, 20)]
    folder = folder_of(tmp_path / "d", *(tables if dates_first else tables[::-1]))
    with pytest.raises(DataError, match=r"part-1.parquet: .*dates"):
        load_data(config(folder, cache=kind))


@pytest.mark.parametrize("kind", ["always", "never"])
@pytest.mark.parametrize("separate_first", [True, False])
def test_targets_apart_in_some_files_are_refused(
    kind: str, separate_first: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    points = np.random.default_rng(0).normal(size=(20, 6, 2))
    a, b = ("a", "b") if separate_first else ("b", "a")
    np.savez(folder / f"{a}.npz", source=points[:10, :3], target=points[:10, 3:])
    np.savez(folder / f"{b}.npz", source=points[10:])
    with pytest.raises(DataError, match=r"b\.npz: .*target"):
        load_data(config(folder, cache=kind, source_length=None if separate_first else 3))


def test_names_taken_from_paths_belong_to_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of one series each, alike but for their folders: a pattern calls them otherwise than a
    folder does."""
    home = tmp_path / "d"
    for k in range(8):
        inner = home / f"n{k}"
        inner.mkdir(parents=True)
        rows = "\n".join(f"{t},{k + t / 7}" for t in range(1, 9))
        (inner / "x.csv").write_text(f"t,a\n{rows}\n")
    monkeypatch.chdir(tmp_path)
    for path in (Path("d"), Path("d/*/x.csv")):
        assert_same(
            load_data(config(path, time="t")), load_data(config(path, time="t", cache="never"))
        )


@pytest.mark.parametrize("cut", ["target_length: 2", "window: {source: 3, target: 2}"])
def test_evaluate_says_that_all_sequences_were_dropped(
    cut: str, seqattn: Any, tmp_path: Path
) -> None:
    head, rows = "id,t,a", [(k, t, k + t / 7) for k in range(12) for t in range(1, 9)]
    (tmp_path / "a.csv").write_text("\n".join([head, *(f"{k},{t},{a}" for k, t, a in rows)]))
    (tmp_path / "b.csv").write_text(
        "\n".join([head, *(f"{k},{t},{'' if t in (3, 6) else a}" for k, t, a in rows)])
    )
    (tmp_path / "run.yaml").write_text(
        "name: r\ndata: {kind: file, path: a.csv, missing: drop_sequence, " + cut + "}\n"
        "training: {epochs: 1}\nmodel: {kind: recurrent, hidden_dim: 3}\n"
    )
    made: Ended = seqattn("train", "run.yaml", "--plots", "none", "--output-dir", "o")
    assert made.code == 0, made.err
    done: Ended = seqattn("evaluate", "o/r", "--input", "b.csv")
    assert done.code == 3
    assert "b.csv" in done.err
    assert "empty cells" in done.err
    (tmp_path / "c.csv").write_text(
        "\n".join([head, *(f"{k},{t},{'' if (k, t) == (2, 3) else a}" for k, t, a in rows)])
    )
    done = seqattn("evaluate", "o/r", "--input", "c.csv")
    assert done.code == 0
    assert "dropped" in done.err


@pytest.mark.parametrize("missing", ["interpolate", "drop_sequence", "refuse"])
@pytest.mark.parametrize("which", [0, 5, 11])
def test_a_sequence_without_a_source_is_named(
    which: int, missing: str, seqattn: Any, tmp_path: Path
) -> None:
    """Its columns that are given are empty from the first row on."""
    rows = [(k, t, f"{k + t / 7:.3f}") for k in range(12) for t in range(1, 9)]
    whole = "\n".join(["id,t,a,y", *(f"{k},{t},{a},{a}" for k, t, a in rows)])
    lacks = "\n".join(["id,t,a,y", *(f"{k},{t},{'' if k == which else a},{a}" for k, t, a in rows)])
    (tmp_path / "a.csv").write_text(whole)
    (tmp_path / "b.csv").write_text(lacks)
    (tmp_path / "run.yaml").write_text(
        "name: r\ndata: {kind: file, path: a.csv, source_features: [a], target_features: [y],"
        f" missing: {missing}}}\ntraining: {{epochs: 1}}\nmodel: {{hidden_dim: 3}}\n"
    )
    made: Ended = seqattn("train", "run.yaml", "--plots", "none", "--output-dir", "o")
    assert made.code == 0, made.err
    for command in ("predict", "evaluate"):
        done = seqattn(command, "o/r", "--input", "b.csv")
        assert done.code == 3
        assert f"b.csv: sequence '{which}' has no points in its source" in done.err


@pytest.mark.parametrize("which", [0, 5, 11])
def test_a_sequence_without_points_beside_empty_cells(which: int, tmp_path: Path) -> None:
    """It is left out as too short, and the cell of another is interpolated."""
    points = np.random.default_rng(0).normal(size=(12, 6, 2))
    points[which] = np.nan
    points[[3, 8], 1, 0] = np.nan
    np.save(tmp_path / "a.npy", points)
    data = load_data(config(tmp_path / "a.npy", missing="interpolate", cache="never"))
    ids = [*data.train.ids, *data.validation.ids, *data.test.ids]
    assert sorted(map(int, ids)) == [k for k in range(12) if k != which]
