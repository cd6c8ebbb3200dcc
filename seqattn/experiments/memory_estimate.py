"""Memory and disk space that runs will take, estimated before any is taken.

The rules were held against measured peaks (`tests/walks/test_memory.py`); those of a training step
stay on the safe side. Numbers are float32, of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.analysis.evaluation.attention_file import MAX_MEMORY_BYTES
from seqattn.analysis.evaluation.forecasts import sequences_per_chunk
from seqattn.config import Config, Generated
from seqattn.data import Sequences, Splits, fixed_shape
from seqattn.errors import UsageError
from seqattn.experiments.job import Job
from seqattn.models import Lengths, count_parameters
from seqattn.models.memory import activations_per_sequence, attention_weights_per_sequence
from seqattn.runs.storage import physical_memory
from seqattn.training.batches import MAX_RESIDENT, is_gathered
from seqattn.training.parameter_history import history_bytes
from seqattn.training.validation import validation_chunk_size

NAME_BYTES = 150
"""Bytes of a sequence's id and label."""
COPIES_OF_PARAMETERS = 24
"""Optimizer 5, best and snapshot 5, evaluation 1, a checkpoint that is being written 13."""
COPIES_OF_CHUNK = 6
"""Copies of the attention weights of test sequences that are forecast together."""


def memory_budget() -> int:
    """Bytes that runs side by side may take together: a quarter of the memory, 1 GiB at most."""
    return min(physical_memory() // 4, 2**30)


def estimate_run_memory(job: Job) -> int:
    """Bytes that one run among many takes, without its evaluation, which follows run by run.

    Parameters eight times (gradient, moments, best epoch, a snapshot), the sequences in the epoch's
    order, and the activations of a batch, or of the validation sequences that are scored together
    where these are more: the two follow each other, and without a backward pass fewer are kept.
    The parameter history is added, if it is recorded.
    """
    train = job.data.train
    S, T, F = train.source_steps, train.target_steps, len(train.features)
    N = _resident_sequences(train, (S + T) * F)
    batch = job.config.training.batch_size
    sequences = max(batch, min(len(job.data.validation), validation_chunk_size(S + T, batch)))
    kept = activations_per_sequence(job.config.model, S, T, alone=False)
    numbers = int(8 * job.parameters + 2 * N * (S + T) * F + sequences * kept)
    return 4 * numbers + _history_bytes(job)


def estimate_training_memory(
    config: Config, S: int, T: int, counts: tuple[int, int, int], features: int = 2
) -> dict[str, int]:
    """Bytes that a training by itself takes beyond the libraries: purpose -> bytes.

    The sequences; the parameters with their copies; and the larger of the activations of a batch
    and, after the training, the attention weights of test sequences, most of which wait on disk.

    Args:
        S, T: lengths of the longest source and the longest target.
        counts: training, validation and test sequences in memory.
        features: of a point.
    """
    model = config.model
    train, _, test = counts
    batch = min(config.training.batch_size, max(train, 1))
    per_sequence = attention_weights_per_sequence(model, S, T)
    chunk = min(test, sequences_per_chunk(S + T))
    weights = (
        min(4 * test * per_sequence, MAX_MEMORY_BYTES) + 4 * COPIES_OF_CHUNK * chunk * per_sequence
    )
    phases = {
        "a step": 4 * batch * activations_per_sequence(model, S, T),
        "the attention in the test sequences": weights,
    }
    largest = max(phases, key=lambda phase: phases[phase])
    return {
        "the sequences": sum(counts) * _bytes_per_sequence(S, T, features),
        "the parameters": 4
        * COPIES_OF_PARAMETERS
        * count_parameters(model, features, Lengths(S, T)),
        largest: phases[largest],
    }


def checkpoint_bytes(job: Job) -> int:
    """Disk space of two checkpoints of a run, and of a third while it is written: weights, the best
    epoch's, two moments, and the losses; and of the parameter history twice."""
    checkpoint = 4 * 4 * job.parameters + 8 * 8 * job.config.training.epochs + 65_536
    return 3 * checkpoint + 2 * _history_bytes(job)


def _history_bytes(job: Job) -> int:
    training = job.config.training
    return history_bytes(training.record_attention, training.epochs, job.parameters)


def check_memory(config: Config, data: Splits | None = None) -> None:
    """Check that one training fits into the machine's memory.

    Args:
        data: sequences that were read; None: those that the config counts. A file's sequences are
            not counted before they are read, so that without them nothing is checked.

    Raises:
        UsageError: it would need more, with the estimate.
    """
    if data is not None:
        parts = data.train, data.validation, data.test
        S, T = max(part.source_steps for part in parts), max(part.target_steps for part in parts)
        features = max(len(data.train.features), len(data.train.target_features))
        train, validation, test = (_resident_sequences(part, (S + T) * features) for part in parts)
        needed = estimate_training_memory(config, S, T, (train, validation, test), features)
    elif isinstance(config.data, Generated) and (shape := fixed_shape(config.data)) is not None:
        needed = estimate_training_memory(config, *shape, generated_counts(config.data))
    else:
        return
    memory = physical_memory()
    if sum(needed.values()) > memory:
        shown = ", ".join(f"{size / 2**30:.1f} GiB for {what}" for what, size in needed.items())
        raise UsageError(
            f"this config would take about {sum(needed.values()) / 2**30:.1f} GiB ({shown}), and"
            f" the machine has {memory / 2**30:.1f} GiB. Nothing was begun."
        )


def check_memory_of_runs(configs: Sequence[Config]) -> None:
    """Check that each training fits into memory, and that all their generated data do together.

    Raises:
        UsageError: they would need more, with the estimate.
    """
    # Seeds share one size.
    for config in {repr((c.data, c.model, c.training.batch_size)): c for c in configs}.values():
        check_memory(config)
    _check_data_fits(configs)


def _check_data_fits(configs: Sequence[Config]) -> None:
    different = {repr(config.data): config.data for config in configs}.values()
    needed = 0
    for data in different:
        if isinstance(data, Generated) and (shape := fixed_shape(data)) is not None:
            needed += sum(generated_counts(data)) * _bytes_per_sequence(*shape)
    memory = physical_memory()
    if needed > memory:
        raise UsageError(
            f"the {len(different)} data sets of these runs would take about {needed / 2**30:.1f}"
            f" GiB, and the machine has {memory / 2**30:.1f} GiB. Nothing was begun. Give fewer"
            " --seeds, or hold the data fixed: compare --fixed-data."
        )


def generated_counts(data: Generated) -> tuple[int, int, int]:
    """The numbers of training, validation and test sequences of a config of generated data."""
    return data.n_train, data.n_validation, data.n_test


def _bytes_per_sequence(S: int, T: int, features: int = 2) -> int:
    """Of a sequence in NumPy, as a tensor and in an epoch's order, with its names."""
    return (S + T) * features * (2 * 8 + 2 * 4) + NAME_BYTES


def _resident_sequences(part: Sequences, numbers: int) -> int:
    """How many sequences of a part are in memory as tensors.

    Args:
        numbers: of one sequence.
    """
    return min(len(part), max(1, MAX_RESIDENT // numbers)) if is_gathered(part) else len(part)
