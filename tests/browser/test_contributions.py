"""The contributions of source steps on a page, held against those that Python computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seqattn.analysis.attributed_run import embed_sequence
from seqattn.analysis.attribution import attribute, shares_of_rows
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from tests.browser.conftest import Open, Opened
from tests.browser.word_runs import WordRuns

MINUS = "\N{MINUS SIGN}"
MAPS = "#contributions-maps svg[role=grid]"
NUMBER = rf" ({MINUS}?\d\.\d{{4}})[,.]"


def shown_numbers(found: Opened, folder: Path, k: int, row: int, column: int) -> None:
    """Check the numbers of a cell of test sequence k, in the line below and for screen readers."""
    _, trained = open_run(folder)
    one = attribute(embed_sequence(trained, load_splits(trained).test, k))
    words = found.text("#contributions-cell")
    shown = [float(number.replace(MINUS, "-")) for number in re.findall(NUMBER, words)]
    expected = [float(shares[row, column]) for shares in shares_of_rows(one).values()]
    assert shown == pytest.approx(expected, abs=2e-3 if one.error > 1e-4 else 2e-4)
    cells = found.page.locator(f"{MAPS} [role=gridcell]").all()
    assert [cell.get_attribute("aria-label") for cell in cells] == [words] * len(expected)


@pytest.mark.parametrize("name", ["dates", "squares", "plain"])
def test_a_cell_shows_its_numbers_in_all_heatmaps(
    name: str, opened: Open, runs: dict[str, Path], word_runs: WordRuns
) -> None:
    folder = word_runs[name] if name == "dates" else runs[name]
    page = word_runs.page(name) if name == "dates" else folder / "report.html"
    found = opened(page, until=MAPS)
    pictures = found.page.locator(MAPS)
    assert pictures.count() == (2 if name == "plain" else 3)
    assert "Point at a cell" in found.text("#contributions-cell")
    pictures.nth(1).scroll_into_view_if_needed()
    box = pictures.nth(1).locator("rect.cell").nth(1).bounding_box()
    assert box is not None
    found.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown_numbers(found, folder, 0, 0, 1)
    found.page.select_option("#contributions-example", index=3)
    assert found.text("#contributions-option").strip() == "--example 3"
    found.page.focus("#contributions-example")
    found.page.keyboard.press("Tab")
    shown_numbers(found, folder, 3, 0, 0)
    found.page.keyboard.press("ArrowDown")
    found.page.keyboard.press("ArrowRight")
    shown_numbers(found, folder, 3, 1, 1)
    for _ in range(40):
        found.page.keyboard.press("ArrowUp")
    shown_numbers(found, folder, 3, 0, 1)


@pytest.mark.parametrize("name", ["dates", "hostile"])
def test_heatmaps_stand_side_by_side_where_there_is_room(
    name: str, opened: Open, word_runs: WordRuns
) -> None:
    found = opened(word_runs.page(name), until=MAPS)
    for width, columns in ((1440, 3), (390, 1)):
        found.page.set_viewport_size({"width": width, "height": 900})
        places = f"[...document.querySelectorAll('{MAPS}')].map((e) => e.getBoundingClientRect())"
        if name == "dates":
            found.until(f"new Set({places}.map(({{left}}) => left)).size === {columns}")
        found.until(f"{places}.every(({{left, right}}) => left >= 0 && right <= {width})")
        found.until(f"document.documentElement.scrollWidth <= {width}")
