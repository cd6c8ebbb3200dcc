"""What tests/fixtures/real/expected.yaml says, held against what a reader reports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from seqattn import experiments
from seqattn.config import resolve

FOLDER = Path(__file__).parent / "fixtures" / "real"
ANY = "any"
ROLE_KEYS = ("series", "time", "features", "ignored", "sequences", "rows", "frequency", "notes")
CHECKS = ("range", "rising")
LISTS = {"series", "features", "ignore", "na", "one_hot"}
"""Options that take several values."""

TINY = [
    "training.epochs=1", "training.batch_size=256", "training.checkpoint_seconds=3600",
    "model.hidden_dim=2",
]  # fmt: skip
"""A model that takes a tenth of a second to train."""

ComparisonResult = Literal["accepted", "question", "refused"]


@dataclass(frozen=True)
class Case:
    """One call of the reader.

    Attributes:
        flags: of `seqattn data check`, as typed.
        expected: what expected.yaml says of this call.
        remedies: flags of each remedy, where the call ends with a question.
    """

    path: Path
    flags: str
    outcome: ComparisonResult
    expected: Mapping[str, Any]
    remedies: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.path.name} {self.flags}".strip()


def load_cases(folder: Path) -> list[Case]:
    """Every file as it is, and with the flags of each of its remedies.

    Raises:
        ValueError: expected.yaml and the folder disagree, or an entry is incomplete.
    """
    entries = yaml.safe_load((folder / "expected.yaml").read_text(encoding="utf-8"))
    others = {"expected.yaml", "README.md"}
    files = {p.name for p in folder.iterdir() if not p.name.startswith(".")} - others
    if files != set(entries):
        raise ValueError(f"only in one of folder and expected.yaml: {files ^ set(entries)}")
    return [case for name, entry in entries.items() for case in _cases(folder / name, entry)]


def _cases(path: Path, entry: Mapping[str, Any]) -> list[Case]:
    needed: dict[Any, tuple[set[str], set[str]]] = {
        True: ({"accepted", *ROLE_KEYS}, {*CHECKS, "also"}),
        False: ({"accepted", "message"}, set()),
        "question": ({"accepted", "message", "remedies"}, set()),
    }
    required, optional = needed[entry["accepted"]]
    if not required <= set(entry) <= required | optional:
        raise ValueError(f"{path.name}: has the keys {sorted(entry)}, needs {sorted(required)}")
    outcomes: dict[Any, ComparisonResult] = {
        True: "accepted",
        False: "refused",
        "question": "question",
    }
    more = [*entry.get("remedies", ()), *entry.get("also", ())]
    for one in more:
        unknown = set(one["then"]) - {*ROLE_KEYS, *CHECKS}
        if unknown or not one["then"]:
            raise ValueError(f"{path.name}: {one['flags']}: unknown or no keys {sorted(unknown)}")
    remedies = tuple(one["flags"] for one in entry.get("remedies", ()))
    first = Case(path, "", outcomes[entry["accepted"]], entry, remedies)
    return [first, *(Case(path, one["flags"], "accepted", one["then"]) for one in more)]


def options_of(flags: str) -> dict[str, Any]:
    """Flags of `seqattn data check` as keywords of Reading.

    `--series a,b --time none --skip-rows 5` is
    `{"series": ("a", "b"), "time": (), "skip_rows": 5}`. A comma stays a comma where the option is
    a delimiter, a decimal mark or a thousands mark.
    """
    found: dict[str, Any] = {}
    words = shlex.split(flags)
    for flag, value in zip(words[::2], words[1::2], strict=True):
        if not flag.startswith("--"):
            raise ValueError(f"{flag!r} in {flags!r} is no flag")
        key = flag.removeprefix("--").replace("-", "_")
        if key == "na":
            found["na_values"] = (value,)
        elif value == "none":
            found[key] = None if key == "thousands" else ()
        elif key in LISTS or key == "time":
            found[key] = tuple(value.split(","))
        else:
            found[key] = int(value) if key == "skip_rows" else value
    return found


# The report ---------------------------------------------------------------------------------------


def report_mistakes(report: Any, expected: Mapping[str, Any]) -> list[str]:
    """Where a report differs from what is expected, a sentence each; keys that are not expected are
    not compared.

    Args:
        report: has reading, ignored, sequences, rows, frequency, notes.
    """
    reading = report.reading
    time = ",".join(reading.time_columns) or None
    mistakes = [
        _series_mistake(reading.series_columns, expected.get("series", ANY)),
        _one_of_mistake("time", time, expected.get("time", ANY)),
        _features_mistake(reading.features, expected.get("features", ANY)),
        _one_of_mistake("sequences", report.sequences, expected.get("sequences", ANY)),
        _one_of_mistake("rows", report.rows, expected.get("rows", ANY)),
        _frequency_mistake(report.frequency, expected.get("frequency", ANY)),
        *_ignored_mistakes(report.ignored, expected.get("ignored")),
        *missing_words("notes", "\n".join(report.notes), expected.get("notes", ())),
    ]
    return [mistake for mistake in mistakes if mistake]


def missing_words(where: str, text: str, words: Iterable[str | Sequence[str]]) -> list[str]:
    """Words that a text lacks, in any case; a list of words: it lacks all of them."""
    folded = str(text).casefold()
    return [
        f"{where}: no {' or '.join(map(repr, _alternatives(word)))} in {text!r}"
        for word in words
        if not any(str(one).casefold() in folded for one in _alternatives(word))
    ]


def _alternatives(expected: Any) -> list[Any]:
    return list(expected) if isinstance(expected, list | tuple) else [expected]


def _series_mistake(found: Sequence[str], expected: Any) -> str:
    if expected == ANY or sorted(found) == sorted(expected):
        return ""
    return f"series: {list(found)}, expected {expected}"


def _features_mistake(found: Sequence[str], expected: Any) -> str:
    if expected == ANY:
        return ""
    same = len(found) == expected if isinstance(expected, int) else list(found) == expected
    return "" if same else f"features: {list(found)}, expected {expected}"


def _one_of_mistake(key: str, found: Any, expected: Any) -> str:
    if expected == ANY or found in _alternatives(expected):
        return ""
    return f"{key}: {found!r}, expected {expected!r}"


def _frequency_mistake(found: str | None, expected: Any) -> str:
    if expected == ANY:
        return ""
    for one in _alternatives(expected):
        plain = one is None or re.fullmatch(r"[\d.]+", one)
        if found == one or (not plain and (found or "").startswith(one)):
            return ""
    return f"frequency: {found!r}, expected {expected!r}"


def _ignored_mistakes(found: Mapping[str, str], expected: Mapping[str, Any] | None) -> list[str]:
    if expected is None:
        return []
    reasons = {plain_name(column): reason for column, reason in found.items()}
    wanted = {plain_name(column): words for column, words in expected.items()}
    mistakes = [f"ignored: {c!r} ({reasons[c]!r}), which is none of {list(wanted)}"
                for c in reasons if c not in wanted and c != ""]  # fmt: skip
    for column, words in wanted.items():
        if column in reasons:
            if words != ANY:
                mistakes += missing_words(f"reason of {column!r}", reasons[column], [words])
        elif column or words != ANY:  # an empty column without a name need not be mentioned
            mistakes.append(f"ignored: {column!r} is not, but {list(reasons)}")
    return mistakes


def plain_name(column: str) -> str:
    """'' for a column without a name, whatever a reader calls it."""
    return (
        "" if re.fullmatch(r"(unnamed: ?|column|col|_|#)?\d*", str(column).casefold()) else column
    )


# What a training made of it -----------------------------------------------------------------------


def trained_targets(section: str, folder: Path) -> tuple[list[str], NDArray[np.floating[Any]]]:
    """Names and (N, T, F) of what was to be forecast of the test part, after one epoch."""
    assert list(yaml.safe_load(section)) == ["data"]
    path = folder / "real.yaml"
    path.write_text(f"name: real\n{section}\n", encoding="utf-8")
    run, summary = experiments.train_one(
        resolve(path, TINY).config, folder / "outputs", plots=False
    )
    assert np.isfinite(summary["test_loss"])
    with np.load(run.path / "predictions.npz") as saved:
        key = next(k for k in ("target_features", "said", "features") if k in saved)
        return list(saved[key]), saved["target"]


def target_mistakes(
    names: Sequence[str], target: NDArray[np.floating[Any]], expected: Mapping[str, Any]
) -> list[str]:
    """Where targets of the test part cannot be what the file holds.

    Args:
        names: of the F target features.
        target: (N, T, F), in the file's units; NaN where nothing was observed.
    """
    mistakes = []
    for feature, (low, high) in expected.get("range", {}).items():
        values = target[..., _place(names, feature)]
        values = values[~np.isnan(values)]
        if not values.size:
            mistakes.append(f"{feature}: no target was observed")
            continue
        slack = 1e-5 * max(abs(low), abs(high))
        if values.min() < low - slack or values.max() > high + slack:
            mistakes.append(
                f"{feature}: targets from {values.min():g} to {values.max():g},"
                f" expected from {low:g} to {high:g}"
            )
    for feature in expected.get("rising", ()):
        for sequence in target[..., _place(names, feature)]:
            values = sequence[~np.isnan(sequence)]
            if (np.diff(values) < 0).any():
                mistakes.append(f"{feature}: falls in {values.tolist()}, rows are in a wrong order")
                break
    return mistakes


def _place(names: Sequence[str], feature: str | int) -> int:
    return feature if isinstance(feature, int) else list(names).index(feature)
