"""Trainings stopped at every step; states with one item left out; 20,000 steps."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from tests.faults import Tally

# 40 steps an epoch, five epochs: dropout, sampling and coins by the element draw from every stream;
# a plateau and early stopping look back; sgd would keep less than adam.
SETS = [
    "data.n_train=160", "data.n_validation=8", "data.n_test=8", "model.hidden_dim=3",
    "model.dropout=0.2", "model.attention.normalizer=hard", "model.attention.estimator=reinforce",
    "training.epochs=5", "training.batch_size=4",
    "training.teacher_forcing.probability=0.5", "training.teacher_forcing.coin=element",
    "training.learning_rate_schedule.kind=plateau", "training.learning_rate_schedule.patience=1",
    "training.early_stopping.patience=50",
]  # fmt: skip


class Bench:
    """Trains in this process, through checkpoints on the disk."""

    def __init__(self, home: Path, sets: list[str]) -> None:
        from seqattn.config import resolve
        from seqattn.data import DataSpec, load_data
        from seqattn.training import to_tensors

        torch.set_num_threads(1)
        self.config, self.home = resolve(None, sets).config, home
        splits = load_data(self.config.data)
        self.data, self.validation = to_tensors(splits.train), to_tensors(splits.validation)
        self.spec = DataSpec.of(splits.train)
        self.steps = -(-len(self.data) // self.config.training.batch_size)

    def train(self, name: str, *, stop_after: int | None = None, resume: bool = False) -> Path:
        """From the beginning, or from the checkpoint of that name; to the end, or to a step."""
        from seqattn.models import FeatureSpec, build_model
        from seqattn.training import TrainingRun, load_state, save_state
        from tests.training_session import trained

        file = self.home / f"{name}.safetensors"
        # On a resume nothing may be left of what the seed would draw: everything must be read.
        model = build_model(
            self.config.model, FeatureSpec.of(self.spec), 99 if resume else self.config.seed
        )
        state = load_state(file, model) if resume else None
        asked = 0

        def stop() -> bool:
            nonlocal asked
            asked += 1
            return stop_after is not None and asked >= stop_after

        run = TrainingRun(
            model, self.data, self.validation, self.config.training, self.config.seed
        )  # fmt: skip
        (progress,) = trained(
            [run],
            states={} if state is None else {run: state},
            stop=stop,
            save=lambda state: save_state(file, state, self.config, self.spec),
        )
        if progress.error is not None:
            raise progress.error
        return file


def same(one: Path, other: Path) -> str | None:
    """The first difference of two checkpoints; wall time is none."""
    from seqattn.experiments.verify_resume import SECONDS_COLUMN
    from seqattn.runs.checkpoint_file import VERSION
    from seqattn.runs.checksummed import load_checksummed

    (first, tensors), (second, others) = (load_checksummed(path, VERSION) for path in (one, other))
    for name in sorted(tensors.keys() | others.keys()):
        if name not in tensors or name not in others:
            return name
        a, b = tensors[name].copy(), others[name].copy()
        if name == "history":
            a[:, SECONDS_COLUMN] = b[:, SECONDS_COLUMN] = 0
        if a.shape != b.shape or not np.array_equal(a, b):
            return name
    for key in sorted(first.keys() | second.keys()):
        if key != "seconds" and first.get(key) != second.get(key):
            return key
    return None


def stopped_at(steps: Iterable[int] | None = None) -> Tally:
    """Stopped after step k and resumed, for every k of 200 or for some."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place), SETS)
        whole = bench.train("whole")
        total = bench.steps * bench.config.training.epochs
        for k in range(1, total + 1) if steps is None else steps:
            with tally.case(f"step {k}"):
                bench.train("parted", stop_after=k)
                parted = bench.train("parted", resume=True)
                difference = same(whole, parted)
                assert difference is None, f"{difference} differs"
    return tally


def many_steps(steps: int = 20_000) -> Tally:
    """Memory and open files at the end of many steps against those after a quarter of them."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        sets = [s for s in SETS if not s.startswith(("training.epochs", "training.early"))]
        epochs = max(4, steps // 40)
        bench = Bench(
            Path(place), [*sets, f"training.epochs={epochs}", "training.checkpoint_seconds=0.1"]
        )
        seen: list[tuple[float, int]] = []
        asked = 0

        def should_stop() -> bool:
            nonlocal asked
            asked += 1
            if asked in (epochs * 10, epochs * 40 - 1):
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                mib = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
                seen.append((mib, len([*Path("/proc/self/fd").iterdir()])))
            return False

        with tally.case(f"{epochs * 40} steps"):
            from seqattn.models import FeatureSpec, build_model
            from seqattn.training import TrainingRun, save_state
            from tests.training_session import trained

            file = Path(place) / "last.safetensors"
            run = TrainingRun(
                build_model(bench.config.model, FeatureSpec.of(bench.spec), 1), bench.data,
                bench.validation, bench.config.training, 1,
            )  # fmt: skip
            trained(
                [run],
                stop=should_stop,
                save=lambda state: save_state(file, state, bench.config, bench.spec),
            )
            (before, files), (after, more) = seen
            # The history is what may grow: seven numbers an epoch.
            assert after - before < 8, f"memory grew by {after - before:.1f} MiB"
            assert more == files, f"{more - files} more files are open"
            tally.remarks.append(
                f"The memory grew by {after - before:.1f} MiB, and the number of open files did not"
                " grow."
            )
    return tally
