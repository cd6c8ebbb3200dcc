"""How every picture looks: plain, for light print, safe for colour-blind readers.

Line colours are those of Okabe and Ito (2008); each line also differs by its dashes or marker.
Names from files are drawn as they are: a '$' starts no formula, and control signs are spelt out.
"""

from __future__ import annotations

import functools
import io
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

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
POINTS = 72.0  # an inch


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
            # Done here and then taken away, it needs no drawing for its sake before the one that
            # counts. "none" would leave a placeholder, and the drawing with it.
            layout.execute(figure)
            figure.set_layout_engine(None)
        for text in figure.findobj(Text):
            assert isinstance(text, Text)
            if not (label := text.get_text()).isprintable():
                text.set_text(_escape_control(label))
        with warnings.catch_warnings():
            # A letter that the font lacks is drawn as a box; nobody can do anything about it here.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(buffer, format=ending, dpi=DPI, metadata=no_date[ending])
    return buffer.getvalue()


def as_moving(figures: Iterable[Figure], seconds: float = 0.4) -> bytes:
    """Figures one after the other, as an animated GIF that begins again; the last stays longer.

    Args:
        seconds: that each is shown.
    """
    from PIL import Image  # matplotlib's own library for pictures

    shown = [Image.open(io.BytesIO(as_bytes(figure))).convert("RGB") for figure in figures]
    size = (max(each.width for each in shown), max(each.height for each in shown))
    frames = []
    for each in shown:
        frame = Image.new("RGB", size, "white")
        frame.paste(each, (0, 0))
        frames.append(frame.quantize(128, dither=Image.Dither.NONE))
    times = [int(1000 * seconds)] * (len(frames) - 1) + [2000]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return buffer.getvalue()


def _escape_control(text: str) -> str:
    """Text with its control characters escaped, except line breaks."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def grid(panels: int, panel_width: float, *, most_width: float = 14.0) -> tuple[int, int]:
    """Rows and columns for some panels: five a row where they fit."""
    columns = max(1, min(5, panels, int(most_width / panel_width)))
    rows = math.ceil(panels / columns)
    return rows, math.ceil(panels / rows)


def panel_grid(shape: tuple[int, int], count: int) -> tuple[Figure, list[Axes]]:
    """A figure of rows and columns, and its first `count` panels; the others are left empty."""
    figure = Figure()
    panels = list(figure.subplots(*shape, squeeze=False).ravel())
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure, panels[:count]


def arrange(
    figure: Figure, panel: tuple[float, float], shape: tuple[int, int], *, left: float,
    right: float, bottom: float, top: float, gaps: tuple[float, float] = (0.0, 0.0),
) -> None:  # fmt: skip
    """Give a figure of equal panels its size and its margins, all in inches.

    A layout engine finds the same by drawing every text several times, which for ten panels
    takes longer than to draw them; here only what differs from figure to figure is measured.

    Args:
        panel: width and height of the inside of one.
        shape: rows and columns.
        left, right, bottom, top: around all panels.
        gaps: between two panels of a row, and of a column.
    """
    rows, columns = shape
    width = left + columns * panel[0] + (columns - 1) * gaps[0] + right
    height = bottom + rows * panel[1] + (rows - 1) * gaps[1] + top
    figure.set_size_inches(width, height)
    figure.subplots_adjust(
        left=left / width, right=1 - right / width, bottom=bottom / height, top=1 - top / height,
        wspace=gaps[0] / panel[0], hspace=gaps[1] / panel[1],
    )  # fmt: skip


def name_axes(figure: Figure, horizontal: str, vertical: str) -> None:
    """One name for the horizontal axes of all panels, and one for the vertical ones."""
    width, height = figure.get_size_inches()
    figure.supxlabel(horizontal, y=0.07 / height, fontsize=9)
    figure.supylabel(vertical, x=0.07 / width, fontsize=9)


def text_width(texts: Iterable[str], size: float) -> float:
    """Inches of the longest, in the font of every picture.

    Args:
        size: of the letters, in points.
    """
    font = FontProperties(size=size)
    widths = [text_to_path.get_text_width_height_descent(text, font, False)[0] for text in texts]
    return max(widths, default=0.0) / POINTS


def tick_width(axis: Axis, size: float) -> float:
    """Inches of the longest tick label, of minor ticks too."""
    labels = axis.get_ticklabels(which="both")
    return text_width((label.get_text() for label in labels), size)


def title_height(titles: Iterable[str], size: float) -> float:
    """Inches that titles above their panels take, the space below them included."""
    lines = max((title.count("\n") + 1 for title in titles), default=0)
    return (lines * size * 1.2 + 7) / POINTS


def shortened(name: str, most: int) -> str:
    """A name of at most `most` letters, its middle left out: long names often begin alike."""
    half = most // 2
    return name if len(name) <= most else f"{name[: most - half - 1]}…{name[-half:]}"


def thinned(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced places out of `count`, from the first."""
    return list(range(0, count, max(1, math.ceil(count / most))))
