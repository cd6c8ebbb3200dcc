"""Train configs into run folders: one, seeds, comparisons, searches, on one machine or many."""

from seqattn.experiments.job import Callbacks, Job, Launch
from seqattn.experiments.prepare import groups_of
from seqattn.experiments.run_environment import choose_device
from seqattn.experiments.seeds import begin_seeds, combined_error, seeds_of
from seqattn.experiments.train_runs import train_many, train_one
from seqattn.experiments.worker import follow

__all__ = [
    "Callbacks",
    "Job",
    "Launch",
    "begin_seeds",
    "choose_device",
    "combined_error",
    "follow",
    "groups_of",
    "seeds_of",
    "train_many",
    "train_one",
]
