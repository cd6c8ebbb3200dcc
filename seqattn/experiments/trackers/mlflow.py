"""The record of a run in an MLflow tracking store."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from seqattn.config import to_yaml
from seqattn.experiments.trackers.interface import Status, TrackedRun
from seqattn.runs import METRICS, EpochRecord
from seqattn.runs.storage import folder_lock

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the default waits for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Environment variables that this process sets unless the user has set them."""
LOCK_TIMEOUT = 60.0
"""Maximum time in seconds to wait for another process that opens the same database."""
MAX_METRICS = 1000
"""The largest number of metrics that a store accepts at once."""
MAX_PARAMS = 100
"""The largest number of parameters that a store accepts at once."""
MAX_PARAM_LENGTH = 500
"""The maximum length of a parameter that all versions of MLflow accept."""
RESUMED_TAG = "seqattn.resumed."
DESCRIPTION_TAG = "mlflow.note.content"
"""The tag that the pages of MLflow show as the description of a run."""
CHANGES = "Values of the config that a resume has changed: "
STATUS = {"finished": "FINISHED", "diverged": "FAILED", "stopped": "KILLED"}


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
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        # Two processes cannot create the tables of a database at the same time.
        with folder_lock(self.run.outputs, LOCK_TIMEOUT) if self.is_local else nullcontext():
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
            for name, value in zip(METRICS[1:], record.as_row()[1:], strict=True)
        ]
        step = MAX_METRICS - MAX_METRICS % len(METRICS[1:])  # whole epochs
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
        self._client.set_terminated(self.run_id, STATUS[status])

    def _find_last_epoch(self) -> int:
        """Return the last epoch that the MLflow run contains, or 0 if it contains no epoch."""
        # `seconds` is the last column, so an epoch with `seconds` is complete.
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
        stored as the tag `seqattn.resumed.KEY`, and the description of the MLflow run lists all
        changed values. A description that the user wrote remains."""
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
        changes = [f"{name}: {known[name]} -> {value}" for name, value in values.items()
                   if known.get(name, value) != value]  # fmt: skip
        old = tags.get(DESCRIPTION_TAG, "")
        if old.startswith(CHANGES) or (changes and not old):
            text = f"{CHANGES}{'; '.join(changes) or 'none'}"
            self._client.set_tag(self.run_id, DESCRIPTION_TAG, text)
