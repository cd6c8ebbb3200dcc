"""Checkpoints: safetensors files that hold tensors, and JSON for everything else.

`best.safetensors` holds the weights of the best epoch and what is needed to use them.
`last.safetensors` holds all that training needs to go on, the best weights too, so that one
file is one consistent state. Nothing in a checkpoint names a path, an import or a class, and
the metadata is one JSON text under one key, which makes equal checkpoints equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqattn.config import Config, as_plain, differences, from_plain
from seqattn.data import DataSpec
from seqattn.data.file_dataset import UNKNOWN
from seqattn.errors import CheckpointError, ConfigError, DataError
from seqattn.models import FeatureSpec, Lengths, Seq2SeqModel, build_model
from seqattn.runs import EpochRecord
from seqattn.training.checksummed import load_checksummed, save_checksummed
from seqattn.training.optimizers import BUFFERS
from seqattn.wording import counted

VERSION = 3
PATHS = ("data.path", "data.validation_path", "data.test_path")
"""Keys that no checkpoint has: where a file lies is no part of what was learned."""
HOW_IT_STARTS = ("model.skip_map",)
"""Keys of the model that say how its training starts; folders of earlier versions lack them."""


@dataclass(frozen=True)
class Slot:
    """The place of a run among those that it shares every step with.

    The last bits of what a batched kernel computes depend on how many rows it has, and on which of
    them is whose: a resumed run gets the same row among as many.

    Attributes:
        group: a digest of the runs that began together.
        row: of this run, from 0.
        rows: of all runs of the group, those that have ended and still have one included.
    """

    group: str
    row: int = 0
    rows: int = 1


@dataclass
class TrainState:
    """Where a training stands: a position, its numbers, and its history.

    Attributes:
        weights: by parameter's name.
        buffers: what the optimizer keeps, by parameter's name and its own; empty before the first
            step.
        epoch: epochs finished.
        step: steps finished in the running epoch.
        loss_sum, points: the running epoch's squared error so far, and over how many points.
        seconds: time the running epoch has taken.
        history: one record a finished epoch.
        best_epoch: the epoch (from 1) with the lowest validation loss; 0 before the first.
        best_weights: the weights after it, by name.
        slot: None in checkpoints of versions that did not keep it.
    """

    weights: dict[str, Tensor]
    buffers: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    points: int = 0
    seconds: float = 0.0
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    slot: Slot | None = None

    @property
    def position(self) -> tuple[int, int]:
        return self.epoch, self.step

    @property
    def best_loss(self) -> float:
        return self.history[self.best_epoch - 1].validation_loss if self.best_epoch else math.inf


@dataclass(frozen=True)
class LoadedModel:
    """A model read back from a checkpoint.

    Attributes:
        model: on the CPU, ready to forecast.
        config: what it was trained with; `name` is the default's, since a model has no folder.
        spec: what its sequences looked like.
        epoch: the epoch its weights are from.
        split: (name of a series, part, first step, last step) as its folder says; empty: unknown.
        streamed: whether an earlier version trained it on data.kind: stream, which drew its parts
            another way.
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


def save_best(path: Path, state: TrainState, config: Config, spec: DataSpec) -> None:
    """Write the best epoch's weights. Its bytes are a function of config and seed alone."""
    described = {"epoch": state.best_epoch, "validation_loss": state.best_loss}
    _write(path, state.best_weights, "model", config, spec, described)


def save_state(
    path: Path,
    state: TrainState,
    config: Config,
    spec: DataSpec,
    keep_as: Path | None = None,
) -> None:
    """Write everything that training needs to go on.

    Args:
        keep_as: the state that was at `path` stays under this name.
    """
    tensors = {f"model.{k}": v for k, v in state.weights.items()}
    tensors |= {f"best.{k}": v for k, v in state.best_weights.items()}
    for name, buffers in state.buffers.items():
        tensors |= {f"optimizer.{name}.{k}": v for k, v in buffers.items()}
    if state.history:
        rows = [record.as_row() for record in state.history]
        tensors["history"] = torch.tensor(rows, dtype=torch.float64)
    described: dict[str, Any] = {
        "epoch": state.epoch,
        "step": state.step,
        "loss_sum": state.loss_sum,
        "points": state.points,
        "seconds": state.seconds,
        "best_epoch": state.best_epoch,
    }
    if state.slot is not None:
        described["slot"] = asdict(state.slot)
    _write(path, tensors, "training", config, spec, described, keep_as)


def load_model(path: Path, *, expected: Config | None = None) -> LoadedModel:
    """Read a model back from a best or a last checkpoint.

    Args:
        expected: the run folder's config; a checkpoint of another model is refused.

    Raises:
        CheckpointError: missing, truncated, no checkpoint of ours, or other shapes.
    """
    metadata, tensors = _read(path)
    config = _config_of(metadata, path)
    if expected is not None:
        _refuse_other_model(path, config, expected)
    spec = _spec_of(metadata, path)
    weights = tensors if metadata["kind"] == "model" else _below("model.", tensors)
    model = build_model(
        config.model,
        FeatureSpec.of(spec),
        config.seed,
        Lengths(spec.source_length, spec.target_length),
    )
    _fill(model, weights, path)
    return LoadedModel(
        model.eval(), config, spec, int(metadata["epoch"]), streamed=_was_streamed(metadata)
    )


def _was_streamed(metadata: dict[str, Any]) -> bool:
    data = metadata["config"].get("data")
    return isinstance(data, dict) and data.get("kind") == "stream"


def describe(path: Path) -> dict[str, Any]:
    """What a checkpoint holds, for JSON, without building a model.

    Raises:
        CheckpointError: missing, broken, or no checkpoint of ours.
    """
    metadata, tensors = _read(path)
    _spec_of(metadata, path)
    metadata["config"] = _without_place(as_plain(_config_of(metadata, path)))
    rows = [
        {
            "name": name,
            "shape": list(tensor.shape),
            "type": str(tensor.dtype).removeprefix("torch."),
            "numbers": tensor.numel(),
            "min": float(tensor.min()) if tensor.numel() else 0.0,
            "max": float(tensor.max()) if tensor.numel() else 0.0,
        }
        for name, tensor in sorted(tensors.items())
    ]
    return {"bytes": path.stat().st_size, **metadata, "tensors": rows}


def file_digests(path: Path) -> tuple[str, ...]:
    """SHA-256 of each file that a checkpoint's training read; none for generated data.

    Raises:
        CheckpointError: missing, broken, or no checkpoint of ours.
    """
    metadata, _ = _read(path)
    return _spec_of(metadata, path).digests


def check_data_unchanged(now: Sequence[str], before: Sequence[str], since: str) -> None:
    """
    Raises:
        DataError: the files are not those of the training.
    """
    if tuple(now) == tuple(before):
        return
    if len(now) != len(before):
        raise DataError(
            f"the data were {counted(len(before), 'file')} at the training, and are {len(now)}."
        )
    names = ("data.path", "data.validation_path", "data.test_path")
    changed = [name for name, a, b in zip(names, now, before, strict=False) if a != b]
    raise DataError(
        f"what {changed[0]} names has changed {since}: its SHA-256 is another. Put the old one"
        " back, or train again; --input scores other sequences."
    )


def load_state(
    path: Path,
    model: Seq2SeqModel,
    spec: DataSpec | None = None,
    agree: Callable[[Config, int], None] = lambda config, epoch: None,
) -> tuple[TrainState, Config]:
    """Read a training's state.

    Args:
        model: of the same config; it gets the weights.
        agree: told config and epoch before anything is made of the weights; may refuse.
        spec: of the data to go on with; files that changed are refused. None: not looked at.

    Raises:
        DataError: the files it was trained on are not those of now.
        CheckpointError: missing, truncated, no checkpoint of ours, or other shapes.
    """
    metadata, tensors = _read(path)
    if metadata["kind"] != "training":
        raise CheckpointError(f"{path}: holds a model, not a training that could be resumed.")
    config = _config_of(metadata, path)
    if _was_streamed(metadata):
        raise CheckpointError(
            f"{path}: was trained on data.kind: stream by an earlier version, whose order of"
            " sequences is no longer made. Train it again; predict and evaluate work as before."
        )
    agree(config, int(metadata["epoch"]))
    if spec is not None:
        before = _spec_of(metadata, path).digests
        check_data_unchanged(spec.digests, before, "since the training began")
    best, weights = _below("best.", tensors), _below("model.", tensors)
    if best:
        _fill(model, best, path)  # the same checks as for the weights; overwritten below
    _fill(model, weights, path)
    kept = {"step", *BUFFERS[config.training.optimizer]}
    if config.training.optimizer == "sgd" and config.training.momentum == 0:
        kept = set()
    elif config.training.optimizer == "sgd":
        kept.remove("step")
    buffers: dict[str, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        found = {
            key.rpartition(".")[2]: tensor
            for key, tensor in tensors.items()
            if key.startswith(f"optimizer.{name}.")
        }
        for key, tensor in found.items():
            if key != "step" and tensor.shape != parameter.shape:
                raise _other_shape(path, f"optimizer.{name}.{key}", tensor, parameter)
        if found and found.keys() != kept:
            raise CheckpointError(
                f"{path}: of {name} it has {', '.join(sorted(found))}, but"
                f" {config.training.optimizer} keeps {', '.join(sorted(kept)) or 'nothing'}."
            )
        if found:
            buffers[name] = found
    history = tensors.get("history")
    try:
        state = TrainState(
            weights={k: v.clone() for k, v in weights.items()},
            buffers=buffers,
            epoch=int(metadata["epoch"]),
            step=int(metadata["step"]),
            loss_sum=float(metadata["loss_sum"]),
            points=int(metadata["points"]),
            seconds=float(metadata["seconds"]),
            history=[] if history is None else [EpochRecord.from_row(r) for r in history.tolist()],
            best_epoch=int(metadata["best_epoch"]),
            best_weights={k: v.clone() for k, v in best.items()},
            slot=_slot_of(metadata),
        )
        if not (len(state.history) == state.epoch >= state.best_epoch >= 0 <= state.step):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{path}: its state of the training is not whole. Take another checkpoint, or remove"
            " its run folder and train again."
        ) from None
    return state, config


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


def _write(
    path: Path,
    tensors: Mapping[str, Tensor],
    kind: str,
    config: Config,
    spec: DataSpec,
    described: Mapping[str, Any],
    keep_as: Path | None = None,
) -> None:
    metadata = {
        "version": VERSION,
        "kind": kind,
        "config": _without_place(as_plain(config)),
        "layout": spec.as_plain(),
        **described,
    }
    save_checksummed(path, tensors, metadata, keep_as)


def _without_place(plain: dict[str, Any]) -> dict[str, Any]:
    """A config without its name and paths: where a run lies is no part of what it learned."""
    del plain["name"]
    for key in PATHS:
        plain["data"].pop(key.partition(".")[2], None)
    return plain


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata of this version and tensors, or a CheckpointError that says what is off."""
    metadata, tensors = load_checksummed(path, VERSION)
    if metadata["version"] == 1:
        metadata = _from_version_1(metadata)
    if not (
        metadata.get("kind") in ("model", "training")
        and isinstance(metadata.get("config"), dict)
        and isinstance(metadata.get("epoch"), int)
    ):
        raise CheckpointError(f"{path}: its metadata does not say what it is.")
    return metadata, tensors


def _from_version_1(metadata: dict[str, Any]) -> dict[str, Any]:
    """Version 1 knew one list of features for both sides, and no scaling. Version 2 had no
    checksum, and is else as this one."""
    layout = metadata.get("layout")
    if isinstance(layout, dict) and isinstance(layout.get("features"), list):
        F = len(layout["features"])
        none = {"shift": [0.0] * F, "scale": [1.0] * F}
        scaling = {"source": none, "target": none, "relative": False}
        layout = {**layout, "said": layout["features"], "scaling": scaling, "digests": []}
    return {**metadata, "layout": layout}


def _config_of(metadata: Mapping[str, Any], path: Path) -> Config:
    plain = metadata["config"]
    data = plain.get("data")
    if isinstance(data, dict) and data.get("kind") in ("file", "stream"):
        plain = {**plain, "data": {**data, "path": UNKNOWN}}
    try:
        return from_plain(plain, str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def _spec_of(metadata: Mapping[str, Any], path: Path) -> DataSpec:
    try:
        return DataSpec.from_plain(metadata["layout"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(
            f"{path}: its metadata does not say what it was trained on."
        ) from None


def _refuse_other_model(path: Path, config: Config, expected: Config) -> None:
    found = {
        key: values
        for key, values in differences(expected, config).items()
        if key.startswith(("model.", "data.")) and key not in (*PATHS, *HOW_IT_STARTS)
    }
    if found:
        lines = [f"  {k}: config.yaml has {a}, checkpoint has {b}" for k, (a, b) in found.items()]
        raise CheckpointError(
            "\n".join([f"{path}: is a checkpoint of another model than its folder's:", *lines])
        )


def _fill(model: Seq2SeqModel, weights: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model after holding every name and shape against it."""
    wanted = model.state_dict()
    missing, foreign = sorted(wanted.keys() - weights), sorted(weights.keys() - wanted)
    if missing or foreign:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(foreign)}, which the model has not"] if foreign else []
        raise CheckpointError(f"{path}: does not fit its config: it {' and '.join(parts)}.")
    for name, tensor in weights.items():
        if tensor.shape != wanted[name].shape or tensor.dtype != wanted[name].dtype:
            raise _other_shape(path, name, tensor, wanted[name])
    model.load_state_dict(dict(weights))


def _other_shape(path: Path, name: str, found: Tensor, wanted: Tensor) -> CheckpointError:
    def words(tensor: Tensor) -> str:
        return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

    return CheckpointError(
        f"{path}: {name} is {words(found)}, but the config makes it {words(wanted)}."
    )


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
