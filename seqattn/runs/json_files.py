"""The schemas of the JSON files in run, comparison and search folders. The functions that read
these files check the content against the schema.

If a file does not match its schema, for example because it was edited, these functions raise a
`CheckpointError` that names the file, the key and the expected value. Unknown keys are ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from seqattn.config.mistakes import describe_expectation
from seqattn.errors import CheckpointError
from seqattn.runs.storage import read_regular_file, write_json

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
Loss = Annotated[float, Field(ge=0)]  # a mean squared error
Losses = Annotated[dict[str, Loss], Field(min_length=1)]

MAX_MISTAKES_SHOWN = 5


class _Stored(BaseModel):
    """The strict base class of the schemas, which neither converts text to numbers nor accepts NaN
    or infinity."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class StoredByHead(_Stored):
    """The values of each attention metric, (L, A) for L layers and A heads, or None if the metric
    does not apply."""

    alignment_accuracy: list[list[float]] | None
    alignment_mass: list[list[float]] | None
    entropy_bits: list[list[float]] | None
    entropy_share: list[list[float]] | None


class StoredAttentionMetrics(_Stored):
    """The schema of the result of
    `seqattn.analysis.attention_metrics.AttentionMetrics.as_plain`."""

    alignment_accuracy: float | None
    alignment_mass: float | None
    entropy_bits: float | None
    entropy_share: float | None
    padding_mass: float
    steps: Count
    aligned_steps: Count
    best_head: Annotated[list[Count], Field(min_length=2, max_length=2)] | None
    by_head: StoredByHead

    @model_validator(mode="after")
    def _check_alignment_keys(self) -> Self:
        known = self.alignment_accuracy is not None
        needed = (self.alignment_mass, self.best_head, self.by_head.alignment_mass)
        if any((value is not None) != known for value in needed):
            raise _contradiction("best_head", "must be null exactly where the alignment_ keys are")
        return self


class FeatureErrors(_Stored):
    """The schema of the result of `seqattn.data.metrics.Errors.as_plain`.

    Each list has one value per feature. An undefined value is None.
    """

    mae: list[Loss | None]
    rmse: list[Loss | None]
    mase: list[Loss | None]
    mase_mean: Loss | None


class Metrics(_Stored):
    """The schema of the forecast errors of a run on a user's own data. The module
    `seqattn.data.metrics` defines these errors."""

    season: Positive | None
    season_origin: Literal["given", "found"] | None
    mase_scale: list[Annotated[float, Field(gt=0)] | None]
    mase_undefined: list[str | None]
    notes: list[str]
    errors: dict[str, FeatureErrors]

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if (self.season is None) != (self.season_origin is None):
            raise _contradiction("season_origin", "must be null exactly where season is")
        F = len(self.mase_scale)
        if [scale is None for scale in self.mase_scale] != [
            reason is not None for reason in self.mase_undefined
        ]:
            raise _contradiction(
                "mase_undefined", "must have a reason exactly where mase_scale is null"
            )
        for name, errors in self.errors.items():
            for key in ("mae", "rmse", "mase"):
                if len(getattr(errors, key)) != F:
                    raise _contradiction(f"errors.{name}.{key}", f"must have {F} numbers")
        return self


class StoredStart(_Stored):
    """The schema of the record of the weights with which a run started; see
    `seqattn.experiments.job.StartingPoint.record`."""

    run: Text
    epoch: Positive
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _EndedRun(_Stored):
    """The schema of the keys that are in the summaries of both finished and diverged runs. A run
    without a `summary.json` has not ended.

    Attributes:
        skipped_checkpoints: a line of text for each checkpoint that could not be used when the run
            was resumed, with the reason.
        interrupted: whether the run was resumed from a checkpoint.
        start_from: the weights with which the run started, if `training.start_from` is set.
    """

    name: Text
    seed: Count
    skipped_checkpoints: list[Text] = []
    interrupted: bool = False
    start_from: StoredStart | None = None


class Summary(_EndedRun):
    """The schema of the `summary.json` of a run that ended with a finite test loss."""

    diverged: None = None
    test_loss: Loss
    test_loss_teacher_forced: Loss
    loss_by_step: Annotated[
        list[Loss | None], Field(min_length=1)
    ]  # None for a step that was not observed
    noise_floor: Loss | None
    baselines: Losses
    fitted: dict[str, Loss]
    best_baseline: Text
    above_floor: float | None
    beats_best_baseline: bool
    scaled: bool
    loss_name: Text = "mean squared error"
    measures: dict[str, Any] = {}
    baseline_measures: dict[str, dict[str, Any]] = {}
    features: Annotated[list[str], Field(min_length=1)]
    units: dict[str, str] = {}
    task: Text = ""
    rmse: dict[str, list[Loss | None]]
    metrics: Metrics | None = None  # files of generated data lack this key
    attention: StoredAttentionMetrics | None
    validation_loss: Loss
    validation_noise_floor: Loss | None
    validation_baselines: Losses
    best_epoch: Positive
    epochs: Positive
    stopped_early: bool
    parameters: Count
    model: dict[str, Any]  # as in config.yaml, which has its own schema
    data: list[str]
    seconds: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        for key in ("baselines", "validation_baselines"):
            if self.best_baseline not in getattr(self, key):
                raise _contradiction("best_baseline", f"must be a key of {key}")
        if (self.noise_floor is None) != (self.above_floor is None):
            raise _contradiction("above_floor", "must be null exactly where noise_floor is")
        if self.best_epoch > self.epochs:
            raise _contradiction("best_epoch", f"must be at most epochs ({self.epochs})")
        if self.metrics is not None:
            known = {"this model", *self.baselines, *self.fitted}
            if self.metrics.errors.keys() != known:
                raise _contradiction("metrics.errors", "must have the model and each baseline")
            if len(self.metrics.mase_scale) != len(self.features):
                raise _contradiction("metrics.mase_scale", "must have a number for each feature")
        return self


class DivergedAt(_Stored):
    """The epoch and the step at which a run diverged. The step is None if the validation loss
    diverged."""

    epoch: Positive
    step: Positive | None


class DivergedSummary(_EndedRun):
    """The schema of the `summary.json` of a diverged run, which has no test loss."""

    diverged: Text
    diverged_at: DivergedAt | None = None  # None if the test loss diverged
    test_loss: None = None
    validation_loss: Loss | None = None
    best_epoch: Count = 0
    epochs: Count


class Environment(_Stored):
    """The schema of `environment.json`. No key is required, so a user may replace a damaged file by
    an empty object."""

    started: str | None = None
    command: str | None = None
    launcher: str | None = None
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    device: str | None = None
    packages: dict[str, str] = {}
    skipped_checkpoints: list[Text] = []
    origins: dict[str, str] = {}
    start_from: StoredStart | None = None


class StoredTracker(_Stored):
    """The schema of a record in `trackers.json`; see `TrackedRun.previous_id`."""

    place: Text
    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class StoredTrackers(_Stored):
    """The schema of `trackers.json`."""

    mlflow: StoredTracker | None = None
    wandb: StoredTracker | None = None


class StoredSweep(_Stored):
    """The config key that a sweep varies, and for each variant the pair (series, value of this
    key)."""

    key: str
    arms: dict[str, tuple[str, float]]

    model_config = ConfigDict(strict=False)  # JSON stores pairs as lists


class Manifest(_Stored):
    """The schema of `comparison.json`. The config of each variant is stored without the key
    `name`."""

    variants: Annotated[dict[Text, dict[str, Any]], Field(min_length=1)]
    along: StoredSweep | None = None
    resample_data: bool = False

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in self.variants:
            if name != Path(name).name or name == "..":
                raise _contradiction("variants", f"has {name!r}, which is not a folder name")
        if self.along is not None and self.along.arms.keys() != self.variants.keys():
            raise _contradiction("along", "must have the keys of variants")
        return self


class StoredRange(_Stored):
    """The schema of a range of a search; see `seqattn.config.searching.Range`."""

    path: Text
    kind: Literal["uniform", "log", "choice"]
    low: float
    high: float
    whole: bool
    values: list[Any]


class StoredSearch(_Stored):
    """The schema of `tune.json`."""

    ranges: Annotated[list[StoredRange], Field(min_length=1)]
    config: dict[str, Any] = {}
    data: list[str] = []
    study: str | None = None


def _contradiction(key: str, message: str) -> PydanticCustomError:
    return PydanticCustomError("contradiction", "{message}", {"key": key, "message": message})


def write_summary(path: Path, content: Mapping[str, Any]) -> None:
    """Write `summary.json` with the key `digest`, so that a reader notices an edited result."""
    write_json(path, {**content, "digest": _digest(content)})


def read_summary(path: Path) -> dict[str, Any]:
    """Read `summary.json`, without the key `digest`. A summary with the key `diverged` has no test
    loss.

    Raises:
        CheckpointError: if the file is missing, does not match the schema, or does not match its
            digest.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: no such file. Has the training finished?")
    remedy = "Remove it and resume the run (--resume) to write it again."
    content = _read_json(
        path, lambda content: DivergedSummary if content.get("diverged") else Summary, remedy
    )
    digest = content.pop("digest", None)
    if digest not in (None, _digest(content)):
        raise CheckpointError(
            f"{path}: differs from what the run wrote: its values do not match its digest. {remedy}"
        )
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 digest of JSON values. It does not depend on the layout of the text."""
    plain = json.loads(json.dumps(content))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def read_environment(path: Path) -> dict[str, Any]:
    """Read `environment.json`. Return an empty dict if the file is missing."""
    remedy = "Replace its content by {} to continue without it."
    return _read_json(path, lambda content: Environment, remedy) if path.exists() else {}


def read_trackers(path: Path) -> dict[str, Any]:
    """Read `trackers.json`. Return an empty dict if the file is missing."""
    remedy = "Remove it to begin new records."
    return _read_json(path, lambda content: StoredTrackers, remedy) if path.exists() else {}


def read_manifest(path: Path) -> dict[str, Any]:
    """Read `comparison.json`."""
    return _read_json(path, lambda content: Manifest, "Restore the file of the comparison.")


def read_search(path: Path) -> dict[str, Any]:
    """Read `tune.json`."""
    return _read_json(path, lambda content: StoredSearch, "Restore the file of the search.")


def _read_json(
    path: Path, model_of: Callable[[Mapping[str, Any]], type[_Stored]], remedy: str
) -> dict[str, Any]:
    raw: bytes | None = None
    try:
        raw = read_regular_file(path)
        content = json.loads(raw, parse_constant=_reject_constant)
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is empty" if raw == b"" else getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: cannot be read as JSON ({reason}). {remedy}") from None
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise CheckpointError(f"{path}: expected an object with keys, got {kind}. {remedy}")
    try:
        model_of(content).model_validate(content)
    except ValidationError as error:
        mistakes = error.errors()
        reason = "; ".join(map(_describe_mistake, mistakes[:MAX_MISTAKES_SHOWN]))
        others = len(mistakes) - MAX_MISTAKES_SHOWN
        more = f"; and {others} more" if others > 0 else ""
        raise CheckpointError(f"{path}: {reason}{more}. {remedy}") from None
    return content


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _describe_mistake(details: Any) -> str:
    """Return a description of a mistake, with the key and the expected value."""
    path, context = [str(part) for part in details["loc"]], details.get("ctx", {})
    match details["type"]:
        case "contradiction":
            return f"{'.'.join([*path, context['key']])}: {context['message']}"
        case "model_type" | "dict_type":
            message = "expected an object with keys"
        case "literal_error":
            message = f"expected {context['expected']}"
        case "none_required":
            message = "must be null, or missing"
        case kind:
            message = describe_expectation(kind, context, tuple(path), details["input"])
    return f"{'.'.join(path)}: {message.rstrip('.')}"
