"""The run folder: its files, writing them and reading them back.

    outputs/NAME/
      config.yaml        every value, defaults too; loads again
      environment.json   versions, device, threads, git revision
      train.log          what happened, a line each
      metrics.csv        one row an epoch
      checkpoints/       best.safetensors, last.safetensors, previous.safetensors
      split.csv          which part each sequence of your own files went to
      files.csv          the files that were read as they were needed, and their SHA-256
      summary.json       the losses beside floor and baselines, or how the run diverged
      predictions.npz    test sequences and their free-running forecasts
      film.npz           attention of some validation sequences after each epoch, if recorded
      tensorboard/       for TensorBoard, if asked for
      attention.npz      attention of the test sequences (none for a model without attention)
      loss_curve.png, predictions.png, attention.png
      .lock              held by the process that writes here

Every file but the log is written whole or not at all; see `seqattn.runs.storage`.
"""

from seqattn.runs.array_files import (
    attention_arrays,
    attention_contents,
    masked_weights,
    read_lengths,
)
from seqattn.runs.csv_files import METRICS, EpochRecord
from seqattn.runs.folder import RunFolder
from seqattn.runs.json_files import read_environment, read_manifest, read_search, read_summary
from seqattn.runs.lookup import check_not_taken, check_summary, find_run

COMPARISON = "comparison.json"
"""The file that makes a folder a comparison's."""
SEARCH = "tune.json"
"""The file that makes a folder a search's."""
PAGE = "report.html"
"""The page of a run or a comparison, in its folder."""

__all__ = [
    "COMPARISON", "METRICS", "PAGE", "SEARCH", "EpochRecord", "RunFolder", "attention_arrays",
    "attention_contents", "check_not_taken", "check_summary", "find_run", "masked_weights",
    "read_environment", "read_lengths", "read_manifest", "read_search", "read_summary",
]  # fmt: skip
