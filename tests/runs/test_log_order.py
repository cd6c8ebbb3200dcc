"""train.log says that a run has finished once its results are there, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqattn.config import resolve
from seqattn.errors import StorageError
from seqattn.experiments import train_many
from seqattn.runs import RunFolder
from seqattn.runs.storage.atomic import _PendingFile

SETS = ["data.n_train=8", "data.n_validation=4", "data.n_test=4", "training.epochs=1"]


def jobs(folder: Path, seeds: int) -> list:  # type: ignore[type-arg]
    return [
        (resolve(None, [*SETS, f"seed={seed}"]).config, RunFolder(folder / f"seed-{seed}"))
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("seeds", [1, 3])
def test_finished_is_logged_after_the_results_are_committed(
    seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, seen = jobs(tmp_path, seeds), list[bool]()
    show = _PendingFile.commit

    def watched(written: _PendingFile) -> None:
        if written.path.name == "summary.json":
            seen.extend("finished" in folder.log.read_text() for _, folder in wanted)
        show(written)

    monkeypatch.setattr(_PendingFile, "commit", watched)
    train_many(wanted, threads=1)
    assert len(seen) == seeds**2
    assert not any(seen)
    for _, folder in wanted:
        assert "finished: test loss" in folder.log.read_text().splitlines()[-1]


def test_a_run_whose_results_could_not_be_written_has_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, folder),) = wanted = jobs(tmp_path, 1)
    show = _PendingFile.commit

    def refused(written: _PendingFile) -> None:
        if written.path.name == "summary.json":
            raise OSError(28, "No space left on device", str(written.path))
        show(written)

    monkeypatch.setattr(_PendingFile, "commit", refused)
    with pytest.raises(StorageError, match="No space left"):
        train_many(wanted, threads=1)
    assert not folder.summary.exists()
    assert "finished" not in folder.log.read_text()


def test_a_loss_that_is_not_finite_at_the_test_part_is_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from seqattn.experiments import run_folders

    score = run_folders.evaluate

    def infinite(*given, **named):  # type: ignore[no-untyped-def]
        return dataclasses.replace(score(*given, **named), loss=float("inf"))

    monkeypatch.setattr(run_folders, "evaluate", infinite)
    ((_, folder),) = wanted = jobs(tmp_path, 1)
    (job,) = train_many(wanted, threads=1)
    assert job.error is not None
    assert "ended: The test loss is inf" in folder.log.read_text().splitlines()[-1]
