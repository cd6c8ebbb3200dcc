"""The training sequences of a group in shuffled batches.

In shapes, N is the number of sequences, n is the number of sequences in a batch, S is the source
length, T is the target length, and R is the number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seqattn.rng import rngs_for
from seqattn.training.batches import Batch, GatheredBatch, chunk_slices, stack_batches
from seqattn.training.process_group import ProcessGroup, shard_of

MAX_SHUFFLED_COPY = 2**26
"""Largest number of values in the shuffled copy that an epoch keeps in memory. In float32, such a
copy needs 256 MB."""


class DataLoader:
    """A loader that returns the training sequences of a group batch by batch.

    Args:
        parts: training part of each run. Several runs may share one part.
        size: number of sequences in a batch.
        processes: the processes that share every batch; None if this process is alone.

    Attributes:
        sequences: the sequences of all runs.
        n: number of training sequences of each run.
        S, T: lengths of the longest source and of the longest target.
        batches: for each batch, its slice of the shuffled sequences.
        shards: for each batch, the share of this process.
        own_places: for each batch, the slice of this process's share in the shuffled sequences.
    """

    def __init__(
        self, parts: Sequence[Batch | GatheredBatch], size: int, processes: ProcessGroup | None
    ) -> None:
        self.sequences = stack_batches(parts)
        self.n = len(self.sequences)
        self.S, self.T = self.sequences.source_steps, self.sequences.target_steps
        self.batches = list(chunk_slices(self.n, size))
        self.shards = [shard_of(processes, batch.stop - batch.start) for batch in self.batches]
        self.own_places = [
            slice(batch.start + shard.places.start, batch.start + shard.places.stop)
            for batch, shard in zip(self.batches, self.shards, strict=True)
        ]

    def shuffled(self, seeds: Sequence[int], epoch: int) -> Callable[[int], Batch]:
        """Shuffle the sequences of each run for an epoch. The order depends only on the seed of the
        run and on the epoch.

        Returns:
            A function that takes the number of a step, and returns this process's share of the
            batch of this step.
        """
        permutations = epoch_permutations(seeds, epoch, self.n)
        order = permutations[0] if len(permutations) == 1 else np.stack(permutations)
        return shuffled_batches(self.sequences, order, self.own_places)

    def ids_of_batch(
        self, step: int, seed: int, epoch: int, sequence_ids: Sequence[str]
    ) -> list[str]:
        """Return the ids of the sequences in a batch of one run, in the order of the batch. If
        `sequence_ids` is empty, the indices of the sequences take the place of the ids."""
        order = epoch_permutations([seed], epoch, self.n)[0][self.batches[step]]
        return [sequence_ids[place] if len(sequence_ids) else str(place) for place in order]

    def example_batch(self) -> Batch:
        """Return a batch on which a compiled step is tried."""
        return self.sequences.take(self.batches[0])


def epoch_permutations(seeds: Iterable[int], epoch: int, sequences: int) -> list[NDArray[np.int64]]:
    """Return, for each seed, the order in which an epoch visits the sequences."""
    keys = ((seed, epoch) for seed in seeds)
    return [generator.permutation(sequences) for generator in rngs_for(keys, "shuffle")]


def shuffled_batches(
    sequences: Batch | GatheredBatch, order: NDArray[np.int64], batches: Sequence[slice]
) -> Callable[[int], Batch]:
    """Return a function that maps the number of a batch to its tensors, (n, ...) or (R, n, ...).

    If the sequences are in a `Batch`, and a copy of them has at most `MAX_SHUFFLED_COPY` values,
    they are gathered at once, which is fastest. Otherwise, the returned function gathers each batch
    separately.

    Args:
        sequences: sequences that all runs share, or sequences with a leading axis of runs.
        order: (N,) or (R, N) indices of the sequences, in the order in which a run visits them.
        batches: for each batch, its slice of the sequences in this order.
    """
    sizes = [batch.stop - batch.start for batch in batches]
    places = torch.from_numpy(np.concatenate([order[..., batch] for batch in batches], axis=-1))
    if isinstance(sequences, Batch):
        places = places.to(sequences.source.device)
        sources, targets = sequences.source[..., :1, :, :], sequences.target[..., :1, :, :]
        if places.shape[-1] * (sources.numel() + targets.numel()) <= MAX_SHUFFLED_COPY:
            return sequences.gather(places).split(sizes).__getitem__
    by_batch = places.split(sizes, dim=-1)
    return lambda step: sequences.gather(by_batch[step])
