"""Pictures of sequences of symbols."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqattn.plots.style import with_style

MAX_LETTERS = 70
"""Longest line of a picture; the rest of a longer text is left out."""
SPACE = "\N{OPEN BOX}"
"""How a space is shown where symbols are characters."""


def shown_symbols(symbols: Sequence[str]) -> list[str]:
    """Return symbols as they are written beside a heatmap."""
    return [SPACE if symbol == " " else symbol for symbol in symbols]


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
        lines = [(title, source, "#555555"),
                 ("output" if is_right else "output, wrong", output,
                  "#0b6e4f" if is_right else "#b3261e"),
                 ("true", target, "#222222")]  # fmt: skip
        for i, (name, text, color) in enumerate(lines):
            y = top - i * 0.2 * height
            shown = text if len(text) <= MAX_LETTERS else text[: MAX_LETTERS - 1] + "…"
            figure.text(0.02, y, name, fontsize=8, va="top", color="#555555")
            figure.text(0.2, y, shown, fontsize=9, va="top", color=color, family="monospace",
                        parse_math=False)  # fmt: skip
    return figure
