"""Writing and reading checkpoints.

`best.safetensors` holds the weights of the best epoch with config and data spec. `last.safetensors`
holds the whole state of a training, with the best weights, so that one file is consistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from seqattn.config import Config, as_plain
from seqattn.data import DataSpec
from seqattn.errors import CheckpointError, UsageError
from seqattn.models import FeatureSpec, Lengths, Seq2SeqModel, build_model
from seqattn.runs import EpochRecord, RunFolder
from seqattn.training.checkpoint_file import (
    CheckpointFile,
    read_checkpoint,
    without_place,
    write_checkpoint,
)
from seqattn.training.compatibility import (
    check_same_model,
    fill_model,
    optimizer_buffers,
)
from seqattn.training.parameter_history import check_same_shapes, named_parameters
from seqattn.training.state import RunState, Slot


@dataclass(frozen=True)
class LoadedModel:
    """A model read back from a checkpoint.

    Attributes:
        model: on the CPU, ready to forecast.
        config: of the training; `name` is the default, since a model has no folder.
        spec: of its data.
        epoch: of its weights.
        split: (series, part, first step, last step) from its run folder; empty: unknown.
        streamed: whether an earlier version trained it on data.kind: stream, which split the data
            differently.
    """

    model: Seq2SeqModel
    config: Config
    spec: DataSpec
    epoch: int
    split: tuple[tuple[str, ...], ...] = ()
    streamed: bool = False

    @property
    def has_attention(self) -> bool:
        return self.config.model.has_attention


def save_best(path: Path, state: RunState, config: Config, spec: DataSpec) -> None:
    """Write the weights of the best epoch; the bytes are a function of config and seed alone."""
    metadata = {
        "kind": "model",
        "epoch": state.best_epoch,
        "validation_loss": state.best_loss,
    }
    write_checkpoint(path, state.best_weights, config, spec, metadata)


def save_state(
    path: Path,
    state: RunState,
    config: Config,
    spec: DataSpec,
    backup_path: Path | None = None,
) -> None:
    """Write the whole state of a training.

    Args:
        backup_path: new name of the file that was at `path`.
    """
    tensors = {f"model.{k}": v for k, v in state.weights.items()}
    tensors |= {f"best.{k}": v for k, v in state.best_weights.items()}
    for name, buffers in state.buffers.items():
        tensors |= {f"optimizer.{name}.{k}": v for k, v in buffers.items()}
    if state.history:
        rows = [record.as_row() for record in state.history]
        tensors["history"] = torch.tensor(rows, dtype=torch.float64)
    metadata: dict[str, Any] = {
        "kind": "training",
        "epoch": state.epoch,
        "step": state.step,
        "loss_sum": state.loss_sum,
        "points": state.loss_count,
        "seconds": state.seconds,
        "best_epoch": state.best_epoch,
    }
    if state.slot is not None:
        metadata["slot"] = asdict(state.slot)
    write_checkpoint(path, tensors, config, spec, metadata, backup_path)


def load_model(path: Path, *, expected: Config | None = None) -> LoadedModel:
    """Read a model from a best or a last checkpoint.

    Args:
        expected: config of the run folder; None: not compared.

    Raises:
        CheckpointError: missing, corrupt, not written by seqattn, of another model than `expected`,
            or with other shapes than its config.
    """
    file = read_checkpoint(path)
    config = file.config
    if expected is not None:
        check_same_model(file, expected)
    spec = file.spec
    lengths = Lengths(spec.source_length, spec.target_length)
    model = build_model(config.model, FeatureSpec.of(spec), config.seed, lengths)
    fill_model(model, file.weights, path)
    return LoadedModel(model.eval(), config, spec, file.epoch, streamed=file.was_streamed)


def load_model_at_epoch(
    folder: RunFolder, epoch: int, *, expected: Config | None = None
) -> LoadedModel:
    """Load the model of a run as it was after an epoch that `training.record_attention` recorded.

    Args:
        folder: run folder.
        epoch: finished epochs; 0 is before training.
        expected: config of the run folder; None: not compared.

    Raises:
        CheckpointError: a file is missing or corrupt, or is of another model.
        UsageError: the epoch was not recorded.
    """
    trained, path = load_model(folder.best, expected=expected), folder.parameter_history
    if not path.exists():
        raise UsageError(
            f"--epoch {epoch}: {folder.path} has no {path.name}. Train with --set"
            " training.record_attention=1 to record the parameters after every epoch; this does"
            " not change the training."
        )
    arrays = folder.read_parameter_history()
    shapes = {name: tuple(p.shape) for name, p in trained.model.named_parameters()}
    check_same_shapes(path, arrays, shapes)
    epochs = arrays["epochs"].tolist()
    if epoch not in epochs:
        raise UsageError(
            f"--epoch {epoch}: {path} has the parameters of {_epochs_in_words(epochs)}. Give one"
            " of them, or leave out --epoch for the best epoch."
        )
    fill_model(trained.model, named_parameters(arrays, epochs.index(epoch)), path)
    return replace(trained, epoch=epoch)


def _epochs_in_words(epochs: list[int]) -> str:
    if len(epochs) == 1:
        return f"epoch {epochs[0]} only"
    return f"epochs {', '.join(map(str, epochs[:-1]))} and {epochs[-1]}"


def describe_checkpoint(path: Path) -> dict[str, Any]:
    """Metadata and tensors of a checkpoint as plain values.

    Raises:
        CheckpointError: missing, corrupt, or not written by seqattn.
    """
    file = read_checkpoint(path)
    file.check_readable()
    rows = [
        {
            "name": name,
            "shape": list(tensor.shape),
            "type": str(tensor.dtype).removeprefix("torch."),
            "numbers": tensor.numel(),
            "min": float(tensor.min()) if tensor.numel() else 0.0,
            "max": float(tensor.max()) if tensor.numel() else 0.0,
        }
        for name, tensor in sorted(file.tensors.items())
    ]
    metadata = {**file.metadata, "config": without_place(as_plain(file.config))}
    return {"bytes": path.stat().st_size, **metadata, "tensors": rows}


def file_digests(path: Path) -> tuple[str, ...]:
    """SHA-256 of each file that the training read; empty for generated data.

    Raises:
        CheckpointError: missing, corrupt, or not written by seqattn.
    """
    return read_checkpoint(path).spec.digests


def load_state(path: Path, model: Seq2SeqModel) -> RunState:
    """Read the state of a training.

    Args:
        model: of the same config; it gets the weights.

    Raises:
        CheckpointError: see `read_training` and `restore_state`.
    """
    return restore_state(read_training(path), model)


def read_training(path: Path) -> CheckpointFile:
    """Read a checkpoint that a training can continue from; see `restore_state`.

    Raises:
        CheckpointError: missing, corrupt, not written by seqattn, or not of a training.
    """
    file = read_checkpoint(path)
    if not file.is_training:
        raise CheckpointError(f"{path}: holds a model, not a training that could be resumed.")
    _ = file.config  # raises where it cannot be read
    if file.was_streamed:
        raise CheckpointError(
            f"{path}: was trained on data.kind: stream by an earlier version, whose order of"
            " sequences is no longer made. Train it again; predict and evaluate work as before."
        )
    return file


def restore_state(file: CheckpointFile, model: Seq2SeqModel) -> RunState:
    """The state that a checkpoint holds.

    Args:
        model: of the file's config; it gets the weights.

    Raises:
        CheckpointError: shapes differ from those of the model, or the state is incomplete.
    """
    best, weights, metadata = file.below("best."), file.weights, file.metadata
    if best:
        fill_model(model, best, file.path)  # the same checks as for the weights; overwritten below
    fill_model(model, weights, file.path)
    buffers = optimizer_buffers(file, model, file.config.training)
    history = file.tensors.get("history")
    try:
        state = RunState(
            weights={k: v.clone() for k, v in weights.items()},
            buffers=buffers,
            epoch=file.epoch,
            step=int(metadata["step"]),
            loss_sum=float(metadata["loss_sum"]),
            loss_count=int(metadata["points"]),
            seconds=float(metadata["seconds"]),
            history=[] if history is None else [EpochRecord.from_row(r) for r in history.tolist()],
            best_epoch=int(metadata["best_epoch"]),
            best_weights={k: v.clone() for k, v in best.items()},
            slot=_slot_of(metadata),
        )
        if not (len(state.history) == state.epoch >= state.best_epoch >= 0 <= state.step):
            raise ValueError
        if bool(best) != (state.best_epoch > 0):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{file.path}: its state of the training is not whole. Take another checkpoint, or"
            " remove its run folder and train again."
        ) from None
    return state


def _slot_of(metadata: Mapping[str, Any]) -> Slot | None:
    """
    Raises:
        KeyError, TypeError, ValueError: it is not what `save_state` wrote.
    """
    plain = metadata.get("slot")
    if plain is None:
        return None
    slot = Slot(str(plain["group"]), int(plain["row"]), int(plain["rows"]))
    if not 0 <= slot.row < slot.rows:
        raise ValueError("no such row")
    return slot
