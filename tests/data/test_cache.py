"""Folders of files, the cache of their numbers, and sequences that are gathered as they are needed:
all give what one file in memory gives, to the last bit."""

from __future__ import annotations

import builtins
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import torch

from seqattn import experiments
from seqattn.analysis.evaluation import ReferenceLosses
from seqattn.config import Config, OwnFile, resolve
from seqattn.data import DataSpec, Splits, Windows, load_data, windows
from seqattn.data import store as cache
from seqattn.data.sequences import Sequences
from seqattn.errors import DataError
from seqattn.experiments.verify_resume import verify_resume
from seqattn.runs import RunFolder
from seqattn.training import ProcessGroup, batches
from seqattn.training.batches import Batch, DataLoader, GatheredBatch, batch_of
from tests.conftest import Ended
from tests.many_files import folder_of, long, wide


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("SEQATTN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def config(path: Path, **more: Any) -> OwnFile:
    described: dict[str, Any] = {"path": str(path), "source_length": 3, "cache": "always", **more}
    return OwnFile.model_validate(described)


def a_run(path: Path, *sets: str) -> Config:
    return resolve(None, [
        "name=run", "data.kind=file", f"data.path={path}", "data.window={source: 3, target: 1}",
        "training.epochs=3", "training.batch_size=8", "model.hidden_dim=5", "data.cache=always",
        "training.checkpoint_seconds=0", *sets,
    ]).config  # fmt: skip


def assert_same(one: Splits, other: Splits) -> None:
    assert (
        DataSpec.of_splits(one).scaling_as_plain() == DataSpec.of_splits(other).scaling_as_plain()
    )
    assert one.in_sample == other.in_sample
    assert one.frequency == other.frequency
    assert one.split == other.split
    for name in ("train", "validation", "test"):
        assert_same_part(getattr(one, name), getattr(other, name))


def assert_same_part(one: Sequences, other: Sequences) -> None:
    assert list(one.ids) == list(other.ids)
    assert (one.features, one.target_features) == (other.features, other.target_features)
    for key in ("source", "target", "source_lengths", "target_lengths", "last_steps",
                "source_observed", "target_observed"):  # fmt: skip
        a, b = getattr(one, key), getattr(other, key)
        assert (a is None) == (b is None), key
        if a is not None:
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), key


GAPS = {"missing": "interpolate", "source_length": None}
CUTS: list[dict[str, Any]] = [
    {}, {"source_length": None, "target_length": 2},
    {**GAPS, "window": {"source": 3, "target": 2}},
    {**GAPS, "window": {"source": 1, "target": 1},
     "split": {"by": "time", "validation": 0.33, "test": 0.33}},
    {"split": {"by": "time"}},
    {"source_features": ["a"], "target_features": ["b"], "source_length": None},
    {"relative": True, "scaling": "minmax"}, {"normalize": "instance", "scaling": "robust"},
]  # fmt: skip


def with_gaps(table: pa.Table, seed: int) -> pa.Table:
    """Without some rows, and some cells, but with the first and last of each series."""
    numbers, step = np.random.default_rng(seed), table["step"].to_numpy()
    inner = (step > 1) & (step < step.max())
    columns = {name: table[name].to_numpy().copy() for name in "ab"}
    for column in columns.values():
        column[inner & (numbers.random(len(step)) < 0.2)] = np.nan
    kept = ~(inner & (numbers.random(len(step)) < 0.1))
    made = {"sequence": table["sequence"].to_numpy(zero_copy_only=False)[kept], "step": step[kept]}
    return pa.table(
        made | {name: pa.array(one[kept], from_pandas=True) for name, one in columns.items()}
    )


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_cached_folder_is_a_file_in_memory(cut: dict[str, Any], tmp_path: Path) -> None:
    table = long(60, 0)
    if cut.get("missing"):
        table = with_gaps(table, 1)
    whole = folder_of(tmp_path / "whole", table) / "part-0.parquet"
    names = np.array(table["sequence"].to_pylist())
    pieces = [table.filter(pa.array(np.isin(names, some))) for some in
              np.array_split(list(dict.fromkeys(names)), 4)]  # fmt: skip
    folder = folder_of(tmp_path / "many", *pieces)
    in_memory = load_data(config(whole, **cut, cache="never"))
    for path in (folder, whole):
        assert_same(load_data(config(path, **cut)), in_memory)
    assert_same(load_data(config(folder, **cut, cache="never")), in_memory)


def test_series_that_lie_in_several_files_are_joined(tmp_path: Path) -> None:
    """Each file has two of the six points of every series, in no order."""
    table = long(20, 0)
    step = table["step"].to_numpy()
    pieces = [
        table.filter(pa.array((step == a) | (step == b))) for a, b in ((2, 5), (6, 1), (3, 4))
    ]
    whole = folder_of(tmp_path / "whole", table) / "part-0.parquet"
    folder = folder_of(tmp_path / "many", *pieces)
    for kind in ("always", "never"):
        assert_same(load_data(config(folder, cache=kind)), load_data(config(whole, cache="never")))
    lacks = folder_of(tmp_path / "lacks", *pieces[:2])
    with pytest.raises(DataError, match="series 's0' at 5: step 5 follows step 2, but steps are 1"):
        load_data(config(lacks))


def test_a_second_start_opens_no_source_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path / "d", long(40, 0), long(20, 40))
    first = load_data(config(folder))
    opened = list[str]()
    real = builtins.open

    def watched(file: Any, *words: Any, **more: Any) -> Any:
        opened.append(str(file))
        return real(file, *words, **more)

    def forbidden(*words: Any, **more: Any) -> Any:
        raise AssertionError("a source file is read")

    monkeypatch.setattr(builtins, "open", watched)
    monkeypatch.setattr("seqattn.data.many_files.read_chunks", forbidden)
    monkeypatch.setattr("seqattn.data.many_files.file_digest", forbidden)
    second = load_data(config(folder))
    assert_same(second, first)
    assert second.digests == first.digests
    assert second.digests_by_file == first.digests_by_file
    assert not [path for path in opened if str(folder) in path]


@pytest.mark.parametrize("change", ["content", "touched", "file", "how", "torn", "version"])
def test_a_cache_of_something_else_is_not_taken(
    change: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path / "d", long(40, 0))
    first = load_data(config(folder))
    more: dict[str, Any] = {}
    path = folder / "part-0.parquet"
    (entry,) = home.iterdir()
    if change == "content":
        pq.write_table(long(40, 7), path)
    elif change == "touched":
        os.utime(path, ns=(1, 1))
    elif change == "file":
        pq.write_table(long(5, 90), folder / "part-1.parquet")
    elif change == "how":
        more = {"features": ["b"]}
    elif change == "torn":
        content = (entry / "values").read_bytes()[:-8]
        (entry / "values").unlink()  # what the first load has mapped stays as it was
        (entry / "values").write_bytes(content)
    else:
        monkeypatch.setattr(cache, "VERSION", 99)
    second = load_data(config(folder, **more))
    now = load_data(config(folder, **more, cache="never"))
    assert_same(second, now)
    same = change in ("touched", "torn", "version")
    assert (second.digests == first.digests) == (same or change == "how")
    if same:
        assert_same(second, first)


# --- what folders may hold ------------------------------------------------------------------------


def test_files_of_one_name_are_named_with_their_folders(tmp_path: Path) -> None:
    for k in range(12):
        place = tmp_path / "d" / f"trip={k:02}"
        place.mkdir(parents=True)
        pq.write_table(
            long(1, k).drop(["sequence"]), place / f"{'part-0' if k else 'first'}.parquet"
        )
    splits = load_data(config(tmp_path / "d", series=None, split={"validation": 0.3, "test": 0.3}))
    names = [*splits.train.ids, *splits.validation.ids, *splits.test.ids]
    assert sorted(names) == ["first", *(f"trip={k:02}/part-0" for k in range(1, 12))]


@pytest.mark.parametrize("ending", ["csv", "npy", "jsonl", "csv.gz"])
def test_folders_and_patterns_of_any_format(ending: str, tmp_path: Path) -> None:
    """30 sequences, 10 in a file, of which nothing has a name."""
    import gzip
    import json

    points = np.random.default_rng(3).normal(size=(30, 6, 2)).round(3)
    (tmp_path / "d").mkdir()
    for k in range(3):
        some, path = points[10 * k : 10 * k + 10], tmp_path / "d" / f"f{k}.{ending}"
        if ending == "npy":
            np.save(path, some)
        elif ending == "jsonl":
            path.write_text("".join(json.dumps({"source": one.tolist()}) + "\n" for one in some))
        else:
            head = ",".join(f"{name}_{t}" for t in range(1, 7) for name in "xy")
            rows = [",".join(map(str, one.ravel())) for one in some]
            text = "\n".join([head, *rows]) + "\n"
            opened = gzip.open if ending.endswith("gz") else open
            with opened(path, "wt") as file:
                file.write(text)
    (tmp_path / "d" / "notes.md").write_text("what this is")
    for path in (tmp_path / "d", tmp_path / "d" / "*.*[yzlv]"):
        data = load_data(config(path))
        parts = (data.train, data.validation, data.test)
        found = np.concatenate(
            [np.concatenate([part.source, part.target], axis=1) for part in parts]
        )
        assert len(found) == len({name for part in parts for name in part.ids}) == 30
        assert {one.tobytes() for one in found} == {one.tobytes() for one in points}


def test_parts_below_the_folder_do_not_train(tmp_path: Path) -> None:
    top = folder_of(tmp_path / "d", wide(60, 0))
    parts = {f"{name}_path": str(folder_of(top / name, wide(20, first)))
             for name, first in (("validation", 60), ("test", 80))}  # fmt: skip
    splits = load_data(config(top, **parts))
    assert {*splits.train.ids} == {f"s{k}" for k in range(60)}
    assert "2 of the 3 files belong to the other parts" in " ".join(splits.notes)
    (top / "copy.parquet").write_bytes((top / "test" / "part-0.parquet").read_bytes())
    with pytest.raises(DataError, match=r"has the same content as .*, which belongs to another"):
        load_data(config(top, **parts))
    parts["test_path"] = parts["validation_path"]
    with pytest.raises(DataError, match="is used by two parts"):
        load_data(config(top, **parts))


@pytest.mark.parametrize(("make", "message"), [
    (lambda d: feather.write_feather(wide(3, 9), str(d / "a.arrow")),
     r"has files of several formats \(arrow, parquet\).*data.format: arrow"),
    (lambda d: pq.write_table(wide(3, 9).rename_columns(
        ["sequence", *(f"{n}_{t}" for t in range(1, 7) for n in "cd")]), d / "b.parquet"),
     r"b.parquet: .*(no column|has the features c, d)"),
    (lambda d: pq.write_table(wide(3, 2), d / "b.parquet"),
     r"b.parquet: its series 's2' also has rows in another file"),
    (lambda d: (d / "b.parquet").write_bytes(b"PAR1"), r"b.parquet: is a damaged Parquet file"),
])  # fmt: skip
def test_files_that_cannot_be_meant_are_refused(make: Any, message: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "d", wide(60, 0))
    folder = folder.rename(tmp_path / "e")
    (folder / "part-0.parquet").rename(folder / "a.parquet")
    make(folder)
    with pytest.raises(DataError, match=message):
        load_data(config(folder))


@pytest.mark.parametrize(("path", "message"), [
    ("nothing", "no such file"), ("empty", "is a folder without a data file"),
    ("*.parquet", "no file matches this pattern"),
])  # fmt: skip
def test_paths_without_files_are_refused(path: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=message):
        load_data(config(tmp_path / path))


# --- gathered as they are needed ------------------------------------------------------------------


def gathered(part: Sequences, data: Splits) -> GatheredBatch:
    found = batch_of(part)
    assert isinstance(found, GatheredBatch)
    return found


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_gathered_batches_are_those_of_tensors(
    cut: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_gaps(long(40, 0), 2) if cut.get("missing") else long(40, 0)
    data = load_data(config(folder_of(tmp_path / "d", table), **cut))
    whole = batch_of(data.train)
    assert isinstance(whole, Batch)
    monkeypatch.setattr(batches, "MAX_RESIDENT", 0)
    some = gathered(data.train, data)
    assert some.shape == whole.shape
    places = torch.tensor([[3, 1, 4], [1, 5, 9]])
    for one, other in (
        (some.take(slice(2, 9)), whole.take(slice(2, 9))),
        (some.gather(places[0]), whole.gather(places[0])),
        (some.of_runs(2).gather(places), batches.stack_batches([whole, whole]).gather(places)),
        (
            some.of_runs(2).take(slice(0, 4)),
            batches.stack_batches([whole, whole]).take(slice(0, 4)),
        ),
    ):
        assert torch.equal(one.loss_counts, other.loss_counts)
        for key in ("source", "target", "source_lengths", "target_keep"):
            a, b = getattr(one, key), getattr(other, key)
            assert (a is None) == (b is None), key
            assert a is None or torch.equal(a, b), key


def test_processes_gather_their_own_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_data(config(folder_of(tmp_path / "d", wide(40, 0, ragged=True)), source_length=2))
    part = batch_of(data.train)
    whole = DataLoader([part], 7, None)
    monkeypatch.setattr(batches, "MAX_RESIDENT", 0)
    parts = [part, gathered(data.train, data)]
    groups = [ProcessGroup(rank, 2, torch.device("cpu")) for rank in range(2)]
    shares = [DataLoader([part], 7, group) for part in parts for group in groups]
    fetch = {loader: loader.shuffled([5], 2) for loader in (whole, *shares)}
    for step in range(len(whole.batches(2))):
        batch = fetch[whole](step)
        for both in (shares[:2], shares[2:]):
            found = [fetch[loader](step) for loader in both]
            assert torch.equal(torch.cat([each.source for each in found]), batch.source)
            assert torch.equal(torch.cat([each.target for each in found]), batch.target)
            assert [loader.batches(2)[step].shard.n for loader in both] == [len(batch)] * 2
            assert sum(each.loss_counts for each in found) == batch.loss_counts


def test_many_chunks_score_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Baselines, their errors and the scaling, of windows that are gathered five at a time."""
    table = with_gaps(long(60, 0), 3)
    keys: dict[str, Any] = {**GAPS, "window": {"source": 3, "target": 2}}
    folder = folder_of(tmp_path / "d", table)
    whole = load_data(config(folder, **keys))
    monkeypatch.setattr(windows, "CHUNK_NUMBERS", 50)
    some = load_data(config(folder, **keys))
    assert len(list(some.train.chunks())) > 10
    one, other = (ReferenceLosses.from_splits(data.test, data) for data in (whole, some))
    for a, b in ((one.baselines, other.baselines), (one.fitted, other.fitted)):
        assert a.keys() == b.keys()
        assert list(b.values()) == pytest.approx([a[name] for name in b], rel=1e-9)
    assert some.train.source_space.scale == pytest.approx(whole.train.source_space.scale, rel=1e-12)


def trained(config: Config, home: Path) -> tuple[list[list[float]], bytes]:
    folder, _ = experiments.train_one(config, home, plots=False)
    rows = [row.as_row()[1:4] for row in RunFolder(home / config.name).read_metrics()]
    return rows, folder.best.read_bytes() + folder.predictions.read_bytes()


def test_a_training_that_gathers_is_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path / "d", long(30, 0), long(30, 30))
    config = a_run(folder)
    rows, files = trained(config, tmp_path / "one")
    monkeypatch.setattr(batches, "MAX_RESIDENT", 0)
    assert isinstance(load_data(config.data).train, Windows)
    again, same = trained(config, tmp_path / "other")
    assert again == rows
    assert same == files


def test_stops_inside_epochs_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MAX_RESIDENT", 0)
    folder = folder_of(tmp_path / "d", long(20, 0), long(20, 20))
    found = verify_resume(a_run(folder), tmp_path, stops=5, message=lambda line: None)
    assert found.difference is None
    assert found.compared > 10


def test_the_verbs_work_on_such_a_run(tmp_path: Path, seqattn: Any) -> None:
    folder_of(tmp_path / "d", long(30, 0), long(30, 30))
    (tmp_path / "c.yaml").write_text(
        "name: s\ndata: {kind: file, path: d, cache: always, window: {source: 3, target: 1}}\n"
        "model: {hidden_dim: 5}\ntraining: {epochs: 2}\n"
    )
    done: Ended = seqattn("train", "c.yaml", "--plots=none")
    assert done.code == 0, done.err
    for words in itertools.chain((("evaluate", "outputs/s"), ("doctor", "outputs/s"),
                                  ("predict", "outputs/s", "--input", "d/part-0.parquet"))):  # fmt: skip
        assert seqattn(*words).code == 0, words
    pq.write_table(long(30, 99), tmp_path / "d" / "part-1.parquet")
    again = seqattn("train", "c.yaml", "--resume")
    assert again.code == 3
    assert "Changed files: 1, such as d/part-1.parquet." in again.err


@pytest.mark.parametrize("path", ["d", "d/*.csv"])
def test_data_check_of_many_files_trains_as_it_stands(
    path: str, tmp_path: Path, seqattn: Any
) -> None:
    (tmp_path / "d").mkdir()
    for k in range(3):
        rows = [f"s{j},{t},{j + t},{j - t}" for j in range(10 * k, 10 * k + 10) for t in range(6)]
        text = "\n".join(["series,t,x,y", *rows]) + "\n"
        (tmp_path / "d" / f"f{k}.csv").write_text(text)
    done = seqattn("data", "check", path)
    assert done.code == 0, done.err
    assert "3 files" in done.out
    section = done.out.partition("put this into a config:\n")[2]
    assert f"path: {path}" in section.replace('"', "")
    (tmp_path / "c.yaml").write_text(f"name: c\n{section}\ntraining: {{epochs: 1}}\n")
    done = seqattn("train", "c.yaml", "--plots=none")
    assert done.code == 0, done.err
    parts = (tmp_path / "outputs/c/split.csv").read_text().splitlines()
    assert len(parts) == 31
