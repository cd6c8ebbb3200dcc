"""The run folder, and functions that read, write and check its files.

    outputs/NAME/
      config.yaml        the resolved config with all defaults, to train the same run again
      environment.json   versions, device, threads, git revision
      train.log          the events of the run, one line each, with times
      metrics.csv        one row for each epoch
      checkpoints/       best.safetensors, last.safetensors, previous.safetensors
      split.csv          the ranges of each series in each part of your files, if at most 100,000
      files.csv          SHA-256 digests of the data files, if a path refers to several files
      summary.json       losses, baselines and noise floor, or the epoch of the divergence
      predictions.npz    test sequences and their free-running forecasts
      film.npz           attention of some validation sequences over the epochs, if recorded
      parameter_history.npz  the parameters at the same epochs, if recorded
      trackers.json      identifiers of the records of MLflow and Weights & Biases, if enabled
      tensorboard/       TensorBoard events, if enabled
      wandb/             files of Weights & Biases, if enabled
      attention.npz      attention weights of the test sequences, for models with attention
      loss_curve.png, predictions.png, attention.png   the pictures of the run
      .lock              lock of the process that writes to the folder

Every file except the log, the lock and the files in tracker folders is written atomically; see
`seqattn.runs.storage`.
"""

from seqattn.runs.array_files import (
    attention_arrays,
    attention_contents,
    masked_weights,
    read_lengths,
)
from seqattn.runs.folder import (
    METRICS,
    EpochRecord,
    RunFolder,
    check_folder_available,
    check_run_exists,
    check_summary,
    find_run,
    seed_of_folder,
)
from seqattn.runs.json_files import read_environment, read_manifest, read_search, read_summary

COMPARISON = "comparison.json"
"""The name of the manifest of a comparison folder."""
SEARCH = "tune.json"
"""The name of the manifest of a search folder."""
PAGE = "report.html"
"""The name of the report in the folder of a run or a comparison."""

__all__ = [
    "COMPARISON", "METRICS", "PAGE", "SEARCH", "EpochRecord", "RunFolder", "attention_arrays",
    "attention_contents", "check_folder_available", "check_run_exists", "check_summary", "find_run",
    "masked_weights", "read_environment", "read_lengths", "read_manifest", "read_search",
    "read_summary", "seed_of_folder",
]  # fmt: skip
