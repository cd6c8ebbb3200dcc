"""Tables as people have them: roles that are found, questions that are asked, sections that train.

SEQATTN_REAL_FILES names one more folder with files and an expected.yaml.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seqattn.data import inspect as reader
from seqattn.data.reading import name_origin
from seqattn.errors import AmbiguousData, DataError
from tests.real_files import (
    FOLDER,
    Case,
    load_cases,
    missing_words,
    options_of,
    report_mistakes,
    target_mistakes,
    trained_targets,
)

FOLDERS = [
    FOLDER,
    FOLDER.with_name("cases"),
    *map(Path, filter(None, [os.environ.get("SEQATTN_REAL_FILES")])),
]
CASES = [case for folder in FOLDERS for case in load_cases(folder)]


def named(outcome: str) -> list[object]:
    return [pytest.param(case, id=case.name) for case in CASES if case.outcome == outcome]


@pytest.mark.parametrize("case", named("accepted"))
def test_roles_are_found_and_the_section_trains(case: Case, tmp_path: Path) -> None:
    with name_origin("options"):
        report = reader.inspect_file(case.path, reader.Reading(**options_of(case.flags)))
    mistakes = report_mistakes(report, case.expected)
    assert not mistakes, "\n".join([case.name, *mistakes, report.section])

    names, target = trained_targets(report.section, tmp_path)
    mistakes = target_mistakes(names, target, case.expected)
    assert not mistakes, "\n".join([case.name, *mistakes, report.section])


@pytest.mark.parametrize("case", named("question"))
def test_what_has_two_readings_is_asked(case: Case) -> None:
    with pytest.raises(AmbiguousData) as caught, name_origin("options"):
        reader.inspect_file(case.path, reader.Reading())
    message = str(caught.value)
    flags = [word for remedy in case.remedies for word in remedy.split() if word.startswith("--")]
    mistakes = missing_words("message", message, [case.path.name, flags, *case.expected["message"]])
    assert not mistakes, "\n".join(mistakes)


@pytest.mark.parametrize("case", named("refused"))
def test_what_no_flag_can_mend_is_refused(case: Case) -> None:
    with pytest.raises(DataError) as caught:
        reader.inspect_file(case.path, reader.Reading())
    assert not isinstance(caught.value, AmbiguousData), caught.value
    message = str(caught.value)
    mistakes = missing_words("message", message, [case.path.name, *case.expected["message"]])
    assert not mistakes, "\n".join(mistakes)
