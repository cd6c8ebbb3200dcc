"""The interface of a tracker, and the run that a tracker records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from seqattn.config import Config, as_plain, leaves
from seqattn.runs import COMPARISON, SEARCH, EpochRecord, RunFolder

Status = Literal["finished", "diverged", "stopped"]
"""How a run ended. "stopped" means that `--resume` can continue the run."""


class Tracker(Protocol):
    """A tracker, which keeps a record of one run in addition to the files in the run folder.

    The methods are called in the order `start`, `log_epochs`, `log_picture`, `end`. Any method may
    raise any exception of the tracker's library.
    """

    key: str
    """The key in the config section `logging` that selects the tracker."""

    def start(self) -> int:
        """Open the record of the run, and return the number of epochs that it already contains."""
        ...

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        """Add finished epochs to the record."""
        ...

    def log_picture(self, name: str, png: bytes) -> None:
        """Add a picture in the PNG format to the record of a finished run."""
        ...

    def end(self, status: Status, results: Mapping[str, float]) -> None:
        """Add the results, which only a finished run has, and close the record."""
        ...


@dataclass(frozen=True)
class TrackedRun:
    """A run that trackers record.

    Attributes:
        config: the config of the run.
        folder: the folder of the run.
        replaces: whether the folder still contains an earlier run, which this run will replace.
        records: if `replaces` is true, the content of the new `trackers.json`. The first save of
            the run writes this file.
    """

    config: Config
    folder: RunFolder
    replaces: bool = False
    records: dict[str, Any] = field(default_factory=dict)

    @property
    def _depth(self) -> int:
        """The number of folders between the folder of the run and the folder of all outputs."""
        path = self.folder.path
        if (path.parent.parent / COMPARISON).exists():
            return 2
        of_seeds = path.name == f"seed-{self.config.seed}" and path.name != self.config.name
        return 1 if of_seeds or (path.parent / SEARCH).exists() else 0

    @property
    def outputs(self) -> Path:
        """The folder of all outputs, such as `outputs`."""
        return self.folder.path.absolute().parents[self._depth]

    @property
    def name(self) -> str:
        """The path of the run in the folder of all outputs, such as `squares/seed-23`."""
        return self.folder.path.absolute().relative_to(self.outputs).as_posix()

    @property
    def group(self) -> str:
        """The first part of `name`, which the seeds, variants or trials of one command share."""
        return self.name.partition("/")[0]

    @property
    def values(self) -> dict[str, bool | int | float | str]:
        """The values of the config by dotted key. Lists and null become text."""
        return {
            ".".join(at): value if isinstance(value, bool | int | float | str) else str(value)
            for at, value in leaves(as_plain(self.config))
        }

    def previous_id(self, key: str, place: str) -> str | None:
        """Return the identifier of the record that an earlier process created for this run, or None
        if there is no such record in the given place.

        Args:
            key: see `Tracker.key`.
            place: the store or project of the record.

        Raises:
            CheckpointError: if `trackers.json` cannot be read.
        """
        entry: Mapping[str, Any] = self._stored().get(key, {})
        return str(entry["run_id"]) if entry.get("place") == place else None

    def save_id(self, key: str, place: str, run_id: str) -> None:
        """Store the identifier of a record so that `previous_id` can return it."""
        stored = {**self._stored(), key: {"place": place, "run_id": run_id}}
        if self.replaces:
            self.records.update(stored)
        else:
            self.folder.write_trackers(stored)

    def _stored(self) -> dict[str, Any]:
        return self.records if self.replaces else self.folder.read_trackers()
