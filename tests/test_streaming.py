"""Training from more files than memory holds: order, scaling, stops, and files that change."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import torch

from seqattn import experiment
from seqattn.config import Config, OwnFile, Stream, resolve
from seqattn.data import Splits, load, own
from seqattn.data.scaling import fit_feature
from seqattn.data.streaming import SAMPLE, Moments, chances
from seqattn.errors import ConfigError, DataError
from seqattn.experiment import Watchers
from seqattn.resuming import first_difference, verify_resume
from seqattn.runs import RunFolder
from seqattn.training import batches as batching
from seqattn.training import feeds
from tests.conftest import Ended

LENGTHS = (4, 5, 6)


def wide(n: int, first: int, ragged: bool = False) -> pa.Table:
    """n sequences of 6 points, named s0, s1, ...; the second half is the first half backwards."""
    numbers = np.random.default_rng(first)
    points = numbers.normal(size=(n, 6, 2)) * [3.0, 0.5] + [1e3, -2.0]
    points[:, 3:] = points[:, 2::-1]
    if ragged:
        for k in range(n):
            points[k, LENGTHS[(first + k) % 3] :] = np.nan
    columns: dict[str, Any] = {"sequence": [f"s{first + k}" for k in range(n)]}
    for t, (j, name) in itertools.product(range(6), enumerate("ab")):
        columns[f"{name}_{t + 1}"] = points[:, t, j]
    return pa.table(columns)


def long(n: int, first: int) -> pa.Table:
    table = wide(n, first)
    return pa.table({
        "sequence": np.repeat(table["sequence"].to_pylist(), 6),
        "step": np.tile(np.arange(1, 7), n),
        **{name: np.stack([table[f"{name}_{t}"].to_numpy() for t in range(1, 7)], 1).ravel()
           for name in "ab"},
    })  # fmt: skip


def folder_of(home: Path, *tables: pa.Table, kind: str = "parquet", group: int = 17) -> Path:
    home.mkdir(exist_ok=True)
    for k, table in enumerate(tables):
        if kind == "parquet":
            pq.write_table(table, home / f"part-{k}.parquet", row_group_size=group)
        else:
            feather.write_feather(table, str(home / f"part-{k}.arrow"), compression="uncompressed")
    return home


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """150 sequences in three files of row groups of 17."""
    return folder_of(tmp_path / "d", wide(60, 0), wide(40, 60), wide(50, 100))


def config(path: Path, **more: Any) -> Stream:
    described = {
        "path": str(path), "source_length": 3, "buffer": 30,
        "split": {"validation": 0.15, "test": 0.15}, **more,
    }  # fmt: skip
    return Stream.model_validate(described)


def a_run(path: Path, *sets: str) -> Config:
    return resolve(None, [
        "name=run", "data.kind=stream", f"data.path={path}", "data.source_length=3",
        "data.buffer=30", "data.split.validation=0.15", "data.split.test=0.15",
        "training.epochs=3", "training.batch_size=8", "model.hidden_dim=5",
        "training.checkpoint_seconds=0", *sets,
    ]).config  # fmt: skip


def trained(config: Config, home: Path, **more: Any) -> list[list[float]]:
    experiment.run(config, home, plots=False, **more)
    return [row.as_row()[1:4] for row in RunFolder(home / config.name).read_metrics()]


def order_of(splits: Splits, seed: int, epoch: int, size: int = 8) -> list[tuple[str, ...]]:
    """Names of the sequences, batch by batch."""
    assert splits.stream is not None
    of_epoch = splits.stream.epoch(seed, epoch, size)
    steps = range(len(splits.stream.batches(size)))
    return [tuple(splits.stream.names(of_epoch.rows(step))) for step in steps]


# --- the order ------------------------------------------------------------------------------------


def test_windows_of_one_series_stay_in_one_part(tmp_path: Path) -> None:
    files = folder_of(tmp_path / "d", *(long(40, 40 * k) for k in range(3)))
    window = {"source": 2, "target": 1}
    splits = load(config(files, source_length=None, window=window))
    assert splits.stream is not None
    names = [splits.train.ids, splits.validation.ids, splits.test.ids]
    series = [{name.rpartition("@")[0] for name in part} for part in names]
    assert [4 * len(found) for found in series] == [len(part) for part in names]
    assert min(map(len, series)) >= 5
    assert not (series[0] & series[1] or series[0] & series[2] or series[1] & series[2])


def test_a_spacing_is_kept_where_all_files_have_it(tmp_path: Path) -> None:
    """A model of files with steps 1 and 2 apart must forecast from either."""
    coarse = long(60, 60)
    coarse = coarse.set_column(1, "step", pa.array(2 * coarse["step"].to_numpy()))
    same, mixed = (
        folder_of(tmp_path / "s", long(60, 0)),
        folder_of(tmp_path / "m", long(60, 0), coarse),
    )
    assert load(config(same)).frequency == ("number", 1, 0)
    assert load(config(mixed)).frequency is None


def test_a_sequence_that_comes_twice_is_in_one_part(tmp_path: Path) -> None:
    """The same table in two files, and two of its row groups: never trained on and tested."""
    files = folder_of(tmp_path / "d", wide(120, 0), pa.concat_tables([wide(120, 0), wide(30, 0)]))
    splits = load(config(files))
    assert splits.stream is not None
    trained_on = {name.split(" of ")[0] for batch in order_of(splits, 1, 0) for name in batch}
    held = [set(part.ids) for part in (splits.validation, splits.test)]
    assert min(map(len, held)) >= 8
    assert not (trained_on & (held[0] | held[1]) or held[0] & held[1])


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for k in range(12):
        home = tmp_path / "d" / f"trip={k:02}"
        home.mkdir(parents=True)
        name = "part-0" if k else "first"
        pq.write_table(long(1, k).drop(["sequence"]), home / f"{name}.parquet")
    splits = load(config(tmp_path / "d", series=None, split={"validation": 0.3, "test": 0.3}))
    names = [*splits.train.ids, *splits.validation.ids, *splits.test.ids]
    assert sorted(names) == ["first", *(f"trip={k:02}/part-0" for k in range(1, 12))]


def test_parts_below_the_folder_do_not_train(tmp_path: Path) -> None:
    home = folder_of(tmp_path / "d", wide(60, 0))
    parts = {f"{name}_path": str(folder_of(home / name, wide(20, first)))
             for name, first in (("validation", 60), ("test", 80))}  # fmt: skip
    splits = load(config(home, **parts))
    assert splits.stream is not None
    assert len(splits.stream) == 60
    assert {*splits.train.ids} == {f"s{k}" for k in range(60)}
    assert "2 of the 3 files of" in " ".join(splits.notes)
    (home / "copy.parquet").write_bytes((home / "test" / "part-0.parquet").read_bytes())
    with pytest.raises(
        DataError, match="has the bytes of .*copy.parquet, which belongs to another"
    ):
        load(config(home, **parts))
    parts["test_path"] = parts["validation_path"]
    with pytest.raises(DataError, match="which belongs to another part"):
        load(config(home, **parts))


def test_a_few_keys_of_the_split_leave_the_others_small(files: Path) -> None:
    split = config(files, split={"seed": 3}).split
    assert (split.seed, split.validation, split.test) == (3, 0.01, 0.01)


def test_files_without_rows_are_left_out(files: Path) -> None:
    pq.write_table(wide(0, 0), files / "part-9.parquet")
    feather.write_feather(wide(0, 0), str(files / "part-8.arrow"))
    stream = load(config(files)).stream
    assert stream is not None
    assert len({unit.fragment.path for unit in stream.units}) == 3
    with pytest.raises(DataError, match="has no files that end in .arrow, .feather"):
        load(config(files / "part-0.parquet", format="arrow"))


def test_chances_are_even_and_go_by_seed_and_name() -> None:
    names = [f"s{k}" for k in range(20_000)]
    one, same, other = (chances(seed, names) for seed in (1, 1, 2))
    assert (one == same).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    counts = np.histogram(one, bins=20, range=(0, 1))[0]
    assert counts.min() > 900
    assert counts.max() < 1100


@pytest.mark.parametrize("shards", [1, 3, 120])
@pytest.mark.parametrize("buffer", [1, 30, 1000])
def test_an_epoch_visits_every_training_sequence_once(
    files: Path, buffer: int, shards: int
) -> None:
    splits = load(config(files, buffer=buffer, shards=shards))
    assert splits.stream is not None
    n = len(splits.stream)
    assert n + len(splits.validation) + len(splits.test) == 150
    assert min(n, len(splits.validation), len(splits.test)) >= 10
    found = [order_of(splits, seed, epoch) for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert found[0] == found[1]
    flat = [[name for batch in each for name in batch] for each in found]
    assert len({tuple(each) for each in flat}) == 3, "another seed or epoch is another order"
    held = {*splits.validation.ids, *splits.test.ids}
    for each in flat:
        assert len(each) == len(set(each)) == n
        assert not {name.split(" of ")[0] for name in each} & held
    sizes = [len(batch) for batch in found[0]]
    assert sizes == [place.stop - place.start for place in splits.stream.batches(8)]
    assert max(sizes) == 8 or shards > 1
    assert max(sizes) <= 8 + shards
    assert sum(sizes) == n


def test_each_epoch_takes_the_rows_of_a_unit_in_an_order_of_its_own(files: Path) -> None:
    """Else a buffer of less than a unit would meet the same neighbours in every epoch."""
    stream = load(config(files)).stream
    assert stream is not None
    found = [stream.read(k, seed, epoch, True).found.tolist()
             for k, seed, epoch in ((1, 1, 0), (1, 1, 0), (1, 1, 1), (1, 2, 0))]  # fmt: skip
    assert found[0] == found[1]
    assert len({str(each) for each in found}) == 3
    assert all(sorted(each) == sorted(found[0]) for each in found)
    in_file = stream.read(1, 1, 0, False).found.tolist()
    assert in_file == sorted(in_file)


def test_any_step_can_be_gone_to_at_once(files: Path) -> None:
    """Backwards, and with nothing kept: the batches are the same."""
    splits = load(config(files, shards=2))
    assert splits.stream is not None
    right = order_of(splits, 5, 2)
    for step in reversed(range(len(right))):
        rows = splits.stream.epoch(5, 2, 8).rows(step)
        assert tuple(splits.stream.names(rows)) == right[step]


def test_no_more_than_two_stretches_are_kept(files: Path) -> None:
    splits = load(config(files, buffer=20))
    assert splits.stream is not None
    epoch = splits.stream.epoch(1, 0, 8)
    (lane,) = epoch.lanes
    most = 0
    for step in range(len(splits.stream.batches(8))):
        epoch.rows(step)
        most = max(most, sum(map(len, lane.stretches.values())))
    assert most == 40
    assert lane.unit is not None
    lanes = load(config(files, buffer=20, shards=4)).stream
    assert lanes is not None
    together = lanes.epoch(1, 0, 8)
    together.rows(0)
    assert [lane.unit for lane in together.lanes] == [None] * 4, "no unit for each of many lanes"
    assert all(sum(map(len, lane.stretches.values())) <= 10 for lane in together.lanes)


def test_lanes_read_their_own_files(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = load(config(files, shards=2, buffer=10))
    stream = splits.stream
    assert stream is not None
    whole = stream.epoch(1, 0, 8)
    right = [whole.rows(step).found for step in range(len(stream.batches(8)))]
    read = [set[int](), set[int]()]
    of_units = type(stream).read
    for half in (0, 1):

        def spy(self: Any, k: int, *rest: Any, half: int = half) -> Any:
            read[half].add(k)
            return of_units(self, k, *rest)

        monkeypatch.setattr(type(stream), "read", spy)
        mine = stream.epoch(1, 0, 8, range(half, half + 1))
        for step, found in enumerate(right):
            n, places = mine.share(step)
            assert n == len(found)
            assert mine.rows(step).found.tolist() == found[places].tolist()
    assert len(read[0] | read[1]) == len(stream.units)
    assert len(read[0] & read[1]) <= 1, "only the unit in the middle is read by both"


# --- as in memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["wide", "long", "arrow", "ragged"])
def test_one_buffer_is_training_in_memory(form: str, tmp_path: Path) -> None:
    """With parts of their own, all in one buffer, each loss is that of kind: file."""
    make = {"long": long}.get(form, lambda n, first: wide(n, first, form == "ragged"))
    kind = "arrow" if form == "arrow" else "parquet"
    parts = {"": make(90, 0), "validation_": make(20, 90), "test_": make(20, 110)}
    sets = list[str]()
    for name, table in parts.items():
        home = folder_of(tmp_path / f"{name}d", table, kind=kind)
        sets.append(
            f"data.{name}path={home / ('part-0.arrow' if kind == 'arrow' else 'part-0.parquet')}"
        )
    streamed = trained(a_run(tmp_path, *sets, "data.buffer=1000"), tmp_path / "s")
    own_file = resolve(None, [
        "name=run", "data.kind=file", "data.source_length=3", *sets, "training.epochs=3",
        "training.batch_size=8", "model.hidden_dim=5", "training.checkpoint_seconds=0",
    ]).config  # fmt: skip
    np.testing.assert_allclose(streamed, trained(own_file, tmp_path / "m"), rtol=1e-6)
    one, other = (RunFolder(tmp_path / k / "run").read_summary() for k in "sm")
    assert one["test_loss"] == pytest.approx(other["test_loss"], rel=1e-6)
    assert one["baselines"] == pytest.approx(other["baselines"], rel=1e-9)


def test_a_small_buffer_is_training_in_memory_in_that_order(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = a_run(files)
    streamed = trained(described, tmp_path / "s")
    splits = load(described.data)
    stream = splits.stream
    assert stream is not None
    every = feeds.Streaming(stream, len(stream), None, torch.device("cpu"))
    every.open([described.seed], 0)
    memory = every.fetch(0).batch
    found = every.epoch.rows(0).found.tolist()
    place = {tuple(each): k for k, each in enumerate(found)}

    def orders(seeds: Any, epoch: int, sequences: int) -> list[np.ndarray]:
        of_epoch = stream.epoch(described.seed, epoch, 8)
        return [np.array([place[tuple(each)] for step in range(len(stream.batches(8)))
                          for each in of_epoch.rows(step).found.tolist()])]  # fmt: skip

    monkeypatch.setattr(feeds, "orders", orders)
    monkeypatch.setattr(
        feeds, "feed_of",
        lambda parts, size, world, device: feeds.Resident([memory], size, world),
    )  # fmt: skip
    from seqattn.training import loop

    monkeypatch.setattr(loop, "feed_of", feeds.feed_of)
    assert trained(described, tmp_path / "m") == streamed
    assert batching.orders is not orders


def test_one_pass_fits_what_two_passes_fit(files: Path) -> None:
    numbers = np.random.default_rng(0)
    values = numbers.normal(1e6, 3.0, 1000)
    moments = Moments()
    for part in np.split(values, [1, 7, 500, 500]):
        moments.add(part)
    for method in ("standard", "minmax"):
        right = fit_feature(method, lambda: [values])
        found = moments.fitted(method)
        assert found.shift == pytest.approx(right.shift, rel=1e-14)
        assert found.scale == pytest.approx(right.scale, rel=1e-10)
    same = Moments()
    same.add(np.full(10, 7.0))
    assert same.fitted("standard").constant
    splits = load(config(files, relative=True))
    assert splits.stream is not None
    assert len(splits.train) == len(splits.stream)  # few enough for the sample to be all
    right, _ = own.fit(OwnFile(path="x", relative=True, source_length=3), splits.train)
    np.testing.assert_allclose(splits.scaling.source.shift, right.source.shift, atol=1e-11)
    np.testing.assert_allclose(splits.scaling.source.scale, right.source.scale, rtol=1e-12)


def test_the_sample_is_drawn_from_all_units(tmp_path: Path) -> None:
    files = folder_of(tmp_path / "d", *(wide(4000, 4000 * k) for k in range(6)), group=1000)
    splits = load(config(files))
    assert splits.stream is not None
    assert len(splits.train) == SAMPLE < len(splits.stream)
    of_file = np.bincount([int(name[1:]) // 4000 for name in splits.train.ids], minlength=6)
    assert of_file.min() > SAMPLE / 6 * 0.9
    assert "baselines are fitted to 8,192 training sequences" in splits.notes[-1]


# --- stops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sets", [[], ["data.shards=2", "model.dropout=0.2"]], ids=["one", "lanes"])
def test_stops_inside_epochs_change_nothing(files: Path, sets: list[str], tmp_path: Path) -> None:
    found = verify_resume(a_run(files, *sets), tmp_path, stops=4, say=lambda line: None)
    assert found.difference is None
    assert found.compared > 10


@pytest.mark.parametrize("what", ["missing", "changed", "a folder"])
def test_a_file_that_goes_in_the_middle_of_an_epoch_is_named_and_the_run_goes_on(
    what: str, files: Path, tmp_path: Path
) -> None:
    # No save is due before the file goes: only what the loop saves then is there to go on from.
    described = a_run(files, "data.buffer=10", "training.checkpoint_seconds=3600")
    whole = tmp_path / "whole"
    trained(described, whole)
    victim = files / "part-1.parquet"
    kept, counted = victim.read_bytes(), itertools.count()

    def stop() -> int:
        if next(counted) == 15:  # in the second epoch
            if what != "changed":
                victim.unlink()
                if what == "a folder":
                    victim.mkdir()
            else:
                folder_of(files / "x", wide(40, 999))
                victim.write_bytes((files / "x" / "part-0.parquet").read_bytes())
                (files / "x" / "part-0.parquet").unlink()
        return 0

    told = "has changed since" if what == "changed" else "cannot be read any more"
    with pytest.raises(DataError, match=f"part-1.parquet: {told}.*resume goes on from there"):
        experiment.run(described, tmp_path / "cut", plots=False, watchers=Watchers(stop=stop))
    now = "another" if what == "changed" else "missing"
    with pytest.raises(
        DataError, match=f"what data.path names has changed.*part-1.parquet is {now}"
    ):
        experiment.run(described, tmp_path / "cut", plots=False, resume=True)
    if what == "a folder":
        victim.rmdir()
    victim.write_bytes(kept)
    experiment.run(described, tmp_path / "cut", plots=False, resume=True)
    compared, difference = first_difference(
        RunFolder(whole / "run"), RunFolder(tmp_path / "cut/run")
    )
    assert difference is None
    assert compared > 10
    log = RunFolder(tmp_path / "cut" / "run").log.read_text()
    assert "Going on after epoch 1, step" in log, "nothing before it was lost"


def test_a_file_that_was_only_touched_is_the_same(files: Path) -> None:
    splits = load(config(files, buffer=10))
    right = order_of(splits, 1, 0)
    for path in files.iterdir():
        path.write_bytes(path.read_bytes())
    assert order_of(splits, 1, 0) == right


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"scaling": "robust"}, "is robust, which needs all values at once"),
        ({"format": "csv"}, "kind: stream reads parquet and arrow"),
        ({"split": {"by": "group"}}, "split.by: "),
        ({"buffer": 0}, "buffer"),
        ({"shards": 257}, "shards"),
        ({"bufer": 3}, "Did you mean data.buffer"),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_meant_is_refused(
    sets: dict[str, Any], said: str, tmp_path: Path
) -> None:
    import yaml

    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({"data": {"kind": "stream", "path": "d", **sets}}))
    with pytest.raises(ConfigError, match=said):
        resolve(file)


def test_files_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    def refused(said: str, path: Path, **more: Any) -> None:
        with pytest.raises(DataError, match=said):
            load(config(path, **more))

    refused("no such folder", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("none here")
    refused("has no files that end in .parquet", tmp_path / "empty")
    broken = folder_of(tmp_path / "broken", wide(60, 0), wide(40, 60))
    raw = (broken / "part-1.parquet").read_bytes()
    (broken / "part-1.parquet").write_bytes(raw[: len(raw) // 2])
    refused("part-1.parquet: is no whole Parquet file", broken)
    other = folder_of(tmp_path / "other", wide(60, 0), wide(40, 60).rename_columns(
        [name.replace("b_", "c_") for name in wide(1, 0).column_names]))  # fmt: skip
    refused("part-1.parquet.*has the features a, c, the files before a, b", other)
    across = folder_of(tmp_path / "across", long(10, 0), long(10, 9))
    refused("part-1.parquet: its sequence 's9' has rows in .*part-0.parquet, too", across)
    texts = folder_of(tmp_path / "texts", wide(9, 0).set_column(1, "a_1", pa.array(["x"] * 9)))
    refused("row 1, column 'a_1' holds '.*', not a number", texts)
    few = folder_of(tmp_path / "few", wide(3, 0))
    refused("part has no sequences. Change the shares in data.split", few)
    gaps = folder_of(tmp_path / "gaps", wide(60, 0, True))
    refused("no sequence has more than data.source_length = 50 points", gaps, source_length=50)
    short = "40 sequences left out, too short to be cut into source and target: s0, s1, s3,"
    assert short in " ".join(load(config(gaps, source_length=5)).notes)


def test_parts_that_do_not_fit_into_memory_are_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqattn.data.streaming.one_pass.physical_memory", lambda: 8000)
    with pytest.raises(DataError, match="stay in memory, and take more than a quarter"):
        load(config(files))
    with pytest.raises(DataError, match=r"data.buffer: 9,000,000 sequences.* take .* GiB"):
        load(config(files, buffer=9_000_000, split={"validation": 0.05, "test": 0.05}))


def test_a_part_without_the_longest_sequence_is_scored(tmp_path: Path) -> None:
    """Held parts are as long as their own longest sequence, as in memory."""
    tables = (
        wide(40, 0),
        wide(10, 40, ragged=True).slice(0, 1),
        wide(10, 50, ragged=True).slice(0, 1),
    )
    files = [folder_of(tmp_path / name, table) for name, table in zip("abc", tables, strict=True)]
    sets = [f"data.validation_path={files[1]}", f"data.test_path={files[2]}"]
    splits = load(a_run(files[0], *sets).data)
    assert splits.train.target.shape[1] == 3
    assert splits.validation.target.shape[1] == int(splits.validation.target_lengths[0]) < 3
    assert splits.test.target.shape[1] == int(splits.test.target_lengths[0])
    assert len(trained(a_run(files[0], *sets), tmp_path / "o")) == 3


def test_the_verbs_work_on_such_a_run(
    files: Path, seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(
        f"name: s\ndata: {{kind: stream, path: {files}, source_length: 3, buffer: 30,"
        " split: {validation: 0.15, test: 0.15}}\n"
        "training: {epochs: 2, batch_size: 8}\nmodel: {hidden_dim: 4}\n"
    )
    done = seqattn("train", "c.yaml", "--seeds", "2", "--name", "two")
    assert done.code == 0, done.err
    done = seqattn("train", "c.yaml")
    assert done.code == 0, done.err
    assert "RMSE, a" in done.out
    assert seqattn("train", "c.yaml", "--resume").code == 0
    done = seqattn("evaluate", "outputs/s")
    assert done.code == 0, done.err
    done = seqattn("data", "check", files)
    assert done.code == 0, done.err
    assert f"{files}: 3 files" in done.out
    assert f"  kind: stream\n  path: {files}\n" in done.out
    done = seqattn("predict", "outputs/s", "--input", files / "part-0.parquet", "--output", "o.csv")
    assert done.code == 0, done.err
    assert seqattn("doctor", "outputs/s").code == 0
    alone = (tmp_path / "outputs/s/checkpoints/best.safetensors").read_bytes()
    config_seed = resolve(tmp_path / "c.yaml").config.seed
    beside = tmp_path / f"outputs/two/seed-{config_seed}/checkpoints/best.safetensors"
    assert beside.read_bytes() == alone
