from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from seqattn.errors import CheckpointError, UsageError
from seqattn.runs import EpochRecord, RunFolder, attention_arrays, check_folder_available, find_run
from seqattn.runs.storage import atomic_write, read_arrays, write_arrays


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "deep" / "file.txt"
    atomic_write(file, b"old")
    assert file.read_bytes() == b"old"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqattn.runs.storage.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in file.parent.iterdir()] == ["file.txt"]


def test_the_file_before_is_kept_and_nothing_is_left_over(tmp_path: Path) -> None:
    file, before = tmp_path / "last", tmp_path / "previous"
    for content in (b"1", b"2", b"3"):
        atomic_write(file, content, backup_path=before, verify=True)
    assert (file.read_bytes(), before.read_bytes()) == (b"3", b"2")
    before.unlink()
    os.link(file, before)  # as a save leaves it that failed between its two renames
    atomic_write(file, b"4", backup_path=before, verify=True)
    assert (file.read_bytes(), before.read_bytes()) == (b"4", b"3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "previous"]


def test_what_does_not_read_back_as_written_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "last"
    atomic_write(file, b"good")
    read = os.read
    monkeypatch.setattr(os, "read", lambda file, size: read(file, size)[:-1])
    with pytest.raises(OSError, match="The file differs from what was written"):
        atomic_write(file, b"new", backup_path=tmp_path / "previous", verify=True)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"last": b"good"}


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Exists and is not a regular file"):
        atomic_write(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        atomic_write(tmp_path / "folder", b"new")


def test_a_written_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_metrics_come_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    history = [EpochRecord(1, 0.1, 1 / 3, 0.2, 1e-4, 0.5, 3.0), EpochRecord(2, 1, 2, 3, 4, 0, 6)]
    folder.write_metrics(history)
    assert folder.read_metrics() == history
    header = folder.metrics.read_text().splitlines()[0]
    assert header == (
        "epoch,train_loss,validation_loss,validation_loss_teacher_forced,learning_rate,"
        "teacher_forcing,seconds"
    )
    folder.metrics.write_text("epoch\n1\n")
    with pytest.raises(CheckpointError, match="its header is not"):
        folder.read_metrics()


def test_weights_at_padding_are_nan_and_never_0(tmp_path: Path) -> None:
    weights = np.full((2, 1, 1, 3, 5), 0.25)
    arrays = attention_arrays(
        weights, ids=["a", "b"], source_lengths=np.array([4, 5]), target_lengths=np.array([3, 2]),
        meaning="distribution",
    )  # fmt: skip
    file = tmp_path / "attention.npz"
    write_arrays(file, arrays)
    read = read_arrays(file)
    assert np.isnan(read["weights"][0, 0, 0, :, 4]).all()
    assert np.isnan(read["weights"][1, 0, 0, 2]).all()
    assert np.isfinite(read["weights"]).sum() == 3 * 4 + 2 * 5
    assert read["axes"].tolist() == ["sequence", "layer", "head", "target_step", "source_step"]
    assert (str(read["kind"]), str(read["meaning"])) == ("cross", "distribution")
    assert read["ids"].tolist() == ["a", "b"]


def test_the_same_arrays_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_arrays(tmp_path / name, {"x": np.arange(5), "y": np.array(["text"])})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip at all", b"\x80\x04K\x01."])
def test_arrays_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read as arrays"):
        read_arrays(tmp_path / "x.npz")
    with pytest.raises(CheckpointError, match="no such file"):
        read_arrays(tmp_path / "none.npz")


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], dtype=object))
    with pytest.raises(CheckpointError, match="cannot be read as arrays"):
        read_arrays(tmp_path / "x.npz")


def test_a_run_is_found_by_folder_or_checkpoint(attention_run: Path) -> None:
    folder, checkpoint = find_run(attention_run)
    assert checkpoint == folder.best
    same, last = find_run(attention_run / "checkpoints" / "last.safetensors")
    assert same.path == attention_run.resolve()
    assert last.name == "last.safetensors"


def test_a_path_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such run. Give a run folder"):
        find_run(tmp_path / "none")
    with pytest.raises(CheckpointError, match="is not a run folder"):
        find_run(tmp_path)
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "config.yaml").touch()
    (tmp_path / "seed-1" / "environment.json").touch()
    with pytest.raises(CheckpointError, match="Give one of its 1 run, such as .*seed-1"):
        find_run(tmp_path)


def test_whose_folder_it_is(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "name")
    check_folder_available(folder, resume=False, overwrite=False)
    folder.path.mkdir()
    check_folder_available(folder, resume=False, overwrite=False)
    with pytest.raises(UsageError, match="--resume and --overwrite exclude each other"):
        check_folder_available(folder, resume=True, overwrite=True)
    folder.config.write_text("mine")
    for resume, overwrite in ((False, False), (True, False), (False, True)):
        with pytest.raises(UsageError, match="not a run folder"):
            check_folder_available(folder, resume=resume, overwrite=overwrite)
    folder.environment.write_text("{}")
    with pytest.raises(UsageError, match="already has a run"):
        check_folder_available(folder, resume=False, overwrite=False)
    check_folder_available(folder, resume=True, overwrite=False)
    check_folder_available(folder, resume=False, overwrite=True)
    file = RunFolder(tmp_path / "file")
    file.path.write_text("")
    with pytest.raises(UsageError, match="exists and is not a folder"):
        check_folder_available(file, resume=False, overwrite=True)


def test_clearing_a_run_leaves_what_it_did_not_write(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for file in folder.files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    (tmp_path / "notes.txt").write_text("mine")
    folder.clear()
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"notes.txt", "config.yaml", "environment.json"}  # written over by the next run
