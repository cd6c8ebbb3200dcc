"""The user's own file as three parts: split without leaks, scaled, empty cells, and a whole run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.config import OwnFile
from seqattn.data import DataSpec, Splits, load_data, spaces
from seqattn.data.fitting import Method, fit_features
from seqattn.data.least_squares import least_squares
from seqattn.errors import DataError
from seqattn.training import batches, to_tensors
from seqattn.training.checkpoints import load_model
from tests.conftest import ROOT, Ended, whole

Command = Callable[..., Ended]


def table(rows: list[tuple[Any, ...]], head: str = "sequence,step,x,y") -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


def paths(n: int = 20, length: int = 6) -> str:
    return table([(f"s{k}", t, k + t / 10, -k - t / 10) for k in range(n) for t in range(length)])


def loaded(tmp_path: Path, text: str, **keys: Any) -> Splits:
    file = tmp_path / "f.csv"
    file.write_text(text)
    return load_data(OwnFile.model_validate({"path": str(file), **keys}))


def test_fractions_are_of_sequences_and_fixed_by_the_seed(tmp_path: Path) -> None:
    one, same = (loaded(tmp_path, paths(), source_length=2) for _ in range(2))
    other = loaded(tmp_path, paths(), source_length=2, split={"seed": 1})
    parts = [one.train, one.validation, one.test]
    assert [len(part) for part in parts] == [14, 3, 3]
    assert sorted(name for part in parts for name in part.ids) == sorted(f"s{k}" for k in range(20))
    assert one.test.ids == same.test.ids != other.test.ids
    assert {(name, part) for name, part, *_ in one.split} >= {(one.test.ids[0], "test")}
    assert one.train.target.shape == (14, 4, 2)


def test_groups_stay_together(tmp_path: Path) -> None:
    rows = [(f"s{k}", t, f"g{k % 7}", k, t) for k in range(35) for t in range(3)]
    text = table(rows, "sequence,step,who,x,y")
    splits = loaded(tmp_path, text, source_length=1, group="who", split={"by": "group"})
    groups = [{int(name[1:]) % 7 for name in part.ids}
              for part in (splits.train, splits.validation, splits.test)]  # fmt: skip
    assert [len(found) for found in groups] == [5, 1, 1]
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])


def test_windows_never_straddle_a_boundary(tmp_path: Path) -> None:
    rows = [("a", t, t, -t) for t in range(100)] + [("b", t, 1000 + t, t) for t in range(60)]
    splits = loaded(
        tmp_path, table(rows), window={"source": 3, "target": 2, "stride": 2}, split={"by": "time"},
        scaling="none",
    )  # fmt: skip
    seen = [
        set(np.unique(np.concatenate([part.source[..., 0], part.target[..., 0]], axis=1)))
        for part in (splits.train, splits.validation, splits.test)
    ]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    assert max(seen[0] & set(range(100))) < min(seen[1] & set(range(100)))
    first = splits.train
    assert first.source[0, :, 0].tolist() == [0, 1, 2]
    assert first.target[0, :, 0].tolist() == [3, 4]
    assert first.ids[1] == "a@5"
    assert splits.split[0] == ("a", "train", "0", "69")


def test_by_time_whole_sequences_go_by_their_first_step(tmp_path: Path) -> None:
    rows = [(f"s{k}", 100 - 10 * k + t, k, t) for k in range(10) for t in range(3)]
    splits = loaded(
        tmp_path, table(rows), source_length=1, split={"by": "time", "validation": 0.2, "test": 0.2}
    )
    assert set(splits.test.ids) == {"s0", "s1"}
    assert set(splits.validation.ids) == {"s2", "s3"}


@pytest.mark.parametrize("method", ["standard", "minmax", "robust"])
def test_a_constant_feature_is_shifted_and_noted(method: str, tmp_path: Path) -> None:
    text = table([(f"s{k}", t, k + t, 0.1) for k in range(10) for t in range(4)])
    splits = loaded(tmp_path, text, source_length=2, scaling=method, features=["x", "y"])
    assert splits.train.source_space.scale[1] == 1
    assert "y is always 0.1 in the training part: not scaled" in splits.notes


def test_a_feature_with_equal_quartiles_is_scaled_and_noted(tmp_path: Path) -> None:
    rows = [(f"s{k}", t, k + t, 5000.0 * (t == 3)) for k in range(20) for t in range(10)]
    splits = loaded(tmp_path, table(rows), source_length=5, scaling="robust")
    assert splits.train.source_space.scale[1] == pytest.approx(1500)
    assert DataSpec.of_splits(splits).vectors[0].scaling.shift[1] == 0
    expected_note = "y has equal quartiles in the training part: scaled by its standard deviation"
    assert expected_note in splits.notes
    assert not any(note.startswith("x ") for note in splits.notes)


def test_scales_by_hand() -> None:
    points = np.array([0.0, 1.0, 2.0, 9.0])

    def fitted(method: Method) -> tuple[float, float]:
        pieces = [points[:1], points[:0], points[1:]]
        whole = fit_features(method, ("x",), lambda: [("x", points)])["x"]
        merged = fit_features(method, ("x",), lambda: (("x", piece) for piece in pieces))["x"]
        assert (merged.shift, merged.scale) == pytest.approx((whole.shift, whole.scale), rel=1e-15)
        return whole.shift, whole.scale

    assert fitted("minmax") == (4.5, 4.5)
    assert fitted("robust") == (1.5, 3.0)
    assert fitted("standard") == pytest.approx((3, np.std(points)), rel=1e-15)


@pytest.mark.parametrize(
    "windowing", [{"source_length": 3}, {"window": {"source": 2, "target": 2}}]
)
@pytest.mark.parametrize("scaling", ["standard", "robust", "none"])
def test_a_stretch_at_a_time_gives_what_all_at_once_gives(
    windowing: dict[str, Any], scaling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = np.random.default_rng(0).standard_normal((40, 6, 2)).cumsum(axis=1)
    np.save(tmp_path / "w.npy", walk.astype(np.float32))
    plain = {"kind": "file", "path": str(tmp_path / "w.npy"), "scaling": scaling, **windowing}
    config = OwnFile.model_validate(plain)

    def found() -> list[Any]:
        splits = load_data(config)
        batch = to_tensors(splits.train)
        places = np.stack([np.arange(len(batch))[::-1], np.arange(len(batch))])
        slices = list(batches.chunk_slices(len(batch), 8))
        linear = whole(least_squares(splits.train, splits.test))
        return [
            linear, splits.train.source, splits.test.target, splits.train.target_space.scale,
            *(
                getattr(of(step), side).numpy()
                for runs, order in ((2, places), (1, places[0]))
                for of in [batches.batches_in_order(batches.stack_batches([batch] * runs), order, slices)]
                for step in range(3)
                for side in ("source", "target")
            ),
        ]  # fmt: skip

    at_once = found()
    monkeypatch.setattr(spaces, "MAX_BLOCK_VALUES", 50)
    monkeypatch.setattr(batches, "MAX_SHUFFLED_COPY", 50)
    for a, b in zip(at_once, found(), strict=True):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-6)


def test_relative_forgets_the_level(tmp_path: Path) -> None:
    splits = loaded(tmp_path, paths(), source_length=2, relative=True, scaling="none")
    source, target = splits.test.encode()
    assert np.allclose(source[:, 1], 0)
    assert np.allclose(target[:, :, 0], np.arange(1, 5) / 10)
    assert np.allclose(splits.test.decode(np.asarray(target)), splits.test.target)


def test_empty_cells_are_refused_dropped_or_filled(tmp_path: Path) -> None:
    rows = [[f"s{k}", t, float(k), float(t)] for k in range(10) for t in range(5)]
    rows[3][3], rows[4][3], rows[12][2] = "", "NA", "nan"
    text = table([tuple(row) for row in rows])
    with pytest.raises(DataError, match=r"line \d+, column '[xy]' is empty, and so are"):
        loaded(tmp_path, text, source_length=2)
    dropped = loaded(tmp_path, text, source_length=2, missing="drop_sequence")
    names = {*dropped.train.ids, *dropped.validation.ids, *dropped.test.ids}
    assert names == {f"s{k}" for k in range(10)} - {"s0", "s2"}
    assert any("dropped" in note for note in dropped.notes)
    filled = loaded(tmp_path, text, source_length=2, missing="interpolate")
    assert any(note.startswith("3 empty cells: interpolated in sources") for note in filled.notes)
    every = {
        name: part.target[k]
        for part in (filled.train, filled.validation, filled.test)
        for k, name in enumerate(part.ids)
    }
    assert np.array_equal(every["s0"][:, 1], [2, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(every["s2"][:, 0], [np.nan, 2, 2], equal_nan=True)


@pytest.mark.parametrize("cut", [{"source_length": 3}, {"target_length": 2}])
def test_a_source_is_filled_from_its_own_points(tmp_path: Path, cut: dict[str, int]) -> None:
    """An empty cell before the cut must not be told by what comes after it."""
    walk = [10.0, "", "", 80.0, 160.0]
    text = table([(f"s{k}", t, walk[t], "" if t == 3 else t) for k in range(10) for t in range(5)])
    splits = loaded(tmp_path, text, missing="interpolate", scaling="none", **cut)
    for part in (splits.train, splits.validation, splits.test):
        assert part.source[0].tolist() == [[10, 0], [10, 1], [10, 2]]
        assert np.array_equal(part.target[0], [[80, np.nan], [160, 4]], equal_nan=True)
    empty = text.replace("s4,0,10.0", "s4,0,")
    with pytest.raises(DataError, match="sequence 's4' has no 'x' in its source, so it cannot"):
        loaded(tmp_path, empty, missing="interpolate", **cut)


def test_the_source_of_a_window_is_filled_from_its_own_points(tmp_path: Path) -> None:
    values = [1, "", 3, "", "", "", 70, 8, 9, 10]
    rows = [(f"s{k}", t, values[t]) for k in range(10) for t in range(10)]
    splits = loaded(
        tmp_path, table(rows, "sequence,step,x"), window={"source": 3, "target": 1},
        missing="interpolate", scaling="none",
    )  # fmt: skip
    found = {name.partition("@")[2]: part.source[k, :, 0].tolist()
             for part in (splits.train, splits.validation, splits.test)
             for k, name in enumerate(part.ids)}  # fmt: skip
    assert found == {
        "3": [1, 2, 3], "4": [3, 3, 3], "5": [3, 3, 3], "7": [70, 70, 70], "8": [70, 70, 8],
        "9": [70, 8, 9],
    }  # fmt: skip
    target = splits.train.target[:6, 0, 0]
    assert np.array_equal(target, [np.nan, np.nan, np.nan, 8, 9, 10], equal_nan=True)
    expected_note = (
        "dropped 10 windows without a value of some feature in the source (data.missing)"
    )
    assert any(expected_note in note for note in splits.notes)


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ({"source_length": 3}, "dropped 2 sequences with empty cells or missing rows"),
        ({"window": {"source": 2, "target": 1}},
         "dropped 6 windows with empty cells or missing rows"),
    ],
)  # fmt: skip
def test_a_note_counts_what_was_dropped(tmp_path: Path, cut: Any, expected: str) -> None:
    """Series s3 lacks the row of step 2, and series s5 has an empty cell in this row."""
    rows = [(f"s{k}", t, "" if (k, t) == (5, 2) else k * t) for k in range(10) for t in range(5)
            if (k, t) != (3, 2)]  # fmt: skip
    splits = loaded(
        tmp_path, table(rows, "sequence,step,x"), missing="drop_sequence", **cut
    )  # fmt: skip
    (note,) = [note for note in splits.notes if note.startswith("dropped")]
    assert note.startswith(f"{expected} (data.missing): s")


@pytest.mark.parametrize("keys", [{}, {"split": {"by": "time"}}, {"validation_path": "v.csv"}])
def test_an_empty_last_row_of_a_wide_table_is_too_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: Any
) -> None:
    """Before, the time of its first row was that of no row."""
    monkeypatch.chdir(tmp_path)
    head = "id,2020-01-01,2020-01-02,2020-01-03\n"
    rows = "".join(f"a{k},{k},{k + 1},{k + 2}\n" for k in range(9))
    Path("w.csv").write_text(f"{head}{rows}z,,,\n")
    if "validation_path" in keys:
        Path("v.csv").write_text(f"{head}b,1,2,3\nq,,,\n")
        Path("t.csv").write_text(f"{head}c,1,3,3\n")
        keys = {**keys, "test_path": "t.csv"}
    described = {"path": "w.csv", "series": "id", "source_length": 2, **keys}
    splits = load_data(OwnFile.model_validate(described))
    names = [name for part in (splits.train, splits.validation, splits.test) for name in part.ids]
    assert len(names) == (11 if "test_path" in keys else 9)
    assert "z" not in names
    assert "too short to be cut into source and target: z" in " ".join(splits.notes)


@pytest.mark.parametrize("missing", ["refuse", "interpolate"])
def test_days_without_dashes_are_no_numbers(tmp_path: Path, missing: str) -> None:
    """From 20210131 to 20210201 is a day; to fill 69 rows between would be silently wrong."""
    days = [20210129, 20210130, 20210131, 20210201, 20210202]
    rows = [(f"s{k}", day, k, 10.0 * t) for k in range(10) for t, day in enumerate(days)]
    splits = loaded(tmp_path, table(rows), source_length=2, missing=missing)
    assert len(splits.train.ids) + len(splits.validation.ids) + len(splits.test.ids) == 10
    assert splits.train.target.shape[1] == 3
    assert splits.split[0][2:] == ("2021-01-29", "2021-02-02")
    assert "'step' is read as dates without dashes" in " ".join(splits.notes)
    later = [(name, step + 20, x, y) for name, step, x, y in rows]  # 20210149 is no day
    with pytest.raises(DataError, match="step 20210221 follows step 20210151, but steps are 1"):
        loaded(tmp_path, table(later), source_length=2)


@pytest.mark.parametrize(
    ("text", "keys", "words"),
    [
        (paths(1), {"source_length": 2}, "of 1 sequences the validation part would get 0"),
        (paths(20), {}, "source and target are not defined"),
        (paths(20), {"source_length": 6}, "no sequence has more than data.source_length = 6 points; the longest, 's0', has 6"),
        (paths(20), {"window": {"source": 2, "target": 2}, "split": {"by": "time"}}, "part of series 's0' has 4 of its 6 points|has 1 of its 6 points, but a window needs 4"),
        (paths(20), {"source_length": 2, "season": 5}, "data.season is 5, but a source may have only 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_parted(tmp_path: Path, text: str, keys: Any, words: str) -> None:
    with pytest.raises(DataError) as caught:
        loaded(tmp_path, text, **keys)
    assert any(each in str(caught.value) for each in words.split("|"))


CONFIG = """
name: own
data: {{kind: file, path: {path}, source_length: 3, scaling: standard}}
model: {{hidden_dim: 5}}
training: {{epochs: 2}}
"""


def test_a_run_on_a_file_speaks_its_units(seqattn: Command, tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text(paths(40).replace("sequence,step,x,y", "sequence,step,lon,lat"))
    (tmp_path / "c.yaml").write_text(CONFIG.format(path="f.csv"))
    done = seqattn("train", "c.yaml")
    assert done.code == 0, done.err
    assert "RMSE, lon" in done.out
    assert "28 training, 6 validation and 6 test sequences; source 3, target 3 points" in done.err
    home = tmp_path / "outputs" / "own"
    assert (home / "split.csv").read_text().startswith("sequence,part,first_step,last_step\n")
    saved = np.load(home / "predictions.npz")
    splits = load_data(OwnFile(path=str(file), source_length=3))
    assert np.array_equal(saved["target"], splits.test.target)
    assert b"f.csv" not in (home / "checkpoints" / "best.safetensors").read_bytes()
    done = seqattn("predict", home, "--input", "f.csv", "--output", "next.csv", "--steps", "2")
    assert done.code == 0, done.err
    lines = (tmp_path / "next.csv").read_text().splitlines()
    assert lines[0] == "sequence,step,lon,lat"
    assert [line.split(",")[:2] for line in lines[1:3]] == [["s0", "6"], ["s0", "7"]]
    found = seqattn("predict", home, "--example", "0").out.splitlines()[1].split(",")
    assert found[:2] == [splits.test.ids[0], "3"]
    assert seqattn("evaluate", home, "--input", "f.csv", "--json").code == 0
    assert seqattn("plot-attention", home, "--input", "f.csv", "--output", "a.png").code == 0
    for form in ("table", "markdown"):
        assert "in the units of the data" in seqattn("explain", home, "--format", form).out
    taken = json.loads(seqattn("explain", home, "--format", "json").out)
    _, target = DataSpec.of_splits(splits).vectors
    mean, spread = target.scaling.shift, target.scaling.scale
    assert list(taken["model_says_in_units"]) == ["lon", "lat"]
    assert list(taken["model_says_in_units"].values()) == pytest.approx(
        list(np.array(taken["model_says"]) * spread + mean)
    )
    last = home / "checkpoints" / "last.safetensors"
    before = last.read_bytes()
    file.write_text(file.read_text().replace("s0,1,", "s0,1,1", 1))
    for words in (["train", "c.yaml", "--resume"], ["evaluate", home]):
        done = seqattn(*words)
        assert done.code == 3
        assert "what data.path names has changed since the training" in done.err
    assert last.read_bytes() == before
    file.unlink()
    assert "f.csv: no such file" in seqattn("evaluate", home).err


def test_data_check_sample_and_formats(seqattn: Command, tmp_path: Path) -> None:
    assert "CSV, wide" in seqattn("data", "formats").out
    squares = ROOT / "configs" / "squares.yaml"
    for ending in ("csv", "jsonl", "npz", "parquet"):
        done = seqattn(
            "data", "sample", squares, "--output", f"s.{ending}", "--set", "data.n_train=9"
        )
        assert done.code == 0, done.err
        assert f"path: s.{ending}" in done.out
        done = seqattn("data", "check", f"s.{ending}", "--picture", "c.png")
        assert done.code == 0, done.err
        assert "9 sequences" in done.out
        assert "duplicate sequences: none" in done.out
        assert "kind: file" in done.out
    assert (tmp_path / "c.png").stat().st_size > 5000
    assert seqattn("data", "check", "none.csv").code == 3
    assert seqattn("data", "sample", squares, "--output", "s.xls").code == 2


def test_check_says_how_a_file_is_laid_out_and_what_comes_again(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "w.csv").write_text("sequence,x_1,x_2\na,1,2\nb,3,4\nc,1,2\n")
    done = seqattn("data", "check", "w.csv")
    assert "w.csv: csv, one sequence per row, 3 sequences of 2 steps" in done.out
    assert "duplicate sequences: 1" in done.out
    (tmp_path / "l.csv").write_text("id,t,x\na,1,2\na,2,3\nb,1,0\n")
    done = seqattn("data", "check", "l.csv")
    assert "l.csv: csv, one point per row, sequences identified by 'id', 2 sequences" in done.out
    np.savez(tmp_path / "s.npz", source=np.ones((2, 3, 1)), target=np.zeros((2, 1, 1)))
    done = seqattn("data", "check", "s.npz")
    assert "s.npz: npz, separate source and target, 2 sequences of 3 steps" in done.out


@pytest.mark.parametrize(
    ("sources", "targets"), [("ab", "c"), ("a", "bc"), ("abc", "ab"), ("ab", "ba")]
)
def test_columns_of_their_own_go_through_every_verb(
    seqattn: Command, tmp_path: Path, sources: str, targets: str
) -> None:
    rows = [(f"s{k}", t, k + t, k - t, t * t) for k in range(12) for t in range(6)]
    Path("f.csv").write_text(table(rows, "sequence,step,a,b,c"))
    Path("c.yaml").write_text(
        f"name: c\ndata: {{kind: file, path: f.csv, source_length: 4,"
        f" source_features: [{', '.join(sources)}], target_features: [{', '.join(targets)}]}}\n"
        "training: {epochs: 1}\n"
    )
    assert seqattn("train", "c.yaml", "--quiet").code == 0
    assert Path("outputs/c/predictions.png").exists()
    found = seqattn("predict", "outputs/c", "--input", "f.csv")
    assert found.code == 0
    assert found.out.splitlines()[0] == f"sequence,step,{','.join(targets)}"
    assert len(found.out.splitlines()) == 1 + 12 * 2
    drawn = seqattn("plot-attention", "outputs/c", "--input", "f.csv", "--output", "w.png")
    assert drawn.code == 0
    assert seqattn("evaluate", "outputs/c", "--input", "f.csv").code == 0


def test_an_npz_file_with_its_features_in_another_order_is_the_same(
    seqattn: Command, tmp_path: Path
) -> None:
    values = np.random.default_rng(0).standard_normal((12, 6, 2)).cumsum(axis=1)
    np.savez("f.npz", values=values, features=np.array(["x", "y"]))
    np.savez("g.npz", values=values[..., ::-1], features=np.array(["y", "x"]))
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: f.npz, source_length: 4}\ntraining: {epochs: 1}\n"
    )
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none").code == 0
    for verb in (["predict"], ["evaluate", "--json"]):
        one, other = (seqattn(*verb, "outputs/c", "--input", f) for f in ("f.npz", "g.npz"))
        assert one.out == other.out != ""
    both = {"source": values[:, :4], "features": np.array(["x", "y"])}
    np.savez("f.npz", **both, target=values[:, 4:], said=np.array(["x", "y"]))
    np.savez("g.npz", **both, target=values[:, 4:, ::-1], said=np.array(["y", "x"]))
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none", "--name", "d", "--set",
                   "data.source_length=null").code == 0  # fmt: skip
    one, other = (seqattn("evaluate", "--json", "outputs/d", "--input", f)
                  for f in ("f.npz", "g.npz"))  # fmt: skip
    assert one.out == other.out != ""


RUN = "name: c\ndata: {{kind: file, path: {path}, {more}}}\ntraining: {{epochs: 1}}\n"


def test_an_empty_cell_next_to_target_columns(seqattn: Command, tmp_path: Path) -> None:
    rows = [(f"s{k}", t, k + t, "" if t > 3 else k) for k in range(12) for t in range(5)]
    Path("f.csv").write_text(table(rows, "sequence,step,a,b"))
    Path("c.yaml").write_text(
        RUN.format(path="f.csv", more="source_features: [a], target_features: [b]")
    )
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none").code == 0
    Path("g.csv").write_text("sequence,step,a\ns,0,1\ns,1,\ns,2,3\n")
    for words in (["predict"], ["plot-attention", "--output", "w.png"]):
        done = seqattn(*words, "outputs/c", "--input", "g.csv")
        assert done.code == 3
        assert "line 3, column 'a' is empty" in done.err
    Path("g.csv").write_text("sequence,step,a\ns,0,1\ns,1,2\ns,2,\n")  # it ends there
    Path("h.csv").write_text("sequence,step,a\ns,0,1\ns,1,2\n")
    shorter, longer = (seqattn("predict", "outputs/c", "--input", f) for f in ("h.csv", "g.csv"))
    assert shorter.out == longer.out != ""


@pytest.mark.parametrize("missing", ["refuse", "drop_sequence", "interpolate"])
def test_a_forecast_goes_on_from_the_last_window(
    seqattn: Command, tmp_path: Path, missing: str
) -> None:
    Path("f.csv").write_text(paths(12, 8))
    window = "window: {source: 3, target: 2}, missing: " + missing
    Path("c.yaml").write_text(RUN.format(path="f.csv", more=window))
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none").code == 0
    Path("short.csv").write_text(table([("s", t, t, -t) for t in (5, 6, 7)]))
    Path("long.csv").write_text(table([("s", t, "" if t < 3 else t, -t) for t in range(8)]))
    short, long = (
        seqattn("predict", "outputs/c", "--input", f"{f}.csv") for f in ("short", "long")
    )
    assert short.code == 0
    assert short.out == long.out
    Path("j.jsonl").write_text('{"source": [[4, -4], [5, -5], [6, -6], [7, -7]], "id": "s"}\n')
    counted = seqattn("predict", "outputs/c", "--input", "j.jsonl", "--format", "csv")
    assert [line.split(",")[1] for line in counted.out.splitlines()] == ["step", "5", "6"]
    if missing == "interpolate":  # from the window's own points, be it a cell or a row that lacks
        cell = [("s", 3, 9, 9), ("s", 4, 9, 9), ("s", 5, "", ""), ("s", 6, 6, 6), ("s", 7, 7, 7)]
        forecasts = list[str]()
        for rows in (cell, [row for row in cell if row[1] != 5]):
            Path("gap.csv").write_text(table(rows))
            forecasts.append(seqattn("predict", "outputs/c", "--input", "gap.csv").out)
        assert forecasts[0] == forecasts[1] != ""
    Path("bad.csv").write_text(table([("s", 5, 5, ""), ("s", 6, 6, ""), ("s", 7, 7, "")]))
    for words in (["predict"], ["plot-attention", "--output", "w.png"]):
        done = seqattn(*words, "outputs/c", "--input", "bad.csv")
        assert done.code == 3
        messages = {
            "refuse": "line 2, column 'y' is empty",
            "drop_sequence": "dropped 1 sequence with empty cells or missing rows",
            "interpolate": "so it cannot be interpolated",
        }
        assert messages[missing] in " ".join(done.err.split())


def test_missing_rows_follow_from_the_steps_of_the_training(
    seqattn: Command, tmp_path: Path
) -> None:
    Path("f.csv").write_text(paths(12))
    Path("c.yaml").write_text(RUN.format(path="f.csv", more="source_length: 3"))
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none").code == 0
    Path("g.csv").write_text(table([("s", t, t, t) for t in range(0, 10, 2)]))
    for verb in ("predict", "evaluate"):
        done = seqattn(verb, "outputs/c", "--input", "g.csv")
        assert done.code == 3
        output = " ".join(done.err.split())
        assert "step 2 follows step 0, but steps are 1 apart" in output
        assert "or set data.missing to drop_sequence or interpolate" in output
    plain = load_model(Path("outputs/c/checkpoints/best.safetensors")).spec.as_plain()
    assert plain.pop("frequency") == {"unit": "number", "step": 1}
    assert DataSpec.from_plain(plain).frequency is None


def test_a_decimal_comma_can_be_trained_on(seqattn: Command, tmp_path: Path) -> None:
    rows = [f"s{k};{t};{k + t},5" for k in range(20) for t in range(6)]
    Path("de.csv").write_text("\n".join(["sequence;step;\U0001f600", *rows]) + "\n")
    Path("de.yaml").write_text(
        "name: de\ndata: {kind: file, path: de.csv, delimiter: ';', decimal: ',',"
        " source_length: 3, features: ['\U0001f600']}\ntraining: {epochs: 1}\n"
    )
    ended = seqattn("train", "de.yaml", "--plots", "none")
    assert ended.code == 0
    assert "Files are in outputs/de: summary.json, ..." in " ".join(ended.out.split())
    drawn = seqattn("train", "de.yaml", "--name", "drawn").out
    pictures = "loss_curve.png, predictions.png, attention.png"
    assert f"{pictures}, summary.json, ..." in " ".join(drawn.split())
    assert seqattn("evaluate", "outputs/de").code == 0
    assert (
        seqattn("train", "outputs/de/config.yaml", "--quiet", "--overwrite", "--plots", "none").code
        == 0
    )
    assert "\U0001f600" in Path("outputs/de/config.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    ("option", "line"), [("--decimal", 'decimal: ","'), ("--thousands", 'thousands: ","')]
)
def test_the_section_of_a_wide_table_keeps_the_number_format(
    seqattn: Command, tmp_path: Path, option: str, line: str
) -> None:
    rows = [";".join([f"s{k}", *(f"{k % 9 + 1},{t}00" for t in range(6))]) for k in range(30)]
    Path("wide.csv").write_text("\n".join(["id;" + ";".join("123456"), *rows]) + "\n")
    asked = seqattn("data", "check", "wide.csv", "--layout", "wide")
    assert asked.code == 3
    checked = seqattn("data", "check", "wide.csv", "--layout", "wide", option, ",")
    section = checked.out.partition("config:\n")[2]
    assert line in section, checked.out + checked.err
    Path("c.yaml").write_text(f"name: c\n{section}\nmodel: {{hidden_dim: 4}}\n")
    done = seqattn("train", "c.yaml", "--set", "training.epochs=1", "--plots", "none")
    assert done.code == 0, done.err


def test_sources_that_end_anywhere_are_no_table(seqattn: Command, tmp_path: Path) -> None:
    Path("v.yaml").write_text(
        "name: v\ndata: {kind: squares, n_train: 30, variable_length: true}\n"
    )
    refused = seqattn("data", "sample", "v.yaml", "--output", "v.csv")
    assert refused.code == 2
    assert "Write JSON lines or NPZ" in refused.err
    assert not Path("v.csv").exists()
    written = seqattn("data", "sample", "v.yaml", "--output", "a: b #1.jsonl")
    assert 'path: "a: b #1.jsonl"' in written.out


def test_check_says_what_cannot_be_trained_on(seqattn: Command, tmp_path: Path) -> None:
    rows = [(k, t, t / 10, k - t, "") for k in range(3) for t in range(10 - 3 * k)]
    Path("few.csv").write_text(table(rows, "sequence,step,x,y,z"))
    found = seqattn("data", "check", "few.csv").out
    assert "step: 0 to 9" in found  # the first sequence is the longest
    assert 'features: ["x", "y"]' in found
    assert "missing:" not in found
    assert "too few points: of 4 the smallest part would have 1" in found
    Path("one.csv").write_text(paths(12) + "last,0,1,1\n")
    found = seqattn("data", "check", "one.csv")
    assert "1 of the 13 sequences are too short" in " ".join(found.err.split())
    assert "'last'" in found.err
    Path("z.csv").write_text(table([("a", f"2021-01-0{k}T00:00:00Z", k, k * k) for k in (1, 2, 3)]))
    found = seqattn("data", "check", "z.csv")
    assert "times in 'step' are read and written as UTC" in " ".join(found.err.split())
    assert "step: 2021-01-01 to 2021-01-03" in found.out
