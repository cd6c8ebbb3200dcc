"""Functions that write and read checkpoints, and check whether a checkpoint fits a config, the data
and a model.

`best.safetensors` contains the weights of the best epoch, the config and the data spec.
`last.safetensors` contains the training state, including the best weights, so training can resume
from this file alone. The attention history and the parameter history have their own files.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.config import PATH_KEYS, Config, Logging, OwnFile, config_differences
from seqattn.data import DataSpec
from seqattn.errors import CheckpointError, DataError, UsageError, counted
from seqattn.models import FeatureSpec, Lengths, Seq2SeqModel, build_model
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.checkpoint_file import CheckpointFile, read_checkpoint, write_checkpoint
from seqattn.training.histories import check_same_shapes, named_parameters
from seqattn.training.optimization import buffer_names, counts_updates
from seqattn.training.state import RunState, Slot

NOT_OF_THE_MODEL = (*PATH_KEYS, "model.skip_map", "data.units")
"""Keys that may differ between a run folder and its checkpoints, because they do not change the
meaning of the weights."""
LOGGING_KEYS = tuple(f"logging.{key}" for key in Logging.model_fields)
MUTABLE_ON_RESUME = (
    "name", "data.units", "training.epochs", "training.checkpoint_seconds",
    "training.record_attention", "plugins", *LOGGING_KEYS, *PATH_KEYS,
)  # fmt: skip
"""Keys that may change between a stop and a resume, because finished epochs do not depend on them.

The exception is `training.epochs` with a schedule that spans all epochs. A resume then rejects a
change of this key.
"""


def check_data_unchanged(now: Sequence[str], before: Sequence[str], since: str) -> None:
    """Check that the data files have not changed since training began.

    Args:
        now: current SHA-256 digest of the files for each path in the config.
        before: SHA-256 digest of the files for each path when training began.
        since: end of the sentence "what data.path names has changed ...".

    Raises:
        DataError: if the files have changed.
    """
    if tuple(now) == tuple(before):
        return
    if len(now) != len(before):
        raise DataError(
            f"the data were {counted(len(before), 'file')} during training, and are {len(now)}."
        )
    changed = [name for name, a, b in zip(PATH_KEYS, now, before, strict=False) if a != b]
    raise DataError(
        f"what {changed[0]} names has changed {since}: its SHA-256 is different. Restore the"
        " old data, or train again; --input evaluates other sequences."
    )


def check_same_model(file: CheckpointFile, expected: Config) -> None:
    """Check that a checkpoint has the model and data of a config.

    Raises:
        CheckpointError: if the checkpoint has another model or other data.
    """
    found = {
        key: values
        for key, values in config_differences(expected, file.config).items()
        if key.startswith(("model.", "data.")) and key not in NOT_OF_THE_MODEL
    }
    if found:
        lines = [f"  {k}: config.yaml has {a}, checkpoint has {b}" for k, (a, b) in found.items()]
        first = f"{file.path}: contains a model that differs from the config of its folder:"
        raise CheckpointError("\n".join([first, *lines]))


def fill_model(model: Seq2SeqModel, weights: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model after checking every name, shape and data type.

    Raises:
        CheckpointError: if a name, a shape or a data type differs.
    """
    wanted = model.state_dict()
    missing, foreign = sorted(wanted.keys() - weights), sorted(weights.keys() - wanted)
    if missing or foreign:
        parts = list[str]()
        if missing:
            parts.append(f"lacks {', '.join(missing)}")
        if foreign:
            parts.append(f"has {', '.join(foreign)}, which the model does not have")
        raise CheckpointError(f"{path}: does not fit its config: it {' and '.join(parts)}.")
    for name, tensor in weights.items():
        if tensor.shape != wanted[name].shape or tensor.dtype != wanted[name].dtype:
            raise _other_shape(path, name, tensor, wanted[name])
    model.load_state_dict(dict(weights))


def optimizer_buffers(file: CheckpointFile, model: Seq2SeqModel) -> dict[str, dict[str, Tensor]]:
    """Return the buffers of the optimizer by parameter name and buffer name.

    Raises:
        CheckpointError: if names or shapes do not fit the optimizer in the config, or if the
            buffers of a parameter are missing.
    """
    config, buffers = file.config.training, dict[str, dict[str, Tensor]]()
    wanted = {*buffer_names(config), *(["step"] if counts_updates(config) else [])}
    missing = list[str]()
    for name, parameter in model.named_parameters():
        found = as_tensors(file.below(f"optimizer.{name}."))
        for key, tensor in found.items():
            if key != "step" and tensor.shape != parameter.shape:
                raise _other_shape(file.path, f"optimizer.{name}.{key}", tensor, parameter)
        if not found:
            missing.append(name)
        elif found.keys() == wanted:
            buffers[name] = found
        else:
            raise CheckpointError(
                f"{file.path}: of {name} it has {', '.join(sorted(found))}, but"
                f" {config.optimizer} keeps {', '.join(sorted(wanted)) or 'nothing'}."
            )
    if missing and buffer_names(config) and (buffers or file.position != (0, 0)):
        raise CheckpointError(f"{file.path}: has no optimizer buffers for {', '.join(missing)}.")
    return buffers


def _other_shape(path: Path, name: str, found: Tensor, wanted: Tensor) -> CheckpointError:
    def words(tensor: Tensor) -> str:
        return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

    return CheckpointError(
        f"{path}: {name} is {words(found)}, but the config requires {words(wanted)}."
    )


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read from a checkpoint.

    Attributes:
        model: the model on the CPU, in evaluation mode.
        config: config of the run. The key `name` has its default value, because a checkpoint does
            not contain the name.
        spec: spec of the data.
        epoch: number of epochs that the weights were trained for.
    """

    model: Seq2SeqModel
    config: Config
    spec: DataSpec
    epoch: int

    @property
    def has_attention(self) -> bool:
        return self.config.model.has_attention

    @property
    def fills_missing(self) -> bool:
        """Whether empty source cells are filled: `data.missing: interpolate`."""
        data = self.config.data
        return isinstance(data, OwnFile) and data.missing == "interpolate"


def save_best(path: Path, state: RunState, config: Config, spec: DataSpec) -> None:
    """Write the weights of the best epoch.

    The bytes of the file depend on the config, the seed and the data, and on everything that
    changes rounding: the device, the version of torch, the number of threads or processes, and the
    group of the run.
    """
    metadata = {
        "kind": "model",
        "epoch": state.best_epoch,
        "validation_loss": state.best_loss,
    }
    write_checkpoint(path, as_arrays(state.best_weights), config, spec, metadata)


def save_state(
    path: Path,
    state: RunState,
    config: Config,
    spec: DataSpec,
    backup_path: Path | None = None,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write the state of a run, without its attention history and its parameter history.

    Args:
        backup_path: new path of an existing file at `path`; None to replace that file.
        counts: numbers of threads and processes by the keys `threads` and `processes` of
            `environment.json`; None if they are unknown.
    """
    tensors = {f"model.{k}": v for k, v in state.weights.items()}
    tensors |= {f"best.{k}": v for k, v in state.best_weights.items()}
    for name, buffers in state.buffers.items():
        tensors |= {f"optimizer.{name}.{k}": v for k, v in buffers.items()}
    arrays = as_arrays(tensors)
    if state.history:
        arrays["history"] = np.array([record.as_row() for record in state.history], dtype=float)
    metadata: dict[str, Any] = {
        "kind": "training",
        "epoch": state.epoch,
        "step": state.step,
        "loss_sum": state.loss_sum,
        "points": state.loss_count,
        "seconds": state.seconds,
        "best_epoch": state.best_epoch,
        "environment": {**_device_and_version(state), **(counts or {})},
    }
    if state.slot is not None:
        slot = state.slot
        metadata["slot"] = {"group": slot.group_id, "row": slot.row, "rows": slot.group_size}
    write_checkpoint(path, arrays, config, spec, metadata, backup_path)


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return tensors as NumPy arrays, which share the memory of tensors on the CPU."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return arrays as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _device_and_version(state: RunState) -> dict[str, Any]:
    """Return the device and the torch version of a state, with the keys of `environment.json`."""
    device = next((tensor.device for tensor in state.weights.values()), torch.device("cpu"))
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {"device": device.type, "gpu": gpu, "packages": {"torch": _torch_version()}}


@functools.cache
def _torch_version() -> str:
    return version("torch")


def load_model(path: Path, *, expected: Config | None = None) -> LoadedModel:
    """Read a model from a best or a last checkpoint.

    Args:
        expected: config of the run folder, which is compared with the config of the checkpoint;
            None to skip the comparison.
    """
    file = read_checkpoint(path)
    config = file.config
    if expected is not None:
        check_same_model(file, expected)
    spec = file.spec
    lengths = Lengths(spec.source_length, spec.target_length)
    model = build_model(config.model, FeatureSpec.of(spec), config.seed, lengths)
    fill_model(model, as_tensors(file.weights), path)
    return LoadedModel(model, config, spec, file.epoch)


def load_model_at_epoch(
    folder: RunFolder, epoch: int, *, expected: Config | None = None
) -> LoadedModel:
    """Load the model of a run as it was after an epoch in the parameter history of the run.

    Args:
        epoch: number of finished epochs; 0 for the model before training.

    Raises:
        UsageError: if the epoch was not recorded.
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
        known = f"epoch {epochs[0]} only"
        if len(epochs) > 1:
            known = f"epochs {', '.join(map(str, epochs[:-1]))} and {epochs[-1]}"
        raise UsageError(
            f"--epoch {epoch}: {path} has the parameters of {known}. Give one of them, or leave out"
            " --epoch for the best epoch."
        )
    fill_model(trained.model, named_parameters(arrays, epochs.index(epoch)), path)
    return replace(trained, epoch=epoch)


def file_digests(path: Path) -> tuple[str, ...]:
    """Return the SHA-256 digests of the data files that the model of a checkpoint was trained on,
    one for each path in the config. For generated data, the result is empty."""
    return read_checkpoint(path).spec.digests


def load_state(path: Path, model: Seq2SeqModel) -> RunState:
    """Read the state of a run.

    Args:
        model: a model of the same config, which receives the weights.
    """
    return restore_state(read_training(path), model)


def read_training(path: Path) -> CheckpointFile:
    """Read a checkpoint from which training can continue. `restore_state` builds the state of the
    run from the result.

    Raises:
        CheckpointError: if the file cannot be read (see `read_checkpoint`), or if it contains no
            training state.
    """
    file = read_checkpoint(path)
    if not file.is_training:
        raise CheckpointError(
            f"{path}: contains a model without a training state, so training cannot be resumed."
        )
    _ = file.config  # raises if the config cannot be read
    return file


def restore_state(file: CheckpointFile, model: Seq2SeqModel) -> RunState:
    """Build the state of a run from a checkpoint, and copy its weights into a model.

    Args:
        model: a model of the config in the file, which receives the weights.

    Raises:
        CheckpointError: if the tensors do not fit the model, or if the state is incomplete.
    """
    best, weights = as_tensors(file.below("best.")), as_tensors(file.weights)
    metadata, slot = file.metadata, file.metadata.get("slot")
    if best:
        fill_model(model, best, file.path)  # this only checks the best weights
    fill_model(model, weights, file.path)
    buffers = optimizer_buffers(file, model)
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
            slot=None
            if slot is None
            else Slot(str(slot["group"]), int(slot["row"]), int(slot["rows"])),
            environment=dict(metadata.get("environment", {})),
        )
        if not (len(state.history) == state.epoch >= state.best_epoch >= 0 <= state.step):
            raise ValueError
        if bool(best) != (state.best_epoch > 0):
            raise ValueError
        if state.slot is not None and not 0 <= state.slot.row < state.slot.group_size:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{file.path}: its training state is incomplete. Use another checkpoint, or remove"
            " its run folder and train again."
        ) from None
    return state
