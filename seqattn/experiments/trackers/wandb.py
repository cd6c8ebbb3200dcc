"""The record of a run in Weights & Biases."""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from seqattn.errors import UsageError
from seqattn.experiments.trackers.interface import Status, TrackedRun
from seqattn.runs import METRICS, EpochRecord

ENVIRONMENT = {"WANDB_ERROR_REPORTING": "false"}
"""Environment variables that this process sets unless the user has set them. By default, wandb
reports its own errors and timings, even in offline mode."""
TIMEOUT_SECONDS = 60.0
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
        for name, value in ENVIRONMENT.items():
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
                x_disable_stats=True, init_timeout=TIMEOUT_SECONDS,
                finish_timeout=TIMEOUT_SECONDS, finish_timeout_raises=True,
            ),
        )  # fmt: skip
        self._epoch = max(0, int(self._run.step) - 1)  # the server resumes at the next step
        return self._epoch

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        for record in records:
            values = dict(zip(METRICS, record.as_row(), strict=True))
            self._run.log({**values, "epoch": record.epoch}, step=record.epoch)
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
