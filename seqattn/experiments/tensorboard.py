"""The TensorBoard files of a run: scalars of each epoch, then pictures and hyperparameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from seqattn.config import Config, as_plain, leaves
from seqattn.errors import UsageError
from seqattn.runs import EpochRecord, RunFolder


def require_tensorboard(config: Config) -> None:
    """Check that TensorBoard is installed if `logging.tensorboard` is true.

    Raises:
        UsageError: if TensorBoard is not installed.
    """
    if config.logging.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise UsageError(
            'logging.tensorboard needs the package tensorboard: pip install "seqattn[tensorboard]"'
        )


class TensorBoardLogger:
    """Writer of the scalars of each epoch. The writer replaces the files of an earlier process, so
    that each epoch occurs only once after a resume.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.written = 0

    def write(self, history: Sequence[EpochRecord]) -> None:
        """Write the scalars of the epochs that are not written yet."""
        if self.written == len(history):
            return
        if self.written == 0:
            self.folder.clear_tensorboard()
        with _writer(self.folder) as writer:
            for record in history[self.written :]:
                for tag, value in (
                    ("loss/training", record.train_loss),
                    ("loss/validation", record.validation_loss),
                    ("loss/validation, teacher-forced", record.validation_loss_teacher_forced),
                    ("schedule/learning rate", record.learning_rate),
                    ("schedule/teacher forcing", record.teacher_forcing),
                ):
                    writer.add_scalar(tag, value, record.epoch)
        self.written = len(history)


def write_summary(folder: RunFolder, config: Config, summary: Mapping[str, Any]) -> None:
    """Write the pictures of a finished run, and its hyperparameters with the test loss."""
    from seqattn.plots import run_pictures

    known = {}
    for at, value in leaves(as_plain(config)):
        known[".".join(at)] = value if isinstance(value, bool | int | float | str) else str(value)
    predictions = folder.read_predictions(run_pictures.EXAMPLES)
    with _writer(folder) as writer:
        writer.add_figure("loss", run_pictures.loss_picture(folder, summary))
        shown = run_pictures.predictions_picture(predictions, summary)
        writer.add_figure("predictions", shown)
        if folder.attention.exists():
            titles = run_pictures.sequence_titles(predictions)
            weights = folder.read_attention(run_pictures.EXAMPLES)
            figure, _ = run_pictures.attention_picture(weights, titles, run_pictures.EXAMPLES)
            writer.add_figure("attention", figure)
        writer.add_hparams(known, {"test loss": float(summary["test_loss"])}, run_name=".")


def _writer(folder: RunFolder) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder.tensorboard))
