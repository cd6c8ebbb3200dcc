"""Pictures of sequences of symbols."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqattn.plots.style import with_style
from seqattn.runs.array_files import shorten_name

RIGHT, WRONG = "#0b6e4f", "#b3261e"  # colors of outputs, beside the word "wrong"
MAX_LETTERS = 70
"""Longest line of a picture. An ellipsis stands for what is left out of a longer text."""
MAX_LETTERS_BEFORE = 20
"""Letters of a long output that are shown before its first wrong one."""
SPACE = "\N{OPEN BOX}"
"""How a space is shown where symbols are characters."""


def shown_symbols(symbols: Sequence[str]) -> list[str]:
    """Return symbols as they are written beside a heatmap."""
    return [SPACE if symbol == " " else symbol for symbol in symbols]


def shorten_pair(output: str, target: str) -> tuple[str, str]:
    """Return an output and its target, each shortened to `MAX_LETTERS`, such that both show the
    first place where they differ, at the same column."""
    if output == target:
        return shorten_name(output, MAX_LETTERS), shorten_name(target, MAX_LETTERS)
    pairs = zip(output, target, strict=False)
    shorter = min(len(output), len(target))
    first = next((k for k, (one, other) in enumerate(pairs) if one != other), shorter)
    longest = max(len(output), len(target))
    start = max(0, min(first - MAX_LETTERS_BEFORE, longest - MAX_LETTERS))

    def excerpt(text: str) -> str:
        shown = text[start : start + MAX_LETTERS]
        shown = "…" + shown[1:] if start else shown
        return shown[:-1] + "…" if len(text) > start + MAX_LETTERS else shown

    return excerpt(output), excerpt(target)


@with_style
def texts_figure(
    sources: Sequence[str], outputs: Sequence[str], targets: Sequence[str], titles: Sequence[str]
) -> Figure:
    """Draw sources, outputs and true targets as lines of text. A wrong output is marked.

    Args:
        sources: the source of each sequence.
        outputs: the output of the model for each sequence.
        targets: the true target of each sequence.
        titles: the name of each sequence.
    """
    n = len(sources)
    figure = Figure(figsize=(8.0, 0.3 + 0.72 * n))
    height = 1 / (0.3 + 0.72 * n)
    rows = zip(titles, sources, outputs, targets, strict=True)
    for k, (title, source, output, target) in enumerate(rows):
        is_right = output == target
        top = 1 - (0.2 + 0.72 * k) * height
        shown_output, shown_target = shorten_pair(output, target)
        lines = [(title, shorten_name(source, MAX_LETTERS), "#555555"),
                 ("output" if is_right else "output, wrong", shown_output,
                  RIGHT if is_right else WRONG),
                 ("true", shown_target, "#222222")]  # fmt: skip
        for i, (name, text, color) in enumerate(lines):
            y = top - i * 0.2 * height
            figure.text(0.02, y, name, fontsize=9, va="top", color="#555555")
            figure.text(0.2, y, text, fontsize=9, va="top", color=color, family="monospace",
                        parse_math=False)  # fmt: skip
    return figure
