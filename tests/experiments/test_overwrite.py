"""Runs that replace a run: until the first save, the earlier run stays as it is."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn.config import Config, resolve
from seqattn.errors import DataError, SeqattnError
from seqattn.experiments import Job, group_training, seeds_of, train_many
from seqattn.runs import PAGE, RunFolder
from seqattn.runs.folder import HANDLER
from seqattn.runs.storage import atomic, exclusive_lock
from seqattn.training import loop
from tests.conftest import Ended, tree
from tests.faults.groups import difference

SOURCE: dict[str, Any] = {"name": "run", "data__source_length": 5}
Command = Callable[..., Ended]
SIZES = ["data.n_train=24", "data.n_validation=8", "data.n_test=8", "training.epochs=2",
         "training.batch_size=8", "model.hidden_dim=3", "training.record_attention=1"]  # fmt: skip
SETS = [word for size in SIZES for word in ("--set", size)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with every file that a run may have."""
    home = tmp_path_factory.mktemp("finished")
    config = resolve(None, [*SIZES, "name=run", "logging.tensorboard=true"]).config
    train_many([(config, RunFolder(home / "run"))], plots=True)
    (home / "run" / "attention-grid.png").write_bytes(b"drawn later")
    (home / "run" / "report.html").write_text("written later")
    return home / "run"


@pytest.fixture
def earlier(finished: Path, tmp_path: Path) -> RunFolder:
    (tmp_path / "outputs").mkdir()
    shutil.copytree(finished, tmp_path / "outputs" / "run")
    return RunFolder(tmp_path / "outputs" / "run")


def files_of(folder: RunFolder) -> dict[str, bytes]:
    return {name: content for name, content in tree(folder.path).items() if name != ".lock"}


def new_config(*sets: str) -> Config:
    return resolve(None, [*SIZES, "name=run", "seed=5", *sets]).config


@contextlib.contextmanager
def unchanged(folder: RunFolder) -> Iterator[None]:
    before = files_of(folder)
    yield
    assert files_of(folder) == before
    assert not HANDLER.held
    assert folder.read_results()["seed"] == 23


@pytest.mark.parametrize(
    ("code", "words", "environment"),
    [
        (5, ["logging.mlflow=true", "logging.mlflow_uri=http://127.0.0.1:9"],
         {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}),
        (2, ["logging.wandb=true", "logging.wandb_mode=online"],
         {"WANDB_BASE_URL": "http://127.0.0.1:9", "NETRC": "/dev/null"}),
        (2, ["training.epochs=0"], {}),
    ],
    ids=["mlflow", "wandb", "config"],
)  # fmt: skip
def test_a_command_that_cannot_start_keeps_the_earlier_run(
    code: int, words: list[str], environment: dict[str, str], earlier: RunFolder,
    seqattn: Command, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    sets = [word for each in words for word in ("--set", each)]
    with unchanged(earlier):
        done = seqattn("train", "squares", *SETS, "--name", "run", "--overwrite", *sets)
        assert done.code == code, done.err


def test_data_a_device_a_lock_and_a_plugin_that_fail_keep_the_earlier_run(
    earlier: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    words = ["train", "squares", *SETS, "--name", "run", "--overwrite"]
    with unchanged(earlier):
        if not torch.cuda.is_available():
            assert seqattn(*words, "--device", "cuda").code == 2
        with exclusive_lock(earlier.path):
            assert seqattn(*words).code == 6
        (tmp_path / "file.yaml").write_text("name: run\ndata: {kind: file, path: missing.csv}\n")
        assert seqattn("train", "file.yaml", "--overwrite").code == 3
        (tmp_path / "broken.py").write_text("import no_such_module")
        assert seqattn(*words, "--plugin", "broken.py").code == 2


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (group_training, "build_runs", MemoryError()),
        (loop, "train_step", DataError("a batch cannot be read")),
        (loop, "train_step", OSError(5, "Input/output error")),
        (loop, "train_step", KeyboardInterrupt()),
        (loop, "validate", MemoryError()),
        (atomic.os, "fsync", OSError(28, "No space left on device")),
        (atomic, "_content_equals", OSError(5, "Input/output error")),
    ],
)  # fmt: skip
def test_a_failure_before_the_first_save_keeps_the_earlier_run(
    owner: Any, name: str, error: BaseException, earlier: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run = new_config("logging.tensorboard=true"), earlier
    with unchanged(earlier), monkeypatch.context() as patch:
        patch.setattr(owner, name, raising(error))
        with pytest.raises((type(error), SeqattnError, OSError)) as caught:
            train_many([run], overwrite=True)
        if isinstance(error, OSError):
            assert "The earlier run is unchanged" in str(caught.value)
    (job,) = train_many([run], overwrite=True)
    assert job.summary is not None
    assert "ended:" not in earlier.log.read_text()


@pytest.mark.parametrize("seconds", [0, 1000])
def test_the_first_save_replaces_the_run_and_keeps_the_lines_of_the_log(
    seconds: int, earlier: RunFolder, tmp_path: Path
) -> None:
    sets = (f"training.checkpoint_seconds={seconds}", "logging.tensorboard=true")
    new = RunFolder(tmp_path / "new")
    for folder, overwrite in ((new, False), (earlier, True)):
        train_many([(new_config(*sets), folder)], overwrite=overwrite, threads=1)
    lines = [[line[20:] for line in folder.log.read_text().splitlines()]
             for folder in (new, earlier)]  # fmt: skip
    assert lines[0] == lines[1]
    names = [{name for name in files_of(folder) if "tfevents" not in name}
             for folder in (new, earlier)]  # fmt: skip
    assert names[0] == names[1]
    events = [len([*folder.tensorboard.glob("*")]) for folder in (new, earlier)]
    assert events[0] == events[1]
    assert difference([(new_config(*sets), new)], [(new_config(*sets), earlier)]) is None


def test_each_seed_is_replaced_when_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seeds of the first group are replaced; the second group fails before its first save."""
    home = tmp_path / "seeds"
    runs = seeds_of(resolve(None, SIZES).config, home, 4)
    (job, *_) = train_many(runs, threads=1)
    new = seeds_of(resolve(None, [*SIZES, "training.epochs=3"]).config, home, 4)
    before = [files_of(folder) for _, folder in new]
    monkeypatch.setattr(
        "seqattn.experiments.grouping.memory_budget",
        lambda: int(2.9 * group_training.estimate_run_memory(job)),
    )
    (home / PAGE).write_text("old numbers")
    build, calls = group_training.build_runs, 0

    def failing(jobs: list[Job], device: torch.device) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            assert (home / PAGE).exists()
        else:
            raise MemoryError
        return build(jobs, device)

    monkeypatch.setattr(group_training, "build_runs", failing)
    with pytest.raises(MemoryError):
        train_many(new, threads=1, overwrite=True)
    assert not (home / PAGE).exists()
    assert [folder.read_summary()["epochs"] for _, folder in new] == [3, 3, 2, 2]
    assert [files_of(folder) for _, folder in new[2:]] == before[2:]
