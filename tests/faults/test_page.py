"""The page of what came of the faults."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.faults import Tally
from tests.faults.torture import FAULTS, MARK, page


def test_rows_that_were_not_measured_anew_stay() -> None:
    before = page({name: Tally(tried=7, remarks=[f"of {name}"]) for name in FAULTS})
    after = page({"yaml": Tally(tried=8, failures=["a: b"], remarks=["anew"])}, before)
    differing = set(after.splitlines()) - set(before.splitlines())
    assert {line.split("|")[1:6][-1].strip() for line in differing if line[0] == "|"} == {"1"}
    assert sorted(line.rpartition(": ")[2] for line in differing if line[0] == "-") == [
        "anew.",
        "b.",
    ]
    assert len(before.splitlines()) + 1 == len(after.splitlines())


def test_the_page_knows_every_row_by_its_words() -> None:
    """A fault whose words have changed has no row until it is measured again."""
    text, _, _ = (ROOT / "docs" / "reliability.md").read_text().partition(MARK)
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line[:1] == "|"
    ]
    assert rows[2:] == [what for what, _ in FAULTS.values()]
