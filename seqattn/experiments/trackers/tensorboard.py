"""The TensorBoard files of a run."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.experiments.trackers.interface import Status, TrackedRun
from seqattn.runs import EpochRecord


class TensorBoardTracker:
    """A tracker that writes the scalars of each epoch to the folder `tensorboard` of a run. If the
    run finishes, the tracker also writes the pictures and the hyperparameters. The first write
    removes the files of an earlier process, so each epoch occurs only once after a resume.
    """

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
