"""Experiment trackers: TensorBoard, MLflow and Weights & Biases.

The run folder contains everything that a tracker receives, so a run does not depend on its
trackers. Once training has begun, an error of a tracker therefore never ends training.
`RunTrackers` describes what happens instead.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Config, as_plain, leaves, to_yaml
from seqattn.errors import SeqattnError, StorageError, UsageError, counted, install_command
from seqattn.experiments.job import Callbacks, Job
from seqattn.runs import COMPARISON, METRICS, SEARCH, EpochRecord, RunFolder
from seqattn.runs.storage import folder_lock

Status = Literal["finished", "diverged", "stopped"]
"""How a run ended. "stopped" means that `--resume` can continue the run."""


class Tracker(Protocol):
    """A tracker, which keeps a record of one run in addition to the files in the run folder.

    The methods are called in the order `start`, `log_epochs`, `log_picture`, `end`. Any method may
    raise any exception of the tracker's library.
    """

    key: str
    """The key in the config section `logging` that selects the tracker."""

    def start(self) -> int:
        """Open the record of the run, and return the number of epochs that it already contains."""
        ...

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        """Add finished epochs to the record."""
        ...

    def log_picture(self, name: str, png: bytes) -> None:
        """Add a picture in the PNG format to the record of a finished run."""
        ...

    def end(self, status: Status, results: Mapping[str, float]) -> None:
        """Add the results, which only a finished run has, and close the record."""
        ...


@dataclass(frozen=True)
class TrackedRun:
    """A run that trackers record.

    Attributes:
        replaces: whether the folder still contains an earlier run, which this run will replace.
        records: if `replaces` is true, the content of the new `trackers.json`. The first save of
            the run writes this file.
    """

    config: Config
    folder: RunFolder
    replaces: bool = False
    records: dict[str, Any] = field(default_factory=dict)

    @property
    def _depth(self) -> int:
        """The number of folders between the folder of the run and the folder of all outputs."""
        path = self.folder.path
        if (path.parent.parent / COMPARISON).exists():
            return 2
        of_seeds = path.name == f"seed-{self.config.seed}" and path.name != self.config.name
        return 1 if of_seeds or (path.parent / SEARCH).exists() else 0

    @property
    def outputs(self) -> Path:
        """The folder of all outputs, such as `outputs`."""
        return self.folder.path.absolute().parents[self._depth]

    @property
    def name(self) -> str:
        """The path of the run in the folder of all outputs, such as `squares/seed-23`."""
        return self.folder.path.absolute().relative_to(self.outputs).as_posix()

    @property
    def group(self) -> str:
        """The first part of `name`, which the seeds, variants or trials of one command share."""
        return self.name.partition("/")[0]

    @property
    def values(self) -> dict[str, bool | int | float | str]:
        """The values of the config by dotted key. Lists and null become text."""
        return {
            ".".join(at): value if isinstance(value, bool | int | float | str) else str(value)
            for at, value in leaves(as_plain(self.config))
        }

    def previous_id(self, key: str, place: str) -> str | None:
        """Return the identifier of the record that an earlier process created for this run, or None
        if there is no such record in the given place."""
        entry: Mapping[str, Any] = self._stored().get(key, {})
        return str(entry["run_id"]) if entry.get("place") == place else None

    def save_id(self, key: str, place: str, run_id: str) -> None:
        """Store the identifier of a record so that `previous_id` can return it."""
        stored = {**self._stored(), key: {"place": place, "run_id": run_id}}
        if self.replaces:
            self.records.update(stored)
        else:
            self.folder.write_trackers(stored)

    def _stored(self) -> dict[str, Any]:
        return self.records if self.replaces else self.folder.read_trackers()


# --- TensorBoard ----------------------------------------------------------------------------------


class TensorBoardTracker:
    """A tracker that writes the scalars of each epoch to the folder `tensorboard` of a run. If the
    run finishes, the tracker also writes the pictures and the hyperparameters. The first write
    removes the files of an earlier process, so each epoch occurs only once after a resume."""

    key = "tensorboard"

    def __init__(self, run: TrackedRun) -> None:
        self.run = run
        self._has_written = False
        self._pictures = dict[str, NDArray[np.uint8]]()  # each writer creates a file

    def start(self) -> int:
        return 0

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        with self._writer() as writer:
            for record in records:
                for tag, value in (
                    ("loss/training", record.train_loss),
                    ("loss/validation", record.validation_loss),
                    ("loss/validation, teacher-forced", record.validation_loss_teacher_forced),
                    ("schedule/learning rate", record.learning_rate),
                    ("schedule/teacher forcing", record.teacher_forcing),
                ):
                    writer.add_scalar(tag, value, record.epoch)

    def log_picture(self, name: str, png: bytes) -> None:
        from PIL import Image

        with Image.open(io.BytesIO(png)) as picture:
            self._pictures[name] = np.asarray(picture.convert("RGB"))

    def end(self, status: Status, results: Mapping[str, float]) -> None:
        if not results:
            return
        with self._writer() as writer:
            for name, picture in self._pictures.items():
                writer.add_image(name, picture, dataformats="HWC")
            metrics = {name.replace("_", " "): value for name, value in results.items()}
            writer.add_hparams(self.run.values, metrics, run_name=".")

    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        if not self._has_written:
            self.run.folder.clear_tensorboard()
            self._has_written = True
        return SummaryWriter(str(self.run.folder.tensorboard))


# --- MLflow ---------------------------------------------------------------------------------------

MLFLOW_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the default waits for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Environment variables that this process sets unless the user has set them."""
DATABASE_TIMEOUT = 60.0
"""Maximum time in seconds to wait for another process that opens the same database."""
MAX_METRICS = 1000
"""The largest number of metrics that a store accepts at once."""
MAX_PARAMS = 100
"""The largest number of parameters that a store accepts at once."""
MAX_PARAM_LENGTH = 500
"""The maximum length of a parameter that all versions of MLflow accept."""
RESUMED_TAG = "seqattn.resumed."
MLFLOW_STATUS = {"finished": "FINISHED", "diverged": "FAILED", "stopped": "KILLED"}


class MLflowTracker:
    """A tracker that creates an MLflow run, in the MLflow experiment named after the run's group.

    The metrics have the names of the columns of `metrics.csv`. A resume continues the same MLflow
    run and adds only the epochs that this MLflow run lacks.
    """

    key = "mlflow"

    def __init__(self, run: TrackedRun) -> None:
        self.run = run
        uri = run.config.logging.mlflow_uri
        self.is_local = uri is None
        self.uri = uri or f"sqlite:///{(run.outputs / 'mlflow.db').as_posix()}"
        self.run_id = ""
        self._client: Any = None
        self._last_epoch = 0  # the last epoch that the store is known to have
        self._lost_response = False  # whether an error came after epochs were sent

    def start(self) -> int:
        for name, value in MLFLOW_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        # Two processes cannot create the tables of a database at the same time.
        lock = folder_lock(self.run.outputs, DATABASE_TIMEOUT)
        with lock if self.is_local else contextlib.nullcontext():
            self._client = MlflowClient(tracking_uri=self.uri)
            experiment = self._experiment()
        self.run_id = self._open_run(experiment)
        self._log_params()
        self._client.log_text(self.run_id, to_yaml(self.run.config), self.run.folder.config.name)
        self._last_epoch = self._find_last_epoch()
        return self._last_epoch

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        from mlflow.entities import Metric

        if self._lost_response:
            self._last_epoch = self._find_last_epoch()
        records = [record for record in records if record.epoch > self._last_epoch]
        self._lost_response = True  # until all responses have arrived
        now = time.time_ns() // 1_000_000
        metrics = [
            Metric(name, value, now, record.epoch)
            for record in records
            for name, value in record.as_dict().items()
            if name != "epoch"
        ]
        step = MAX_METRICS - MAX_METRICS % max(1, len(metrics) // max(1, len(records)))  # epochs
        for at in range(0, len(metrics), step):
            self._client.log_batch(self.run_id, metrics=metrics[at : at + step])
        self._lost_response = False
        self._last_epoch = max([self._last_epoch, *(record.epoch for record in records)])

    def log_picture(self, name: str, png: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="seqattn-") as scratch:
            path = Path(scratch) / f"{name}.png"
            path.write_bytes(png)
            self._client.log_artifact(self.run_id, str(path))

    def end(self, status: Status, results: Mapping[str, float]) -> None:
        for name, value in results.items():
            self._client.log_metric(self.run_id, name, value)
        self._client.set_terminated(self.run_id, MLFLOW_STATUS[status])

    def _find_last_epoch(self) -> int:
        """Return the last epoch that the MLflow run contains, or 0 if it contains no epoch."""
        # `seconds` is the last column of every run, so an epoch with `seconds` is complete.
        history = self._client.get_metric_history(self.run_id, METRICS[-1])
        return max((metric.step for metric in history), default=0)

    def _experiment(self) -> str:
        """Find or create the experiment, and return its identifier."""
        name = self.run.group
        found = self._client.get_experiment_by_name(name)
        if found is None:
            artifacts = (self.run.outputs / "mlflow-artifacts").as_uri() if self.is_local else None
            try:
                return str(self._client.create_experiment(name, artifact_location=artifacts))
            except Exception:  # another process may have created it just now
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _open_run(self, experiment: str) -> str:
        """Find or create the MLflow run, and return its identifier."""
        run_id = self.run.previous_id(self.key, self.uri)
        if run_id is not None:
            self._client.update_run(run_id, status="RUNNING")
            return run_id
        tags = {"seqattn.group": self.run.group, "seqattn.folder": str(self.run.folder.path)}
        created = self._client.create_run(experiment, run_name=self.run.name, tags=tags)
        self.run.save_id(self.key, self.uri, created.info.run_id)
        return str(created.info.run_id)

    def _log_params(self) -> None:
        """Log the config. MLflow parameters cannot be changed, so a value that a resume changes is
        stored as the tag `seqattn.resumed.KEY`."""
        from mlflow.entities import Param

        data = self._client.get_run(self.run_id).data
        known, tags = data.params, data.tags
        values = {name: str(value)[:MAX_PARAM_LENGTH] for name, value in self.run.values.items()}
        new = [Param(name, value) for name, value in values.items() if name not in known]
        for at in range(0, len(new), MAX_PARAMS):
            self._client.log_batch(self.run_id, params=new[at : at + MAX_PARAMS])
        for name, value in values.items():
            tag = f"{RESUMED_TAG}{name}"
            if tags.get(tag, known.get(name, value)) != value:
                self._client.set_tag(self.run_id, tag, value)


# --- Weights & Biases -----------------------------------------------------------------------------

WANDB_ENVIRONMENT = {"WANDB_ERROR_REPORTING": "false"}
"""Environment variables that this process sets unless the user has set them. By default, wandb
reports its own errors and timings, even in offline mode."""
WANDB_TIMEOUT = 60.0
"""Maximum time in seconds to wait for the server at the start and at the end of a run."""


class WandbTracker:
    """A tracker that creates a Weights & Biases run in the project that the config sets, in a group
    with the other seeds, variants or trials of the command.

    In offline mode, nothing is sent. The record is stored in the folder `wandb` of the run folder,
    and replaces the record of an earlier process. In online mode, a resume continues the Weights &
    Biases run on the server.
    """

    key = "wandb"

    def __init__(self, run: TrackedRun) -> None:
        self.run, self.logging = run, run.config.logging
        self.place = f"{self.logging.wandb_mode}:{self.logging.wandb_project}"
        self._run: Any = None
        self._epoch = 0

    def start(self) -> int:
        for name, value in WANDB_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import wandb

        run, online = self.run, self.logging.wandb_mode == "online"
        if online and not wandb.login(prompt=False):
            raise UsageError("no API key is configured. Run: wandb login")
        run_id = run.previous_id(self.key, self.place)
        if run_id is None:
            run_id = uuid.uuid4().hex
            run.save_id(self.key, self.place, run_id)
        for old in run.folder.wandb.glob(f"offline-run-*-{run_id}"):
            shutil.rmtree(old)
        self._run = wandb.init(
            project=self.logging.wandb_project, id=run_id, name=run.name, group=run.group,
            dir=str(run.folder.path), config=run.values, mode=self.logging.wandb_mode,
            resume="allow" if online else None, reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", disable_code=True, disable_git=True,
                x_disable_stats=True, init_timeout=WANDB_TIMEOUT,
                finish_timeout=WANDB_TIMEOUT, finish_timeout_raises=True,
            ),
        )  # fmt: skip
        self._epoch = max(0, int(self._run.step) - 1)  # the server resumes at the next step
        return self._epoch

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        for record in records:
            self._run.log(record.as_dict(), step=record.epoch)
            self._epoch = record.epoch

    def log_picture(self, name: str, png: bytes) -> None:
        import wandb
        from PIL import Image

        with Image.open(io.BytesIO(png)) as picture:
            # A step of its own would make a resume skip the next epoch.
            self._run.log({name: wandb.Image(picture)}, step=self._epoch)

    def end(self, status: Status, results: Mapping[str, float]) -> None:
        self._run.summary.update(dict(results))
        self._run.finish(exit_code=0 if status == "finished" else 1)


# --- the trackers of runs -------------------------------------------------------------------------

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


@contextlib.contextmanager
def open_trackers(jobs: Sequence[Job], callbacks: Callbacks) -> Iterator[dict[Path, RunTrackers]]:
    """Open the records of the jobs of a group, and close all records at the end of the block. The
    trackers are found by run folder."""
    by_folder = {job.folder.path: RunTrackers(job) for job in jobs}

    def close() -> None:
        """Close the records that are still open because an error or a stop ended the runs."""
        for trackers in by_folder.values():
            trackers.trackers = [each for each in trackers.trackers if each.key in trackers.epochs]
            trackers.end("stopped", (), {}, {})

    try:
        for trackers in by_folder.values():
            trackers.start()
    except SeqattnError:
        close()
        raise
    try:
        yield by_folder
    finally:
        close()
        problems = [line for each in by_folder.values() for line in each.problems]
        for line in dict.fromkeys(problems):
            callbacks.message(line)


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
