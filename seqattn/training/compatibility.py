"""Functions that check whether a checkpoint fits a config, the data and a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from seqattn.config import PATH_KEYS, Config, Logging, config_differences
from seqattn.errors import CheckpointError, DataError, counted
from seqattn.models import Seq2SeqModel
from seqattn.runs.checkpoint_file import CheckpointFile
from seqattn.training.optimizers import buffer_names, counts_updates

NOT_OF_THE_MODEL = (*PATH_KEYS, "model.skip_map", "data.units")
"""Keys that may differ between a run folder and its checkpoints.

These keys do not change the meaning of the weights, and folders of earlier versions lack some of
these keys.
"""
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
        raise CheckpointError(
            "\n".join(
                [
                    f"{file.path}: contains a model that differs from the config of its folder:",
                    *lines,
                ]
            )
        )


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


def optimizer_buffers(
    file: CheckpointFile, tensors: Mapping[str, Tensor], model: Seq2SeqModel
) -> dict[str, dict[str, Tensor]]:
    """Return the buffers of the optimizer by parameter name and buffer name.

    Args:
        file: a checkpoint with a training state.
        tensors: all tensors of the checkpoint.
        model: a model of the config in the checkpoint.

    Raises:
        CheckpointError: if names or shapes do not fit the optimizer in the config, or if the
            buffers of a parameter are missing.
    """
    config = file.config.training
    wanted = {*buffer_names(config), *(["step"] if counts_updates(config) else [])}
    buffers: dict[str, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        found = {
            key.rpartition(".")[2]: tensor
            for key, tensor in tensors.items()
            if key.startswith(f"optimizer.{name}.")
        }
        for key, tensor in found.items():
            if key != "step" and tensor.shape != parameter.shape:
                raise _other_shape(file.path, f"optimizer.{name}.{key}", tensor, parameter)
        if found and found.keys() != wanted:
            raise CheckpointError(
                f"{file.path}: of {name} it has {', '.join(sorted(found))}, but"
                f" {config.optimizer} keeps {', '.join(sorted(wanted)) or 'nothing'}."
            )
        if found:
            buffers[name] = found
    if buffer_names(config) and (buffers or file.position != (0, 0)):
        _check_complete(buffers, model, file.path)
    return buffers


def _check_complete(buffers: Mapping[str, object], model: Seq2SeqModel, path: Path) -> None:
    missing = [name for name, _ in model.named_parameters() if name not in buffers]
    if missing:
        raise CheckpointError(f"{path}: has no optimizer buffers for {', '.join(missing)}.")


def _other_shape(path: Path, name: str, found: Tensor, wanted: Tensor) -> CheckpointError:
    def words(tensor: Tensor) -> str:
        return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

    return CheckpointError(
        f"{path}: {name} is {words(found)}, but the config requires {words(wanted)}."
    )
