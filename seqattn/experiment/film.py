"""The film in a run folder: written with each checkpoint, gone on with after a stop."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data import Sequences
from seqattn.errors import CheckpointError
from seqattn.runs import RunFolder
from seqattn.storage import write_arrays
from seqattn.training import Frame


def write_film(folder: RunFolder, film: Sequence[Frame], validation: Sequences) -> None:
    """Frames as arrays, with the sequences that they are of; cells at padding are NaN."""
    weights = np.stack([frame.weights for frame in film])
    P = weights.shape[1]
    probe = validation.at(slice(0, P))
    T, S = weights.shape[-2:]
    steps = np.arange(T) < probe.target_lengths[:, None]
    points = np.arange(S) < probe.source_lengths[:, None]
    real = (steps[:, :, None] & points[:, None, :])[None, :, None, None]
    arrays: dict[str, NDArray[Any]] = {
        "weights": np.where(real, weights, np.nan).astype(np.float32),
        "axes": np.array(["frame", "sequence", "layer", "head", "target_step", "source_step"]),
        "epochs": np.array([frame.epoch for frame in film]),
        "meaning": np.array(film[0].meaning),
        "ids": np.array(list(probe.ids)),
        "labels": np.array(list(probe.labels), dtype=np.str_),
        "source_lengths": probe.source_lengths,
        "target_lengths": probe.target_lengths,
        **({} if probe.alignment is None else {"alignment": probe.alignment}),
    }
    write_arrays(folder.film, arrays)


def read_film(folder: RunFolder, epoch: int) -> list[Frame]:
    """The frames up to an epoch; none where there is no film, or none that can be read."""
    with contextlib.suppress(CheckpointError):
        arrays = folder.read_film()
        weights = np.nan_to_num(arrays["weights"], nan=0.0)
        return [
            Frame(int(at), frame, str(arrays["meaning"]))
            for at, frame in zip(arrays["epochs"], weights, strict=True)
            if at <= epoch
        ]
    return []
