"""A training that is stopped while torchrun runs it: what each process says, and its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seqattn.runs import RunFolder
from tests.conftest import ROOT
from tests.faults.nursery import Nursery
from tests.many.several import LONG, SETS, together, words

SAY_THE_CODE = 'trap "" INT TERM; "$@"; echo $? > code.$RANK'  # the shell outlives the signal
"""torchrun tells nobody the exit codes of processes that it has stopped."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_processes_save_and_end_without_a_traceback(
    number: signal.Signals, nursery: Nursery, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
         "--log-dir", "logs", "--redirects", "3", "--no-python",
         "sh", "-c", SAY_THE_CODE, "sh", sys.executable, "-m", "seqattn",
         *words("cut", sets=[*LONG, "training.epochs=4000"])],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    folder = RunFolder(tmp_path / "outputs" / "cut")
    ends = time.monotonic() + 60
    while time.monotonic() < ends and not folder.last.exists():
        time.sleep(0.01)
    process.send_signal(number)
    _, of_torchrun = process.communicate(timeout=60)
    logs = {rank: "".join(path.read_text() for path in tmp_path.glob(f"logs/*/*/{rank}/std*.log"))
            for rank in (0, 1)}  # fmt: skip
    assert folder.last.exists(), (of_torchrun, logs)
    assert "SignalException" in of_torchrun, "torch's own traceback, see docs/many-machines.md"
    assert not any("Traceback" in text for text in logs.values()), logs
    assert f"seqattn: {number.name}: saved to outputs/cut in epoch" in logs[0]
    # The second may end with the first before torchrun's signal is there: it then says SIGTERM.
    ends_with = (f"seqattn: {name}: with the other processes." for name in (number.name, "SIGTERM"))
    assert any(line in logs[1] for line in ends_with), logs
    codes = [int((tmp_path / f"code.{rank}").read_text()) for rank in (0, 1)]
    assert codes[0] == 128 + number
    assert codes[1] in (128 + number, 128 + signal.SIGTERM)
    done = together(
        nursery, tmp_path, 2,
        words("cut", "--resume", sets=[*LONG, "training.epochs=4000"]),
        plans={0: {"signal": number, "in": "validation", "call": 3, "after": 0.0}},
    )  # fmt: skip
    assert "Resuming after epoch" in done[0].err, done
    assert done[0].code == 128 + number


@pytest.mark.parametrize("stopped_rank", [0, 1])
def test_a_process_that_got_a_stop_signal_and_lost_the_others_ends_as_stopped(
    stopped_rank: int, nursery: Nursery, tmp_path: Path
) -> None:
    """Another may have ended at once, of the same signal, where it had nothing to save yet."""
    plan: dict[str, object] = {"in": "validation", "call": 2, "after": 0.0}
    plans = {stopped_rank: {**plan, "signal": 15}, 1 - stopped_rank: {**plan, "signal": 9}}
    done = together(nursery, tmp_path, 2, words("lost", sets=SETS), plans=plans)
    assert done[1 - stopped_rank].code == -9
    assert (
        f"process {stopped_rank} of 2 lost the connection to the other processes"
        in done[stopped_rank].err
    )
    assert done[stopped_rank].code == 128 + 15
