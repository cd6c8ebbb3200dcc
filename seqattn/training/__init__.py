"""How a model learns: the loop, its schedules, and the state that a checkpoint keeps."""

from seqattn.training.batches import Batch, GatheredBatch, batch_in_order, batch_of, to_tensors
from seqattn.training.checkpoints import (
    PATHS,
    LoadedModel,
    TrainState,
    check_data_unchanged,
    file_digests,
    load_model,
    load_state,
    save_best,
    save_state,
)
from seqattn.training.film import Frame
from seqattn.training.loop import Run, train
from seqattn.training.objective import mean_squared_error
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    early_stopping,
    learning_rates,
    sample_teacher_forcing,
    teacher_forcing_probability,
)

__all__ = [
    "PATHS",
    "Batch",
    "Frame",
    "GatheredBatch",
    "LoadedModel",
    "ProcessGroup",
    "Run",
    "TrainState",
    "batch_in_order",
    "batch_of",
    "check_data_unchanged",
    "early_stopping",
    "file_digests",
    "learning_rates",
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
