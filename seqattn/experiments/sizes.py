"""What a run will take of memory and disk, asked before any is taken."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.config import (
    Config,
    Generated,
)
from seqattn.data import Sequences, Splits, fixed_shape
from seqattn.errors import (
    UsageError,
)
from seqattn.experiments.job import Job
from seqattn.runs.storage import (
    physical_memory,
)
from seqattn.training.batches import MOST_RESIDENT, is_gathered
from seqattn.training.memory import activations_per_sequence, bytes_needed, bytes_of_sequences
from seqattn.training.validation import sequences_together


def memory_budget() -> int:
    """What runs side by side may take together: a quarter of the memory, 1 GiB at most."""
    return min(physical_memory() // 4, 2**30)


def estimate_run_memory(job: Job) -> int:
    """An estimate, on the safe side, of what one run among many takes in memory.

    Parameters eight times (gradient, moments, best epoch, a position to go back to), the sequences
    in the epoch's order, and what the model keeps of each sequence of a batch, or of the validation
    sequences that are scored together where these are more. The two follow each other, and without
    a backward pass less is kept of a sequence (`tests/walks/test_memory.py` measures both).
    """
    train = job.data.train
    S, T, F = train.source_steps, train.target_steps, len(train.features)
    N = _resident(train, (S + T) * F)
    batch = job.config.training.batch_size
    sequences = max(batch, min(len(job.data.validation), sequences_together(S + T, batch)))
    kept = activations_per_sequence(job.config.model, S, T, alone=False)
    return 4 * int(8 * job.parameters + 2 * N * (S + T) * F + sequences * kept)


def bytes_of_checkpoints(job: Job) -> int:
    """What two checkpoints of a run take on the disk, and a third while it is written: weights, the
    best epoch's, two averages of gradients, and the history."""
    return 3 * (4 * 4 * job.parameters + 8 * 8 * job.config.training.epochs + 65_536)


def check_memory(config: Config, data: Splits | None = None) -> None:
    """Hold the memory that a config would need against what there is, before training takes any.

    Args:
        data: sequences that were read; None: those that the config counts, if it does.

    Raises:
        UsageError: it would need more, with the estimate.
    """
    if data is not None:
        parts = data.train, data.validation, data.test
        S, T = max(part.source_steps for part in parts), max(part.target_steps for part in parts)
        features = max(len(data.train.features), len(data.train.target_features))
        train, validation, test = (_resident(part, (S + T) * features) for part in parts)
        counts = train, validation, test
        needed = bytes_needed(config, S, T, counts, features)
    elif (shape := fixed_shape(config.data)) is not None:
        needed = bytes_needed(config, *shape)
    else:  # a file, whose sizes are not known yet
        return
    memory = physical_memory()
    if sum(needed.values()) > memory:
        shown = ", ".join(f"{size / 2**30:.1f} GiB for {what}" for what, size in needed.items())
        raise UsageError(
            f"this config would take about {sum(needed.values()) / 2**30:.1f} GiB ({shown}), and"
            f" the machine has {memory / 2**30:.1f} GiB. Nothing was begun."
        )


def check_data_fits(configs: Sequence[Config]) -> None:
    """Hold the memory of all different data of many runs against what there is.

    Raises:
        UsageError: they would need more, with the estimate.
    """
    different = {repr(config.data): config.data for config in configs}.values()
    needed = 0
    for data in different:
        shape = fixed_shape(data)
        if isinstance(data, Generated) and shape is not None:
            n = data.n_train + data.n_validation + data.n_test
            needed += bytes_of_sequences(n, *shape)
    memory = physical_memory()
    if needed > memory:
        raise UsageError(
            f"the {len(different)} data sets of these runs would take about {needed / 2**30:.1f}"
            f" GiB, and the machine has {memory / 2**30:.1f} GiB. Nothing was begun. Give fewer"
            " --seeds, or hold the data fixed: compare --fixed-data."
        )


def _resident(part: Sequences, numbers: int) -> int:
    """Sequences of a part that are in memory as tensors.

    Args:
        numbers: of one.
    """
    return min(len(part), max(1, MOST_RESIDENT // numbers)) if is_gathered(part) else len(part)
