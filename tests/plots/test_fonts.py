"""Characters that the font of all figures lacks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from matplotlib import get_data_path
from matplotlib.figure import Figure

from seqattn.plots import style
from seqattn.plots.run_pictures import characters_without_font
from seqattn.plots.style import as_bytes, fonts_with, lacking_characters

HAN, OTHER = "猫", "ह"


def test_greek_cyrillic_and_hebrew_have_a_font_and_others_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(style, "fontManager", SimpleNamespace(ttflist=[]))
    style._font_with.cache_clear()
    assert lacking_characters("Ελλάδα привет שלום سلام é") == ""
    assert lacking_characters(f"a{HAN}b{HAN}{OTHER}") == HAN + OTHER
    figure = Figure()
    figure.text(0, 0, f"cat {HAN}{OTHER}")
    assert characters_without_font(figure) == f"{HAN} {OTHER}"
    assert as_bytes(figure).startswith(b"\x89PNG")
    style._font_with.cache_clear()


def test_another_font_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A font of mathematics, which matplotlib brings along, has a letter that DejaVu Sans lacks."""
    path = f"{get_data_path()}/fonts/ttf/STIXGeneral.ttf"
    letter = next(
        chr(point) for point in sorted(style._characters_of(path))
        if lacking_characters(chr(point))
    )  # fmt: skip
    fonts = [SimpleNamespace(name="STIXGeneral", fname=path)]
    monkeypatch.setattr(style, "fontManager", SimpleNamespace(ttflist=fonts))
    style._font_with.cache_clear()
    assert fonts_with(letter) == ["STIXGeneral"]
    figure = Figure()
    text = figure.text(0, 0, letter)
    assert characters_without_font(figure) == ""
    as_bytes(figure)
    assert text.get_fontfamily()[-1] == "STIXGeneral"
    style._font_with.cache_clear()
