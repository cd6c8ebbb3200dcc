"""The trackers that the config of a run selects, and the handling of their errors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from seqattn.config import Config
from seqattn.errors import SeqattnError, StorageError, UsageError, counted, install_command
from seqattn.experiments.job import Callbacks, Job
from seqattn.experiments.trackers.interface import Status, TrackedRun, Tracker
from seqattn.experiments.trackers.mlflow import MLflowTracker
from seqattn.experiments.trackers.tensorboard import TensorBoardTracker
from seqattn.experiments.trackers.wandb import WandbTracker
from seqattn.runs import EpochRecord, RunFolder

TRACKERS: dict[str, Callable[[TrackedRun], Tracker]] = {
    TensorBoardTracker.key: TensorBoardTracker,
    MLflowTracker.key: MLflowTracker,
    WandbTracker.key: WandbTracker,
}
"""Each tracker by its key in `logging`, which is also the name of its package and of its extra."""
PACKAGES = {"mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""The packages of a tracker that needs more than the package with the name of its key."""
RESULTS = ("test_loss", "best_epoch")
"""The keys of `summary.json` whose values trackers get when a run has finished."""
MAX_REASON_LENGTH = 300


def check_trackers(config: Config) -> None:
    """Check that the packages of the trackers that a config selects are installed.

    Raises:
        UsageError: if a package is missing.
    """
    for key in _selected(config):
        if any(importlib.util.find_spec(name) is None for name in PACKAGES.get(key, (key,))):
            raise UsageError(
                f"logging.{key} needs the extra {key}, which is not installed:"
                f" {install_command(key)}"
            )


def without_trackers(config: Config) -> Config:
    """Return the config without trackers."""
    off = dict.fromkeys(TRACKERS, False)
    return config.model_copy(update={"logging": config.logging.model_copy(update=off)})


def _selected(config: Config) -> list[str]:
    return [key for key in TRACKERS if getattr(config.logging, key)]


class RunTrackers:
    """The trackers of one run.

    An error of a tracker during training is logged, and this tracker gets nothing more until the
    end of the run. At the end, each tracker gets all epochs that it lacks. If this fails, the log
    states what the tracker may lack. The files of the run are complete in each case.

    Attributes:
        problems: a line for each error, for the user.
        records: see `TrackedRun`.
    """

    def __init__(self, job: Job) -> None:
        run = TrackedRun(job.config, job.folder, job.replaces)
        self.folder: RunFolder = job.folder
        self.records = run.records
        self.trackers = [TRACKERS[key](run) for key in _selected(job.config)]
        self.epochs = dict[str, int]()  # by key, the number of epochs that the tracker has
        self.failed = set[str]()
        self.problems: list[str] = []

    def start(self) -> None:
        """Open the record of each tracker.

        Raises:
            StorageError: if a record cannot be opened before training begins.
            UsageError: if the user must do something first, such as logging in.
        """
        for tracker in self.trackers:
            try:
                self.epochs[tracker.key] = tracker.start()
            except Exception as error:
                kind = UsageError if isinstance(error, UsageError) else StorageError
                raise kind(
                    f"logging.{tracker.key}: the tracker cannot be started: {_reason(error)}."
                    f" To train without it: --set logging.{tracker.key}=false"
                ) from None

    def log_epochs(self, history: Sequence[EpochRecord]) -> None:
        """Give each tracker without an earlier error the epochs that it lacks."""
        for tracker in self.trackers:
            if tracker.key in self.failed:
                continue
            try:
                self._send(tracker, history)
            except Exception as error:
                self.failed.add(tracker.key)
                self._report(
                    f"logging.{tracker.key}: {_reason(error)}. Training continues; the tracker gets"
                    f" the epochs after {self.epochs[tracker.key]} at the end of the run."
                )

    def end(
        self,
        status: Status,
        history: Sequence[EpochRecord],
        results: Mapping[str, float],
        pictures: Mapping[str, bytes],
    ) -> None:
        """Give each tracker everything that it lacks, and close its record."""
        for tracker in self.trackers:
            try:
                self._send(tracker, history)
                for name, png in pictures.items():
                    tracker.log_picture(name, png)
                tracker.end(status, results)
            except Exception as error:
                self._report(
                    f"logging.{tracker.key}: {_reason(error)}. The tracker has"
                    f" {counted(self.epochs[tracker.key], 'epoch')}, and may lack later epochs, the"
                    f" results and the pictures. The files in {self.folder.path} are complete."
                )
        self.trackers = []

    def _send(self, tracker: Tracker, history: Sequence[EpochRecord]) -> None:
        known = self.epochs[tracker.key]
        if len(history) > known:
            tracker.log_epochs(history[known:])
            self.epochs[tracker.key] = len(history)

    def _report(self, line: str) -> None:
        self.folder.log_line(line)
        self.problems.append(line)


class TrackersOfRuns:
    """The trackers of the jobs of a group, by run folder. All records are closed at the end of the
    `with` block."""

    def __init__(self, jobs: Sequence[Job], callbacks: Callbacks) -> None:
        self.callbacks = callbacks
        self.by_folder = {job.folder.path: RunTrackers(job) for job in jobs}

    def __getitem__(self, folder: Path) -> RunTrackers:
        return self.by_folder[folder]

    def __enter__(self) -> TrackersOfRuns:
        try:
            for trackers in self.by_folder.values():
                trackers.start()
        except SeqattnError:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        problems = [line for each in self.by_folder.values() for line in each.problems]
        for line in dict.fromkeys(problems):
            self.callbacks.message(line)

    def _close(self) -> None:
        """Close the records that are still open because an error or a stop ended the runs."""
        for trackers in self.by_folder.values():
            started = [each for each in trackers.trackers if each.key in trackers.epochs]
            trackers.trackers = started
            trackers.end("stopped", (), {}, {})


def end_trackers(job: Job, trackers: RunTrackers, history: Sequence[EpochRecord]) -> None:
    """Give the trackers of a job the remaining epochs and, if the run has finished, the results and
    pictures. Then close the records."""
    if not trackers.trackers:
        return
    if job.summary is None:
        status: Status = "stopped" if job.error is None else "diverged"
        trackers.end(status, history, {}, {})
        return
    from seqattn.plots import as_bytes
    from seqattn.plots.run_pictures import figure_of_run

    pictures = {path.stem.removesuffix("_curve"): as_bytes(figure_of_run(job.folder, path))
                for path in job.folder.pictures}  # fmt: skip
    results = {key: float(job.summary[key]) for key in RESULTS}
    trackers.end("finished", history, results, pictures)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= MAX_REASON_LENGTH else f"{text[:MAX_REASON_LENGTH]}..."
    return text.rstrip(".")
