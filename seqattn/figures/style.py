"""How every picture looks: plain, for light print, safe for colour-blind readers.

Line colours are those of Okabe and Ito (2008); each line also differs by its dashes or marker.
Names from files are drawn as they are: a '$' starts no formula.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")

BLACK, GREY = "#222222", "#7a7a7a"
BLUE, SKY, GREEN = "#0072b2", "#56b4e9", "#009e73"
ORANGE, VERMILION, PURPLE = "#e69f00", "#d55e00", "#cc79a7"

STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": BLACK,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "legend.frameon": False,
    "text.parse_math": False,
    "savefig.facecolor": "white",
    "svg.hashsalt": "seqattn",
}
DPI = 120


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Draw with the house style, whatever the caller's settings are."""

    @functools.wraps(draw)
    def with_style(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return with_style


def formats() -> tuple[str, ...]:
    """Endings of the files that `as_bytes` can make."""
    return ("png", "svg", "pdf")


def as_bytes(figure: Figure, ending: str = "png") -> bytes:
    """A figure as the content of a file; the same figure gives the same bytes.

    Args:
        ending: one of `formats()`.
    """
    no_date = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        if ending == "png":
            FigureCanvasAgg(figure)
        if (layout := figure.get_layout_engine()) is not None:
            # Done here, it needs no drawing for the sake of the layout before the one that counts.
            layout.execute(figure)
            figure.set_layout_engine("none")
        figure.savefig(buffer, format=ending, dpi=DPI, metadata=no_date[ending])
    return buffer.getvalue()


def grid(panels: int, panel_width: float, *, most_width: float = 14.0) -> tuple[int, int]:
    """Rows and columns for some panels: five a row where they fit."""
    columns = max(1, min(5, panels, int(most_width / panel_width)))
    rows = math.ceil(panels / columns)
    return rows, math.ceil(panels / rows)


def thinned(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced places out of `count`, from the first."""
    return list(range(0, count, max(1, math.ceil(count / most))))
