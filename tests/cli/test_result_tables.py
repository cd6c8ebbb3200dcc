"""Tables of variants on terminals of any width."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from seqattn.analysis.comparison import tables
from seqattn.analysis.knock_out import HeadCost, KnockOut
from seqattn.cli.result_tables import print_knock_out, print_variants
from tests.conftest import Ended

Command = Callable[..., Ended]


@pytest.mark.parametrize("width", [50, 60, 80, 200])
def test_a_table_of_variants_cuts_no_number(width: int, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    headings = ["variant", "median loss [95%]", "mean loss [95%]", "worst (seed)", "seconds"]
    cells = ["0.7574 [0.6510, 0.8069]", "0.7374 [0.6510, 0.8069]", "0.8069 (25)", "0.1"]
    names = ["score-additive_learning_rate-0.01_hidden-4", "dot"]
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(
        tables, "variant_table", lambda arms: (headings, [[name, *cells] for name in arms])
    )
    for shown in (names, names[:1]):
        print_variants("t", shown)  # type: ignore[arg-type]
        output = capsys.readouterr().out
        assert output.count(cells[0]) == len(shown)
        assert max(map(len, output.splitlines())) <= width
        assert (cells[2] in output) == (width > 50 or len(shown) == 1)
        assert (cells[1] in output) == (width >= (200 if len(shown) > 1 else 80))
    assert "dot" not in output
    alike = ["漢字" * 11 + last for last in "甲乙"]
    print_variants("t", alike)  # type: ignore[arg-type]
    output = capsys.readouterr().out
    assert "甲" in output
    assert "乙" in output
    assert (alike[0] in output) == (width == 200)
    assert all(cell_len(line) <= width for line in output.splitlines())
    print_variants("t", ["dot", "mine"])  # type: ignore[arg-type]
    assert "variant" in capsys.readouterr().out  # although the heading is longer than the names


@pytest.mark.parametrize(("sequences", "overlapping"), [(5, False), (6, True)])
def test_p_values_of_few_or_overlapping_sequences(
    sequences: int, overlapping: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wilcoxon's test of n pairs has a p-value of 2^(1 - n) or more: 0.0625 of 5, 0.03 of 6."""
    rmse = {"rmse": 1.0}
    cost = HeadCost("cross", 0, 0, rmse, rmse, sequences, 0, 0, 0.5 ** (sequences - 1))
    print_knock_out(KnockOut(sequences, False, rmse, [cost]), overlapping=overlapping)
    text = " ".join(capsys.readouterr().out.split())
    assert ("With only 5 sequences, p cannot fall below 0.05." in text) == (sequences == 5)
    assert ("overlapping windows, so p is too small" in text) == overlapping
