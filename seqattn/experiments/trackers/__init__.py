"""Experiment trackers: TensorBoard, MLflow and Weights & Biases.

The run folder contains everything that a tracker receives, so a run does not depend on its
trackers. Once training has begun, an error of a tracker therefore never ends training.
`RunTrackers` describes what happens instead.
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
