"""Tables as people have them: roles that are found, questions that are asked, sections that train.

SEQATTN_REAL_FILES names one more folder with files and an expected.yaml.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from seqattn import experiment
from seqattn.config import resolve
from seqattn.data.inspect import InspectOptions, inspect_file
from seqattn.errors import AmbiguousData, DataError
from tests.real_files import (
    FOLDER,
    Case,
    load_cases,
    missing_words,
    options_of,
    report_mistakes,
    target_mistakes,
)

FOLDERS = [FOLDER, *map(Path, filter(None, [os.environ.get("SEQATTN_REAL_FILES")]))]
CASES = [case for folder in FOLDERS for case in load_cases(folder)]
TINY = [
    "training.epochs=1", "training.batch_size=256", "training.checkpoint_seconds=3600",
    "model.hidden_dim=2",
]  # fmt: skip


def named(outcome: str) -> list[object]:
    return [pytest.param(case, id=case.name) for case in CASES if case.outcome == outcome]


@pytest.mark.parametrize("case", named("accepted"))
def test_roles_are_found_and_the_section_trains(case: Case, tmp_path: Path) -> None:
    report = inspect_file(case.path, InspectOptions(**options_of(case.flags)))
    mistakes = report_mistakes(report, case.expected)
    assert not mistakes, "\n".join([case.name, *mistakes, report.section])

    names, target = trained_targets(report.section, tmp_path)
    mistakes = target_mistakes(names, target, case.expected)
    assert not mistakes, "\n".join([case.name, *mistakes, report.section])


def trained_targets(section: str, folder: Path) -> tuple[list[str], np.ndarray]:
    """Names and (N, T, F) of what was to be forecast of the test part, after one epoch."""
    assert list(yaml.safe_load(section)) == ["data"]
    path = folder / "real.yaml"
    path.write_text(f"name: real\n{section}\n", encoding="utf-8")
    run, summary = experiment.run(resolve(path, TINY).config, folder / "outputs", plots=False)
    assert np.isfinite(summary["test_loss"])
    with np.load(run.path / "predictions.npz") as saved:
        key = next(k for k in ("target_features", "said", "features") if k in saved)
        return list(saved[key]), saved["target"]


@pytest.mark.parametrize("case", named("question"))
def test_what_has_two_readings_is_asked(case: Case) -> None:
    with pytest.raises(AmbiguousData) as caught:
        inspect_file(case.path, InspectOptions())
    message = str(caught.value)
    flags = [word for remedy in case.remedies for word in remedy.split() if word.startswith("--")]
    mistakes = missing_words("message", message, [case.path.name, flags, *case.expected["message"]])
    assert not mistakes, "\n".join(mistakes)


@pytest.mark.parametrize("case", named("refused"))
def test_what_no_flag_can_mend_is_refused(case: Case) -> None:
    with pytest.raises(DataError) as caught:
        inspect_file(case.path, InspectOptions())
    assert not isinstance(caught.value, AmbiguousData), caught.value
    message = str(caught.value)
    mistakes = missing_words("message", message, [case.path.name, *case.expected["message"]])
    assert not mistakes, "\n".join(mistakes)
