"""Estimates of the memory of runs, made before the runs start.

`tests/walks/test_memory.py` compares the memory estimates with measured peaks. Parameters,
activations and attention weights are float32 numbers of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.analysis.evaluation.attention_file import MAX_MEMORY_BYTES
from seqattn.analysis.evaluation.forecasts import sequences_per_chunk
from seqattn.config import Config, Generated
from seqattn.data import Sequences, Splits, fixed_shape
from seqattn.errors import UsageError, unequal_numbers
from seqattn.experiments.job import Job
from seqattn.models import (
    Lengths,
    activations_per_sequence,
    attention_weights_per_sequence,
    count_parameters,
)
from seqattn.runs.storage import physical_memory
from seqattn.training.batches import MAX_RESIDENT, is_gathered
from seqattn.training.histories import history_bytes
from seqattn.training.objective import validation_chunk_size

NAME_BYTES = 150
"""Estimated number of bytes of the id and the label of a sequence."""
COPIES_OF_PARAMETERS = 24
"""Number of copies of the parameters: 5 in the optimizer, 5 in the best weights and the snapshot, 1
in the evaluation, and 13 while a checkpoint is written."""
COPIES_OF_CHUNK = 6
"""Number of copies of the attention weights that a chunk of test sequences needs."""


def memory_budget() -> int:
    """Return how many bytes a group of runs may use: a quarter of the memory of the machine, but at
    most 512 MiB. Larger groups would not train faster, because their arrays would not fit into the
    cache. Division into fewer, larger groups could also leave cores without work."""
    return min(physical_memory() // 4, 2**29)


def estimate_run_memory(job: Job) -> int:
    """Estimate how many bytes of memory one run of a group uses, without the evaluation of the run.

    Runs are evaluated one after another, so the memory of the evaluation does not grow with the
    number of runs. A run uses memory for eight copies of its parameters (such as the gradient, the
    moments, the best epoch and a snapshot), two copies of its training sequences, its parameter
    history, and activations. Training and validation do not overlap, so the estimate counts the
    activations of a training batch or of a chunk of validation sequences, whichever has more
    sequences.
    """
    train = job.data.train
    S, T, F = train.source_steps, train.target_steps, len(train.features)
    N = _resident_sequences(train, (S + T) * F)
    batch = job.config.training.sequences_per_batch(max(S, T))
    sequences = max(batch, min(len(job.data.validation), validation_chunk_size(S + T, batch)))
    kept = activations_per_sequence(job.config.model, S, T, alone=False)
    numbers = int(8 * job.parameters + 2 * N * (S + T) * F + sequences * kept)
    training = job.config.training
    return 4 * numbers + history_bytes(training.record_attention, training.epochs, job.parameters)


def estimate_training_memory(
    config: Config, S: int, T: int, counts: tuple[int, int, int], features: int = 2
) -> dict[str, int]:
    """Estimate how many bytes of memory the training of a single run uses in addition to the
    libraries.

    The estimate is the sum of the sequences, the parameters with their copies, and the larger of
    two numbers: the activations of a batch during training, and the attention weights of the test
    sequences after training. For these attention weights, the estimate counts the copies of one
    chunk, and at most `MAX_MEMORY_BYTES` for all chunks, because larger weights are moved to a
    file.

    Args:
        counts: numbers of training, validation and test sequences in memory.

    Returns:
        The number of bytes by purpose. The keys are phrases for a message, such as
        "the parameters".
    """
    model = config.model
    train, _, test = counts
    batch = min(config.training.sequences_per_batch(max(S, T)), max(train, 1))
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


def check_memory(config: Config, data: Splits | None = None) -> None:
    """Check that the training of one run fits into the memory of the machine.

    Args:
        data: the sequences, or None if they are not loaded yet. With None, the check uses the
            numbers and lengths of sequences that the config sets. If the config does not set these
            values, as with a data file, nothing is checked.

    Raises:
        UsageError: if training needs more memory than the machine has; the message contains the
            estimate.
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
        total, there = unequal_numbers(sum(needed.values()) / 2**30, memory / 2**30)
        raise UsageError(
            f"this config would need about {total} GiB ({shown}), but the machine has {there} GiB."
            " Training was not started."
        )


def check_memory_of_runs(configs: Sequence[Config]) -> None:
    """Check that the training of each run fits into memory, and that the generated data of all runs
    fit into memory together. Data whose size is not in the config are not checked."""
    # Configs that differ only in their seeds have the same size.
    seeds = dict.fromkeys(("train_seed", "validation_seed", "test_seed"), 0)
    sizes = {
        repr((
            config.data.model_copy(update=seeds) if isinstance(config.data, Generated)
            else config.data,
            config.model, config.training.batch_size, config.training.batch_type,
        )): config
        for config in configs
    }  # fmt: skip
    for config in sizes.values():
        check_memory(config)
    sections = {repr(config.data): config.data for config in configs}.values()
    needed = 0
    for section in sections:
        if isinstance(section, Generated) and (shape := fixed_shape(section)) is not None:
            needed += sum(generated_counts(section)) * _bytes_per_sequence(*shape)
    memory = physical_memory()
    if needed > memory:
        total, there = unequal_numbers(needed / 2**30, memory / 2**30)
        raise UsageError(
            f"the {len(sections)} data sets of these runs would need about {total} GiB, and the"
            f" machine has {there} GiB. Training was not started. Give"
            " fewer --seeds, or use the same data for all seeds: compare --fixed-data."
        )


def generated_counts(section: Generated) -> tuple[int, int, int]:
    """Return the numbers of training, validation and test sequences of generated data."""
    return section.n_train, section.n_validation, section.n_test


def _bytes_per_sequence(S: int, T: int, features: int = 2) -> int:
    """Return the number of bytes of a sequence: its arrays, its tensors, the copies of its tensors
    in the shuffled order of an epoch, and its names."""
    return (S + T) * features * (2 * 8 + 2 * 4) + NAME_BYTES


def _resident_sequences(part: Sequences, numbers: int) -> int:
    """Return how many sequences of a part are in memory as tensors."""
    return min(len(part), max(1, MAX_RESIDENT // numbers)) if is_gathered(part) else len(part)
