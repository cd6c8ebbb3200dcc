"""Experiment trackers: TensorBoard, MLflow and Weights & Biases.

A run works without trackers, because its folder contains everything that a tracker receives. Once
training has begun, an error of a tracker therefore never ends training; `RunTrackers` describes
what happens instead.
"""

from seqattn.experiments.trackers.interface import Status, TrackedRun, Tracker
from seqattn.experiments.trackers.run_trackers import (
    RunTrackers,
    TrackersOfRuns,
    check_trackers,
    end_trackers,
    without_trackers,
)

__all__ = [
    "RunTrackers",
    "Status",
    "TrackedRun",
    "Tracker",
    "TrackersOfRuns",
    "check_trackers",
    "end_trackers",
    "without_trackers",
]
