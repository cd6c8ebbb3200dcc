"""How a model learns: the loop, its schedules, and the state that a checkpoint keeps."""

from seqattn.training.batches import Batch, GatheredBatch, batch_in_order, batch_of, to_tensors
from seqattn.training.checkpoints import (
    PATHS,
    Layout,
    Trained,
    TrainingState,
    file_digests,
    load_model,
    load_state,
    refuse_other_files,
    save_best,
    save_state,
)
from seqattn.training.film import Frame
from seqattn.training.loop import Run, train
from seqattn.training.objective import mean_squared_error
from seqattn.training.schedules import (
    early_stopping,
    learning_rates,
    teacher_forcing_probability,
    toss,
)
from seqattn.training.world import World

__all__ = [
    "PATHS",
    "Batch",
    "Frame",
    "GatheredBatch",
    "Layout",
    "Run",
    "Trained",
    "TrainingState",
    "World",
    "batch_in_order",
    "batch_of",
    "early_stopping",
    "file_digests",
    "learning_rates",
    "load_model",
    "load_state",
    "mean_squared_error",
    "refuse_other_files",
    "save_best",
    "save_state",
    "teacher_forcing_probability",
    "to_tensors",
    "toss",
    "train",
]
