"""Training: the loop, its state and schedules, losses and checkpoints."""

from seqattn.training.batches import Batch, GatheredBatch, batch_in_order, batch_of, to_tensors
from seqattn.training.checkpoint_file import PATHS
from seqattn.training.checkpoints import (
    LoadedModel,
    file_digests,
    load_model,
    load_model_at_epoch,
    load_state,
    save_best,
    save_state,
)
from seqattn.training.compatibility import check_data_unchanged
from seqattn.training.loop import train_models
from seqattn.training.objective import mse_loss
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    LearningRate,
    early_stopping,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.session import Session
from seqattn.training.state import RunProgress, RunState, TrainingRun

__all__ = [
    "PATHS",
    "Batch",
    "GatheredBatch",
    "LearningRate",
    "LoadedModel",
    "ProcessGroup",
    "RunProgress",
    "RunState",
    "Session",
    "TrainingRun",
    "batch_in_order",
    "batch_of",
    "check_data_unchanged",
    "early_stopping",
    "file_digests",
    "load_model",
    "load_model_at_epoch",
    "load_state",
    "mse_loss",
    "sample_teacher_forcing",
    "save_best",
    "save_state",
    "teacher_forcing_probability",
    "to_tensors",
    "train_models",
]
