"""Training of single runs, several seeds, comparisons and searches, on one or more machines."""

from seqattn.experiments.distributed import run_worker
from seqattn.experiments.grouping import groups_to_train
from seqattn.experiments.job import Callbacks, Job, Launch
from seqattn.experiments.run_environment import choose_device
from seqattn.experiments.train_runs import (
    combined_error,
    create_seed_folders,
    seeds_of,
    train_many,
    train_one,
)

__all__ = [
    "Callbacks",
    "Job",
    "Launch",
    "choose_device",
    "combined_error",
    "create_seed_folders",
    "groups_to_train",
    "run_worker",
    "seeds_of",
    "train_many",
    "train_one",
]
