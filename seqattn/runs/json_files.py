"""The JSON files in run, comparison and search folders, and the schemas of those that a user may
edit.

`summary.json` contains a digest of its values instead. The functions that read the other files
check the content against a schema. If a file does not match, these functions raise a
`CheckpointError` that names the file, the key and the expected value. Unknown keys are ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seqattn.config.mistakes import describe_expectation
from seqattn.config.section import VariantName
from seqattn.errors import CheckpointError
from seqattn.runs.storage import read_regular_file, write_json

Text = Annotated[str, Field(min_length=1)]

MAX_MISTAKES_SHOWN = 5


class _Stored(BaseModel):
    """The strict base class of the schemas, which neither converts text to numbers nor accepts NaN
    or infinity."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class StoredStart(_Stored):
    """The schema of the record of the weights with which a run started; see
    `seqattn.experiments.job.StartingPoint.record`."""

    run: Text
    epoch: Annotated[int, Field(ge=1)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


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

    variants: Annotated[dict[VariantName, dict[str, Any]], Field(min_length=1)]
    along: StoredSweep | None = None
    resample_data: bool = False


class StoredSearch(_Stored):
    """The schema of `tune.json`, which also contains the values that identify the search."""

    study: Text


def write_summary(path: Path, content: Mapping[str, Any]) -> None:
    """Write `summary.json` with the key `digest`, so that a reader notices an edited result."""
    write_json(path, {**content, "digest": _digest(content)})


def read_summary(path: Path) -> dict[str, Any]:
    """Read `summary.json`, without the key `digest`. A summary with the key `diverged` has no test
    loss.

    Raises:
        CheckpointError: if the file is missing, or does not match its digest.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: no such file. Has the training finished?")
    remedy = "Remove it and resume the run (--resume) to write it again."
    content = _read_object(path, remedy)
    if content.pop("digest", None) != _digest(content):
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
    return _read_checked(path, Environment, remedy) if path.exists() else {}


def read_trackers(path: Path) -> dict[str, Any]:
    """Read `trackers.json`. Return an empty dict if the file is missing."""
    remedy = "Remove it to begin new records."
    return _read_checked(path, StoredTrackers, remedy) if path.exists() else {}


def read_manifest(path: Path) -> dict[str, Any]:
    """Read `comparison.json`."""
    return _read_checked(path, Manifest, "Restore the file of the comparison.")


def read_search(path: Path) -> dict[str, Any]:
    """Read `tune.json`."""
    return _read_checked(path, StoredSearch, "Restore the file of the search.")


def _read_object(path: Path, remedy: str) -> dict[str, Any]:
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
    return content


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _read_checked(path: Path, model: type[_Stored], remedy: str) -> dict[str, Any]:
    content = _read_object(path, remedy)
    try:
        model.model_validate(content)
    except ValidationError as error:
        mistakes = []
        for details in error.errors()[:MAX_MISTAKES_SHOWN]:
            at, context = tuple(map(str, details["loc"])), details.get("ctx", {})
            match details["type"]:
                case "model_type" | "dict_type":
                    message = "expected an object with keys"
                case "literal_error":
                    message = f"expected {context['expected']}"
                case kind:
                    message = describe_expectation(kind, context, at, details["input"])
            mistakes.append(f"{'.'.join(at)}: {message.rstrip('.')}")
        raise CheckpointError(f"{path}: {'; '.join(mistakes)}. {remedy}") from None
    return content
