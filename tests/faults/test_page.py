"""The page of what came of the faults."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.faults import Tally, render_exit_codes
from tests.faults.torture import FAULTS, MARK, page


def test_rows_that_were_not_measured_anew_stay() -> None:
    before = page({name: Tally(tried=7, remarks=[f"of {name}."]) for name in FAULTS})
    after = page({"yaml": Tally(tried=8, failures=["a: b"], remarks=["anew."])}, before)
    differing = set(after.splitlines()) - set(before.splitlines())
    assert {line.split("|")[1:8][-1].strip() for line in differing if line[0] == "|"} == {"1"}
    assert sorted(line.rpartition(": ")[2] for line in differing if line[0] == "-") == [
        "anew.",
        "b.",
    ]
    assert len(before.splitlines()) + 1 == len(after.splitlines())


def test_the_page_knows_every_row_by_its_words() -> None:
    """A fault whose words have changed has no row until it is measured again."""
    text, _, _ = (ROOT / "docs" / "reliability.md").read_text().partition(MARK)
    rows = [line.split(" | ")[:3] for line in text.splitlines() if line[:1] == "|"]
    assert rows[2:] == [
        [f"| `{name}`", fault.description, fault.required] for name, fault in FAULTS.items()
    ]


def test_exit_codes_are_a_sentence() -> None:
    assert render_exit_codes({6: 1, 0: 3}) == (
        "Of 4 commands, 3 ended with exit code 0 and 1 with exit code 6."
    )
    assert render_exit_codes({130: 2}) == "Of 2 commands, 2 ended with exit code 130."
