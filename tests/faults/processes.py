"""Processes that are killed, told to stop, or started twice."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from seqattn.experiments.verify_resume import first_difference
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import VERSION
from seqattn.runs.checksummed import load_checksummed
from seqattn.training import load_model
from tests.conftest import ROOT, tree
from tests.faults import Tally, render_exit_codes
from tests.faults.nursery import FIRED, SIGNALS, Nursery

# Dropout, sampling and coins by the element draw from every stream; a plateau and early stopping
# look back; every step is saved.
CONFIG = """name: run
data: {n_train: 40, n_validation: 12, n_test: 12}
model: {hidden_dim: 5, dropout: 0.2, attention: {normalizer: hard, estimator: reinforce}}
training:
  epochs: 6
  batch_size: 8
  checkpoint_seconds: 0
  teacher_forcing: {probability: 0.5, coin: element}
  learning_rate_schedule: {kind: plateau, patience: 1}
  early_stopping: {patience: 50}
"""
DOOR = [sys.executable, "-m", "seqattn"]
TRAIN = ["train", "c.yaml", "--threads", "1"]
IMPORTS_BEFORE_TRAINING = 1200
"""Modules that `train` certainly imports before it can train. torch alone has about 1,200."""


shared: list[tuple[Nursery, Path]] = []
"""A nursery for many faults in turn, with the folder that it began with; none: each has its own."""


@contextmanager
def nurtured() -> Iterator[tuple[Nursery, Path]]:
    """A nursery, and a folder with the config and, in `whole`, a training that was left alone."""
    if shared:
        nursery, first = shared[0]
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(first, place, dirs_exist_ok=True)
            yield nursery, Path(place)
        return
    with tempfile.TemporaryDirectory() as place, Nursery() as nursery:
        prepare(nursery, Path(place))
        yield nursery, Path(place)


def prepare(nursery: Nursery, home: Path) -> None:
    """Put into a folder what `nurtured` promises of it."""
    (home / "c.yaml").write_text(CONFIG)
    done = nursery.run(words("whole", plots=True), home)
    assert done.code == 0, done.err


def words(output: str, *, plots: bool = False) -> list[str]:
    """The command that trains into a folder. Pictures take longest, so most cases do without."""
    return [*TRAIN, "--output-dir", output, *([] if plots else ["--plots", "none"])]


def ends_the_same(
    nursery: Nursery, home: Path, output: str, tally: Tally, *, plots: bool = False
) -> None:
    """What a run left must be readable, and a resume must end where the undisturbed one ended.

    Raises:
        AssertionError: it does not.
    """
    folder = RunFolder(home / output / "run")
    for checkpoint in (folder.best, folder.last, folder.previous):
        if checkpoint.exists():
            load_model(checkpoint)
    resume = ["--resume"] if folder.path.exists() else []  # a kill may come before the folder
    done = nursery.run([*words(output, plots=plots), *resume], home)
    tally.took(done.mib)
    assert done.code == 0, f"the resume ended with {done.code}: {done.err}"
    _, difference = first_difference(RunFolder(home / "whole" / "run"), folder)
    assert difference is None, difference
    pictures = ("loss_curve.png", "predictions.png", "attention.png") if plots else ()
    for name in ("predictions.npz", "attention.npz", *pictures):
        whole = (home / "whole" / "run" / name).read_bytes()
        assert whole == (folder.path / name).read_bytes(), f"{name} is another"
    left = [path.name for path in folder.path.rglob("*.part")]
    assert not left, f"{left} were left behind"


def killed(count: int, seed: int = 0) -> Tally:
    """SIGKILL at a random moment, then resume to the end; one in ten is a process of its own."""
    tally, numbers = Tally(), np.random.RandomState(seed)
    with nurtured() as (nursery, home):
        lasts = []
        for plots in (False, True):
            began = time.perf_counter()
            assert nursery.run(words(f"timed-{plots}", plots=plots), home).code == 0
            lasts.append(time.perf_counter() - began)
        struck = 0
        for case in range(count):
            output, plots = f"o{case}", case % 4 == 0
            with tally.case(f"kill {case}"):
                if case % 10 == 9:
                    process = subprocess.Popen(
                        [*DOOR, *words(output, plots=plots)],
                        cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT)},
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    )  # fmt: skip
                    time.sleep(numbers.uniform(0, 3 + lasts[plots]))
                    process.kill()
                    struck += process.wait() == -signal.SIGKILL
                else:
                    child = nursery.start(words(output, plots=plots), home)
                    time.sleep(numbers.uniform(0, lasts[plots]))
                    os.kill(child, signal.SIGKILL)
                    struck += nursery.wait(child).code == -signal.SIGKILL
                ends_the_same(nursery, home, output, tally, plots=plots)
            shutil.rmtree(home / output, ignore_errors=True)
    tally.remarks.append(f"Of {count} processes, {struck} were still running when SIGKILL arrived.")
    return tally


def killed_side_by_side(calls: Sequence[int] | None = None) -> Tally:
    """SIGKILL at the n-th rename of three seeds trained side by side, for sixty n in turn, which are
    some saves: seeds are then a save ahead of others, and still none begins again, and all end the
    same."""
    tally, ahead = Tally(), 0
    with nurtured() as (nursery, home):
        seeds = ["--seeds", "3"]
        done = nursery.run([*words("seeds"), *seeds], home)
        assert done.code == 0, done.err
        for call in range(13, 73) if calls is None else calls:
            output = f"o{call}"
            with tally.case(f"rename {call}"):
                done = nursery.run([*words(output), *seeds], home, {"kill": "rename", "call": call})
                assert done.code == -signal.SIGKILL, f"exit code {done.code}: {done.err}"
                tally.took(done.mib)
                folders = [RunFolder(home / output / "run" / f"seed-{k}") for k in (23, 24, 25)]
                ahead += len({_position(folder) for folder in folders}) > 1
                done = nursery.run([*words(output), *seeds, "--resume"], home)
                assert done.code == 0, done.err
                assert "starts over" not in done.err, done.err
                assert "Resuming after" in done.err, done.err
                for folder in folders:
                    whole = RunFolder(home / "seeds" / "run" / folder.path.name)
                    _, difference = first_difference(whole, folder)
                    assert difference is None, f"{folder.path.name}: {difference}"
            shutil.rmtree(home / output, ignore_errors=True)
    tally.remarks.append(
        f"After {ahead} of {tally.tried} kills, some seeds were one save ahead of other seeds."
    )
    return tally


def _position(folder: RunFolder) -> tuple[int, int]:
    metadata, _ = load_checksummed(folder.last, VERSION)
    return metadata["epoch"], metadata["step"]


def stop_signals(count: int, seed: int = 0, signals: Sequence[signal.Signals] = SIGNALS) -> Tally:
    """SIGINT and SIGTERM during a save, a validation and the plotting: `count` of each."""
    tally, numbers = Tally(), np.random.RandomState(seed)
    with nurtured() as (nursery, home):
        for number in signals:
            for phase, calls in (("save", 30), ("validation", 6), ("plotting", 3)):
                for case in range(count):
                    output = f"{phase}-{number}-{case}"
                    plan = {
                        "signal": int(number), "in": phase,
                        "call": int(numbers.randint(1, calls + 1)),
                        "after": float(numbers.uniform(0, 0.004 if phase != "plotting" else 0.1)),
                    }  # fmt: skip
                    plots = phase == "plotting"
                    with tally.case(f"{number.name} during {phase}"):
                        done = nursery.run(words(output, plots=plots), home, plan)
                        tally.took(done.mib)
                        # A signal that comes after the last picture finds a finished training.
                        assert done.code in (128 + number, 0), f"exit code {done.code}: {done.err}"
                        assert done.code or plots, "the signal was not heeded"
                        assert "Traceback" not in done.err, done.err
                        if done.code:
                            assert f"{number.name}: " in done.err, done.err
                        ends_the_same(nursery, home, output, tally, plots=plots)
                    shutil.rmtree(home / output, ignore_errors=True)
    return tally


def stop_signals_at_once(count: int, seed: int = 0) -> Tally:
    """SIGINT and SIGTERM in the default config's training, how long it takes to leave: `count` of
    each."""
    tally, numbers = Tally(), np.random.RandomState(seed)
    slowest = 0.0
    with nurtured() as (nursery, home):
        shutil.copy(ROOT / "configs" / "squares.yaml", home / "s.yaml")
        for number in SIGNALS:
            for case in range(count):
                with tally.case(f"{number.name} {case}"):
                    command = ["train", "s.yaml", "--output-dir", f"o{number}-{case}"]
                    child = nursery.start(command, home)
                    time.sleep(numbers.uniform(0.1, 1.2))
                    at = time.time()
                    os.kill(child, number)
                    done = nursery.wait(child)
                    slowest = max(slowest, done.ended - at)
                    tally.took(done.mib)
                    assert done.code == 128 + number, f"exit code {done.code}: {done.err}"
                    assert done.ended - at < 1, f"took {done.ended - at:.2f} s to leave"
                shutil.rmtree(home / f"o{number}-{case}", ignore_errors=True)
    tally.remarks.append(f"The slowest process ended {slowest:.2f} s after the signal.")
    return tally


def stop_signals_while_importing(count: int, seed: int = 0) -> Tally:
    """SIGINT and SIGTERM while a process imports its modules: `count` of each. Python reports each
    import, so the moment of the signal does not depend on the speed of the machine."""
    tally, numbers = Tally(), np.random.RandomState(seed)
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "c.yaml").write_text(CONFIG)
        for number in SIGNALS:
            for case in range(count):
                with tally.case(f"{number.name} {case}"):
                    process = subprocess.Popen(
                        [DOOR[0], "-X", "importtime", *DOOR[1:], *words(f"o{number}{case}")],
                        cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT)},
                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                    )  # fmt: skip
                    assert process.stderr is not None
                    # The first module inside seqattn is imported after the signal handlers are set.
                    while "seqattn." not in process.stderr.readline():
                        assert process.poll() is None, "no module of seqattn was imported"
                    for _ in range(numbers.randint(IMPORTS_BEFORE_TRAINING)):
                        process.stderr.readline()
                    at = time.perf_counter()
                    process.send_signal(number)
                    _, err = process.communicate()
                    took = time.perf_counter() - at
                    codes[process.returncode] = codes.get(process.returncode, 0) + 1
                    assert process.returncode == 128 + number, f"{process.returncode}: {err[-300:]}"
                    assert "Traceback" not in err, err
                    assert took < 1, f"took {took:.2f} s to leave"
                    assert not list((home / f"o{number}{case}").rglob("*.safetensors"))
    tally.remarks.append(render_exit_codes(codes))
    return tally


def two_at_once(count: int) -> Tally:
    """Two trainings begun in one folder at the same moment: one does it, the other is refused."""
    tally = Tally()
    refused: dict[int, int] = {}
    with nurtured() as (nursery, home):
        for case in range(count):
            with tally.case(f"pair {case}"):
                output = f"o{case}"
                children = [nursery.start(words(output), home) for _ in range(2)]
                done = [nursery.wait(child) for child in children]
                codes = sorted(ended.code for ended in done)
                assert codes[0] == 0, [ended.err for ended in done]
                assert codes[1] in (2, 6), [ended.err for ended in done]
                refused[codes[1]] = refused.get(codes[1], 0) + 1
                for ended in done:
                    if ended.code == 6:
                        assert "writing there" in ended.err or "begun to write" in ended.err
                ends_the_same(nursery, home, output, tally)
    tally.remarks.append(
        f"The lock rejected {refused.get(6, 0)} commands, and {refused.get(2, 0)} commands ended with"
        " an error because the run already existed."
    )
    return tally


def failing(calls: Sequence[int] | None = None) -> Tally:
    """The n-th write, fsync or rename fails with ENOSPC or EIO, for every n there is: loud, and a
    resume ends the same."""
    tally = Tally()
    got_round: dict[str, int] = {}
    with nurtured() as (nursery, home):
        for what in ("write", "fsync", "rename"):
            for number in (errno.ENOSPC, errno.EIO):
                n, reached = 0, True
                while reached and (calls is None or n < len(calls)):
                    n += 1
                    call = n if calls is None else calls[n - 1]
                    output = f"{what}{number}-{call}"
                    with tally.case(f"{what} {call}, {errno.errorcode[number]}"):
                        plan = {"fail": what, "call": call, "errno": number}
                        done = nursery.run(words(output), home, plan)
                        reached = FIRED in done.err
                        tally.took(done.mib)
                        assert "Traceback" not in done.err, done.err
                        if reached and done.code != 0:
                            assert done.code == 5, f"exit code {done.code}: {done.err}"
                            assert os.strerror(number) in done.err, done.err
                        elif reached:
                            # Of a rename only that of a second name for the last checkpoint, of
                            # writes only who holds the lock: both are got round.
                            assert what != "fsync", "a failed fsync was not told"
                            assert what != "write" or call == 1, "a failed write was not told"
                            got_round[what] = got_round.get(what, 0) + 1
                        else:
                            assert done.code == 0, done.err
                        ends_the_same(nursery, home, output, tally)
                    shutil.rmtree(home / output, ignore_errors=True)
    tally.remarks.append(
        f"seqattn worked around {got_round.get('write', 0)} failed writes (of the process id and host"
        f" in the lock file) and {got_round.get('rename', 0)} failed renames (to the second name of a"
        " checkpoint). All other failures ended the command with exit code 5."
    )
    return tally


EACH_START = {kind: range(1, calls) for kind, calls in
              (("mkdir", 5), ("open", 13), ("write", 11), ("rename", 13))}  # fmt: skip
"""The calls of each kind up to the second save of a run, or the first save of two."""


def restarted(calls: Mapping[str, Iterable[int]] = EACH_START) -> Tally:
    """SIGKILL at the n-th creation of a folder, opening, write or rename of `train --auto-resume`,
    of one run and of three seeds of which one is finished: the same command, repeated, ends as if it
    had not been killed, and ends with 0 and changes nothing when it is repeated once more."""
    tally, struck = Tally(), 0
    with nurtured() as (nursery, home):
        done = nursery.run([*words("one"), "--seeds", "1", "--seed", "24"], home)
        assert done.code == 0, done.err
        for more, names in (([], [""]), (["--seeds", "3"], ["seed-23", "seed-24", "seed-25"])):
            whole = home / f"whole-{len(names)}"
            if more:  # the finished seed is trained alone
                shutil.copytree(home / "one", whole)
            done = nursery.run([*words(whole.name), *more, "--auto-resume"], home)
            assert done.code == 0, done.err
            for kind, numbers in calls.items():
                for call in numbers:
                    here = home / f"{kind}-{len(names)}-{call}"
                    command = [*words(here.name), *more, "--auto-resume"]
                    with tally.case(f"{kind} {call}, {len(names)} runs"):
                        if more:
                            shutil.copytree(home / "one", here)
                        done = nursery.run(command, home, {"kill": kind, "call": call})
                        assert done.code in (0, -signal.SIGKILL), done.err
                        struck += done.code != 0
                        done = nursery.run(command, home)
                        tally.took(done.mib)
                        assert done.code == 0, f"exit code {done.code}: {done.err}"
                        for name in names:
                            runs = [RunFolder(place / "run" / name) for place in (whole, here)]
                            _, difference = first_difference(*runs)
                            assert difference is None, f"{name}: {difference}"
                        assert not [*here.rglob("*.part")], "files were left behind"
                        before = _files(here)
                        done = nursery.run(command, home)
                        assert done.code == 0, done.err
                        assert _files(here) == before, "the repeated command changed something"
                    shutil.rmtree(here, ignore_errors=True)
    tally.remarks.append(
        f"Of {tally.tried} commands, {struck} were still running at the n-th call."
    )
    return tally


EACH_REPLACEMENT = {
    (fault, kind): range(1, calls)
    for fault, kind, calls in (
        ("kill", "open", 17), ("kill", "write", 9), ("kill", "fsync", 13), ("kill", "unlink", 31),
        ("kill", "rename", 13), ("fail", "write", 9), ("fail", "fsync", 13), ("fail", "rename", 13),
    )
}  # fmt: skip
"""The calls of each kind up to the first save of the new run, and some more."""


def overwritten(calls: Mapping[tuple[str, str], Iterable[int]] = EACH_REPLACEMENT) -> Tally:
    """SIGKILL or ENOSPC at the n-th call of a kind while `train --overwrite` trains another run in
    the folder of a finished run. Between two removals or renames, the folder may have neither run;
    else it has the earlier run, unchanged, or a checkpoint of the new run. No resume mixes them."""
    tally, found = Tally(), {"earlier": 0, "new": 0, "neither": 0}
    with nurtured() as (nursery, home):
        place, new_words = home / "replaced" / "run", [*words("replaced"), "--seed", "5"]
        done = nursery.run([*words("new"), "--seed", "5"], home)
        assert done.code == 0, done.err
        old, new, folder = (RunFolder(home / name / "run") for name in ("whole", "new", "replaced"))
        for (fault, kind), numbers in calls.items():
            for call in numbers:
                with tally.case(f"{fault} at {kind} {call}"):
                    shutil.rmtree(place, ignore_errors=True)
                    shutil.copytree(old.path, place)
                    plan = {fault: kind, "call": call, "errno": errno.ENOSPC}
                    done = nursery.run([*new_words, "--overwrite"], home, plan)
                    tally.took(done.mib)
                    assert "Traceback" not in done.err, done.err
                    assert done.code in (0, 5, -signal.SIGKILL), f"{done.code}: {done.err}"
                    if _files(place) == _files(old.path):
                        found["earlier"] += 1
                    elif folder.last.exists() and load_model(folder.last).config.seed == 5:
                        found["new"] += 1
                    else:
                        assert kind in ("unlink", "rename"), "the earlier run is lost"
                        found["neither"] += 1
                    done = nursery.run([*new_words, "--resume"], home)
                    if done.code == 2:  # the checkpoints are those of the earlier run
                        done = nursery.run([*words("replaced"), "--resume"], home)
                        assert done.code == 0, done.err
                        _, difference = first_difference(old, folder)
                        assert difference is None, f"earlier run: {difference}"
                        done = nursery.run([*new_words, "--overwrite"], home)
                    assert done.code == 0, done.err
                    _, difference = first_difference(new, folder)
                    assert difference is None, f"new run: {difference}"
    tally.remarks.append(
        f"After the fault, {found['earlier']} folders contained the earlier run, {found['new']} a"
        f" checkpoint of the new run, and {found['neither']} neither run."
    )
    return tally


def _files(place: Path) -> dict[str, bytes]:
    """The files below a folder without locks and unfinished files."""
    return {name: content for name, content in tree(place).items()
            if not name.endswith((".lock", ".part"))}  # fmt: skip


def one_state(steps: int) -> tuple[Any, Any, Any]:
    """A training's state after some epochs, with its config and spec."""
    import torch

    from seqattn.config import resolve
    from seqattn.data import DataSpec, load_data
    from seqattn.models import FeatureSpec, build_model
    from seqattn.training import TrainingRun, to_tensors, train_models

    torch.set_num_threads(1)
    config = resolve(None, ["data.n_train=8", "model.hidden_dim=3", f"training.epochs={steps}"])
    splits = load_data(config.config.data)
    spec = DataSpec.of(splits.train)
    run = TrainingRun(
        build_model(config.config.model, FeatureSpec.of(spec), 1), to_tensors(splits.train),
        to_tensors(splits.validation), config.config.training, 1,
    )  # fmt: skip
    (trained,) = train_models([run])
    assert trained.state is not None
    return trained.state, config.config, spec
