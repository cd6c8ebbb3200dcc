"""Training: the loop, its state and schedules, losses and checkpoints."""

from seqattn.training.attention_history import AttentionSnapshot
from seqattn.training.batches import Batch, GatheredBatch, batch_in_order, batch_of, to_tensors
from seqattn.training.checkpoint_file import PATHS
from seqattn.training.checkpoints import (
    LoadedModel,
    file_digests,
    load_model,
    load_state,
    save_best,
    save_state,
)
from seqattn.training.compatibility import check_data_unchanged
from seqattn.training.loop import train
from seqattn.training.objective import mean_squared_error
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    LearningRate,
    early_stopping,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.session import Session
from seqattn.training.state import Run, RunProgress, RunState

__all__ = [
    "PATHS",
    "AttentionSnapshot",
    "Batch",
    "GatheredBatch",
    "LearningRate",
    "LoadedModel",
    "ProcessGroup",
    "Run",
    "RunProgress",
    "RunState",
    "Session",
    "batch_in_order",
    "batch_of",
    "check_data_unchanged",
    "early_stopping",
    "file_digests",
    "load_model",
    "load_state",
    "mean_squared_error",
    "sample_teacher_forcing",
    "save_best",
    "save_state",
    "teacher_forcing_probability",
    "to_tensors",
    "train",
]
