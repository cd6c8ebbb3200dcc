"""One training over several processes, against the same in one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from seqattn.runs import RunFolder
from seqattn.training import load_model
from tests.conftest import ROOT
from tests.faults.nursery import Nursery
from tests.grouped import write_series
from tests.many.several import LONG, SETS, losses, together, words
from tests.many_files import folder_of, wide


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        [],
        ["data.variable_length=true", "training.teacher_forcing.coin=element", "training.clip_norm=0.1"],
        ["model.dropout=0.3", "model.attention.normalizer=hard", "model.attention.estimator=straight_through"],
        ["model.kind=transformer", "model.model_dim=8", "model.heads=2", "model.dropout=0.1",
         "training.teacher_forcing.probability=1"],
    ],
    ids=["default", "ragged", "chance", "transformer"],
)  # fmt: skip
def test_every_epoch_is_that_of_one_process(
    size: int, model: list[str], nursery: Nursery, tmp_path: Path
) -> None:
    """11 sequences of a batch over 2 and 3 processes, and 1 in the last batch: some have none."""
    sets = [*SETS, *model]
    assert nursery.run(words("one", sets=sets), tmp_path).code == 0
    done = together(nursery, tmp_path, size, words("many", sets=sets))
    assert [each.code for each in done] == [0] * size, done
    one, many = (losses(tmp_path / "outputs" / name) for name in ("one", "many"))
    assert one.shape == many.shape == (5, 3)
    assert np.abs(one - many).max() < 1e-5
    files = {path.name for path in (tmp_path / "outputs" / "many").iterdir()}
    assert files == {path.name for path in (tmp_path / "outputs" / "one").iterdir()}
    assert not done[1].err, "only the first speaks"


def test_batches_of_tokens_and_bleu_are_those_of_one_process(
    nursery: Nursery, tmp_path: Path
) -> None:
    sets = [*SETS, "data.kind=grammar", "training.batch_type=tokens", "training.batch_size=90",
            "training.batch_order=by_length", "training.monitor=bleu", "training.learning_rate=0.05",
            "training.epochs=12"]  # fmt: skip
    assert nursery.run(words("one", sets=sets), tmp_path).code == 0
    done = together(nursery, tmp_path, 2, words("many", sets=sets))
    assert [each.code for each in done] == [0, 0], done
    one, many = (RunFolder(tmp_path / "outputs" / name).read_metrics() for name in ("one", "many"))
    rows = [np.array([record.as_row()[1:4] for record in history]) for history in (one, many)]
    assert np.abs(rows[0] - rows[1]).max() < 1e-4
    assert [record.bleu for record in one] == [record.bleu for record in many]
    assert max(record.bleu or 0.0 for record in one) > 0


@pytest.mark.parametrize(
    ("first", "again"), [((), "--resume"), (("--auto-resume",), "--auto-resume")]
)
def test_a_stop_signal_to_one_process_stops_all_and_a_resume_ends_the_same(
    first: tuple[str, ...], again: str, nursery: Nursery, tmp_path: Path
) -> None:
    assert {each.code for each in together(nursery, tmp_path, 2, words("whole"))} == {0}
    plan = {1: {"signal": 15, "in": "validation", "call": 2, "after": 0.0}}
    done = together(nursery, tmp_path, 2, words("cut", *first), plans=plan)
    assert done[0].code == 143, done
    done = together(nursery, tmp_path, 2, words("cut", again))
    assert {each.code for each in done} == {0}, done
    for name in ("checkpoints/best.safetensors", "predictions.npz"):
        whole, cut = (tmp_path / "outputs" / run / name for run in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes()
    done = together(nursery, tmp_path, 2, words("cut", again))
    assert {each.code for each in done} == {0}
    assert "is already trained to epoch 5" in done[0].err


def test_processes_start_with_the_weights_and_the_scaling_of_another_run(
    nursery: Nursery, tmp_path: Path
) -> None:
    def sets(file: str, *more: str) -> list[str]:
        write_series(tmp_path / file, seed=len(file))
        section = "series: sequence, time: step, features: [a, b], source_length: 5"
        return [f"data={{kind: file, path: {file}, {section}}}", "training.batch_size=5",
                "training.epochs=3", "training.checkpoint_seconds=0", *more]  # fmt: skip

    assert nursery.run(words("old", sets=sets("old.csv")), tmp_path).code == 0
    again = sets("another.csv", "training.start_from=outputs/old")
    assert nursery.run(words("one", sets=again), tmp_path).code == 0
    plan = {1: {"signal": 15, "in": "validation", "call": 2, "after": 0.0}}
    done = together(nursery, tmp_path, 2, words("many", sets=again), plans=plan)
    assert done[0].code == 143, done
    shutil.rmtree(tmp_path / "outputs" / "old")
    done = together(nursery, tmp_path, 2, words("many", "--resume", sets=again))
    assert {each.code for each in done} == {0}, done
    one, many = (losses(tmp_path / "outputs" / name) for name in ("one", "many"))
    assert one.shape == many.shape == (3, 3)
    assert np.abs(one - many).max() < 1e-5


@pytest.mark.parametrize("other", ["training.learning_rate=0.5", "data.train_seed=99"])
def test_processes_that_differ_are_refused_at_once(
    other: str, nursery: Nursery, tmp_path: Path
) -> None:
    began = time.monotonic()
    done = together(nursery, tmp_path, 2, words("a"), words("a", "--set", other))
    assert [each.code for each in done] == [5, 5]
    assert all(
        "process 1 of 2 has a different config from that of process 0" in each.err for each in done
    )
    assert time.monotonic() - began < 60  # of a patience of 120
    assert not (tmp_path / "outputs").exists()


def test_data_that_differ_are_refused(nursery: Nursery, tmp_path: Path) -> None:
    for name, first in (("a", 1), ("b", 2)):
        rows = "".join(f"{k},{t},{first + k + t}\n" for k in range(30) for t in range(4))
        (tmp_path / f"{name}.csv").write_text("sequence,step,x\n" + rows)
    sets = ["data.kind=file", "data.source_length=2", "training.epochs=1"]
    done = together(
        nursery, tmp_path, 2, *(words("a", sets=[*sets, f"data.path={n}.csv"]) for n in "ab")
    )
    assert [each.code for each in done] == [5, 5]
    assert all("has a different set of data from that of process 0" in each.err for each in done)


def test_a_first_process_that_cannot_begin_tells_the_others(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert {each.code for each in together(nursery, tmp_path, 2, words("there"))} == {0}
    done = together(nursery, tmp_path, 2, words("there"))
    assert [each.code for each in done] == [2, 5]
    assert "already has a run" in done[0].err
    assert "process 0 of 2 could not start" in done[1].err


def test_what_several_processes_cannot_do_is_named(nursery: Nursery, tmp_path: Path) -> None:
    done = together(nursery, tmp_path, 2, words("many", "--seeds", "3"))
    assert {each.code for each in done} == {2}
    assert "--seeds trains many runs in one process" in done[0].err
    hard = [*SETS, "model.attention.normalizer=hard", "model.attention.estimator=reinforce"]
    done = together(nursery, tmp_path, 2, words("many", sets=hard))
    assert {each.code for each in done} == {2}
    assert "estimator: reinforce" in done[0].err


def test_a_lost_process_ends_the_run_with_a_whole_checkpoint(
    nursery: Nursery, tmp_path: Path
) -> None:
    plan = {1: {"signal": 9, "in": "validation", "call": 3, "after": 0.0}}
    done = together(nursery, tmp_path, 2, words("lost"), plans=plan)
    assert done[1].code == -9
    assert done[0].code == 5, done
    assert "process 0 of 2 lost the connection to the other processes" in done[0].err
    folder = RunFolder(tmp_path / "outputs" / "lost")
    assert load_model(folder.last).epoch >= 2
    assert not folder.summary.exists()


def test_torchrun_starts_again_where_a_lost_process_left(nursery: Nursery, tmp_path: Path) -> None:
    """With --max-restarts, and to the same bytes as a training that was left alone."""
    assert {each.code for each in together(nursery, tmp_path, 2, words("whole", sets=LONG))} == {0}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    # An old run is there, to be replaced: it must not be what they go on with.
    assert {each.code for each in together(nursery, tmp_path, 2, words("again"))} == {0}
    old = (tmp_path / "outputs" / "again" / "environment.json").stat().st_mtime_ns
    process = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
         "-m", "seqattn", *words("again", "--overwrite", sets=LONG)],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    folder = RunFolder(tmp_path / "outputs" / "again")
    ends = time.monotonic() + 60

    def has_begun() -> bool:
        try:
            return folder.last.exists() and folder.environment.stat().st_mtime_ns != old
        except FileNotFoundError:  # the old run is being cleared just now
            return False

    while time.monotonic() < ends and not has_begun():
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-2000:]
    assert "Resuming after epoch" in err
    for name in ("checkpoints/best.safetensors", "predictions.npz"):
        whole = tmp_path / "outputs" / "whole" / name
        assert whole.read_bytes() == (folder.path / name).read_bytes()


@pytest.mark.parametrize("size", [2, 3])
def test_files_that_are_read_as_needed_are_shared(
    size: int, nursery: Nursery, tmp_path: Path
) -> None:
    """Sequences of 2 to 4 points, so that no process knows the points of a batch alone."""
    folder_of(tmp_path / "d", *(wide(40, 40 * k, ragged=True) for k in range(4)), group=11)
    sets = ["data.kind=file", "data.path=d", "data.source_length=2", "data.cache=always",
            "data.split.validation=0.1", "data.split.test=0.1",
            "training.epochs=4", "training.batch_size=11"]  # fmt: skip
    assert nursery.run(words("one", sets=sets), tmp_path).code == 0
    done = together(nursery, tmp_path, size, words("many", sets=sets))
    assert [each.code for each in done] == [0] * size, done
    one, many = (losses(tmp_path / "outputs" / name) for name in ("one", "many"))
    assert one.shape == many.shape == (4, 3)
    assert np.abs(one - many).max() < 1e-5
