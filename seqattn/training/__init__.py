"""Training: the loop, its state and schedules, losses and checkpoints.

`CONTRIBUTING.md` describes the objects that a run passes through, from its config to its checkpoint
file. The code in this package uses these terms:

- A run is the training of a model with one config and one seed. A group is a set of runs that are
  trained together. The tensors of several runs have a leading axis of runs, and a row is the index
  of a run on this axis.
- A position is the pair (number of finished epochs, number of finished steps in the current epoch).
- A state contains everything that changes during training. A `RunState` is the state of one run,
  and a `TrainState` is the state of a group. A checkpoint is a file that contains a `RunState`, or
  only the weights of the best epoch.
- A run is active until it has an ending (`RunProgress.ending`). The ending is "all epochs", "early
  stopping" or "diverged". `RunProgress.is_finished` is True if the run ended without diverging.
- `seqattn.experiments.job.Job` describes a run in its folder. `Job.is_trained` is True if no epoch
  is left to train after the checkpoint. `Job.is_pending` is True if the folder contains neither
  results nor the error of a divergence. A trained run without results is therefore pending.
- A shard is the part of a batch that one process trains on.
- A state snapshot is a copy of the state of a group within an epoch, to which the loop can return.
  An attention snapshot contains the attention weights of a few sequences after an epoch.
- The environment of a run is the content of its file `environment.json`, such as the device, the
  versions of the packages, the numbers of threads and processes, and the command.
"""

from seqattn.training.batches import Batch, GatheredBatch, batch_of, to_tensors
from seqattn.training.checkpoints import (
    LoadedModel,
    check_data_unchanged,
    file_digests,
    load_model,
    load_model_at_epoch,
    load_state,
    save_best,
    save_state,
)
from seqattn.training.loop import Session, train_models
from seqattn.training.optimization import (
    LearningRate,
    build_early_stopper,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.process_group import ProcessGroup
from seqattn.training.state import RunProgress, RunState, TrainingRun

__all__ = [
    "Batch", "GatheredBatch", "LearningRate", "LoadedModel", "ProcessGroup", "RunProgress",
    "RunState", "Session", "TrainingRun", "batch_of", "build_early_stopper",
    "check_data_unchanged", "file_digests", "load_model", "load_model_at_epoch", "load_state",
    "sample_teacher_forcing", "save_best", "save_state",
    "teacher_forcing_probability", "to_tensors", "train_models",
]  # fmt: skip
