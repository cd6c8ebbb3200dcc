"""The JSON files of run, comparison and search folders: their schemas, checked when they are read.

A damaged or edited file ends in a `CheckpointError` that names the file, the key and what was
expected there. Unknown keys are ignored, so files of newer versions can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from seqattn.config.mistakes import describe_expectation
from seqattn.errors import CheckpointError
from seqattn.runs.storage import read_file

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
Loss = Annotated[float, Field(ge=0)]  # a mean of squares
Losses = Annotated[dict[str, Loss], Field(min_length=1)]

MOST_MISTAKES = 5


class _Stored(BaseModel):
    """JSON as it was written: no text for a number, no NaN."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class ByHead(_Stored):
    """(L, A) values of each measure; None where it does not apply."""

    alignment_accuracy: list[list[float]] | None
    alignment_mass: list[list[float]] | None
    entropy_bits: list[list[float]] | None
    entropy_share: list[list[float]] | None


class AttentionMetrics(_Stored):
    """`seqattn.analysis.attention_metrics.AttentionMetrics.as_plain()`."""

    alignment_accuracy: float | None
    alignment_mass: float | None
    entropy_bits: float | None
    entropy_share: float | None
    padding_mass: float
    steps: Count
    aligned_steps: Count
    best_head: Annotated[list[Count], Field(min_length=2, max_length=2)] | None
    by_head: ByHead

    @model_validator(mode="after")
    def _best_head_belongs_to_the_alignment(self) -> Self:
        known = self.alignment_accuracy is not None
        needed = (self.alignment_mass, self.best_head, self.by_head.alignment_mass)
        if any((value is not None) != known for value in needed):
            raise _contradiction("best_head", "and the alignment_ keys are null together or not")
        return self


class FeatureErrors(_Stored):
    """`seqattn.data.metrics.Errors.as_plain()`: a number a feature; None where it has none."""

    mae: list[Loss | None]
    rmse: list[Loss | None]
    mase: list[Loss | None]
    mase_mean: Loss | None


class Metrics(_Stored):
    """Errors in the user's units, of runs on the user's own data; `seqattn.data.metrics`."""

    season: Positive | None
    season_origin: Literal["given", "found"] | None
    mase_scale: list[Annotated[float, Field(gt=0)] | None]
    mase_undefined: list[str | None]
    notes: list[str]
    errors: dict[str, FeatureErrors]

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if (self.season is None) != (self.season_origin is None):
            raise _contradiction("season_origin", "and season are null together or not")
        F = len(self.mase_scale)
        if [each is None for each in self.mase_scale] != [
            w is not None for w in self.mase_undefined
        ]:
            raise _contradiction(
                "mase_undefined", "says why where mase_scale is null, and only there"
            )
        for name, errors in self.errors.items():
            for key in ("mae", "rmse", "mase"):
                if len(getattr(errors, key)) != F:
                    raise _contradiction(f"errors.{name}.{key}", f"must have {F} numbers")
        return self


class _Ended(_Stored):
    """What summary.json has of every run; a run without one has not ended.

    Attributes:
        skipped_checkpoints: unusable checkpoints that a resume passed over, and the reasons.
        interrupted: whether the training went on from a checkpoint.
    """

    name: Text
    seed: Count
    skipped_checkpoints: list[Text] = []  # earlier versions do not write these two
    interrupted: bool = False


class Summary(_Ended):
    """summary.json of a run that ended with a finite loss."""

    diverged: None = None
    test_loss: Loss
    test_loss_teacher_forced: Loss
    loss_by_step: Annotated[list[Loss | None], Field(min_length=1)]  # None: nothing was observed
    noise_floor: Loss | None
    baselines: Losses
    fitted: dict[str, Loss]
    best_baseline: Text
    above_floor: float | None
    beats_best_baseline: bool
    scaled: bool
    features: Annotated[list[str], Field(min_length=1)]
    units: dict[str, str] = {}  # of older versions: none
    rmse: dict[str, list[Loss | None]]
    metrics: Metrics | None = None  # of made sequences, and of older versions: none
    attention: AttentionMetrics | None
    validation_loss: Loss
    validation_noise_floor: Loss | None
    validation_baselines: Losses
    best_epoch: Positive
    epochs: Positive
    stopped_early: bool
    parameters: Count
    model: dict[str, Any]  # as in config.yaml, which is checked
    data: list[str]
    seconds: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        for key in ("baselines", "validation_baselines"):
            if self.best_baseline not in getattr(self, key):
                raise _contradiction("best_baseline", f"must be a key of {key}")
        if (self.noise_floor is None) != (self.above_floor is None):
            raise _contradiction("above_floor", "and noise_floor are null together or not")
        if self.best_epoch > self.epochs:
            raise _contradiction("best_epoch", f"must be at most epochs ({self.epochs})")
        if self.metrics is not None:
            known = {"this model", *self.baselines, *self.fitted}
            if self.metrics.errors.keys() != known:
                raise _contradiction("metrics.errors", "must have the model and every baseline")
            if len(self.metrics.mase_scale) != len(self.features):
                raise _contradiction("metrics.mase_scale", "must have a number for each feature")
        return self


class Place(_Stored):
    """Where a run diverged; no step: at the validation."""

    epoch: Positive
    step: Positive | None


class Diverged(_Ended):
    """summary.json of a diverged run: it has no loss."""

    diverged: Text
    diverged_at: Place | None = None  # None: at the test part
    test_loss: None = None
    validation_loss: Loss | None = None
    best_epoch: Count = 0
    epochs: Count


class Environment(_Stored):
    """environment.json; every key may be missing, since older versions wrote fewer."""

    started: str | None = None
    command: str | None = None
    launcher: str | None = None
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    device: str | None = None
    packages: dict[str, str] = {}
    origins: dict[str, str] = {}


class Along(_Stored):
    """The key that variants differ in, with (series, value of the key) of each variant."""

    key: str
    arms: dict[str, tuple[str, float]]

    model_config = ConfigDict(strict=False)  # JSON has lists for pairs


class Manifest(_Stored):
    """comparison.json: a config for each variant, without its name."""

    variants: Annotated[dict[Text, dict[str, Any]], Field(min_length=1)]
    along: Along | None = None
    resample_data: bool = False  # of folders of earlier versions

    @model_validator(mode="after")
    def _names_are_of_folders(self) -> Self:
        for name in self.variants:
            if name != Path(name).name or name == "..":
                raise _contradiction("variants", f"has {name!r}, which is no name of a folder")
        if self.along is not None and self.along.arms.keys() != self.variants.keys():
            raise _contradiction("along", "must name the same variants as variants")
        return self


class StoredRange(_Stored):
    """A range of a search; see `seqattn.config.searching.Range`."""

    path: Text
    kind: Literal["uniform", "log", "choice"]
    low: float
    high: float
    whole: bool
    values: list[Any]


class StoredSearch(_Stored):
    """tune.json; an older version wrote the ranges alone."""

    ranges: Annotated[list[StoredRange], Field(min_length=1)]
    config: dict[str, Any] = {}
    data: list[str] = []
    study: str | None = None


def _contradiction(key: str, message: str) -> PydanticCustomError:
    return PydanticCustomError("contradiction", "{message}", {"key": key, "message": message})


def read_summary(path: Path) -> dict[str, Any]:
    """summary.json. With a `diverged` sentence it has no loss.

    Raises:
        CheckpointError: missing, or not what a training writes.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: no such file. Has the training finished?")
    return _read(path, lambda content: Diverged if content.get("diverged") else Summary,
                 "Remove it and go on with the run (--resume): that writes it again.")  # fmt: skip


def read_environment(path: Path) -> dict[str, Any]:
    """environment.json, or nothing where there is no such file.

    Raises:
        CheckpointError: it is not what a training writes.
    """
    if not path.exists():
        return {}
    return _read(path, lambda content: Environment,
                 "Write {} into it to go on without what it told.")  # fmt: skip


def read_manifest(path: Path) -> dict[str, Any]:
    """comparison.json.

    Raises:
        CheckpointError: missing, or not what a comparison writes.
    """
    return _read(path, lambda content: Manifest, "Put back the file that the comparison wrote.")


def read_search(path: Path) -> dict[str, Any]:
    """tune.json.

    Raises:
        CheckpointError: missing, or not what a search writes.
    """
    return _read(path, lambda content: StoredSearch, "Put back the file that the search wrote.")


def _read(
    path: Path, model_of: Callable[[Mapping[str, Any]], type[_Stored]], remedy: str
) -> dict[str, Any]:
    raw: bytes | None = None
    try:
        raw = read_file(path)
        content = json.loads(raw, parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is empty" if raw == b"" else str(error)
        raise CheckpointError(f"{path}: cannot be read as JSON ({reason}). {remedy}") from None
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise CheckpointError(f"{path}: expected an object with keys, got {kind}. {remedy}")
    try:
        model_of(content).model_validate(content)
    except ValidationError as error:
        found = error.errors()
        reason = "; ".join(map(_mistake, found[:MOST_MISTAKES]))
        more = f"; and {len(found) - MOST_MISTAKES} more" if len(found) > MOST_MISTAKES else ""
        raise CheckpointError(f"{path}: {reason}{more}. {remedy}") from None
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _mistake(details: Any) -> str:
    """The key and what was expected there."""
    at, context = [str(part) for part in details["loc"]], details.get("ctx", {})
    match details["type"]:
        case "contradiction":
            return f"{'.'.join([*at, context['key']])}: {context['message']}"
        case "model_type" | "dict_type":
            message = "expected an object with keys"
        case "literal_error":
            message = f"expected {context['expected']}"
        case "none_required":
            message = "must be null, or missing"
        case kind:
            message = describe_expectation(kind, context, tuple(at), details["input"])
    return f"{'.'.join(at)}: {message.rstrip('.')}"
