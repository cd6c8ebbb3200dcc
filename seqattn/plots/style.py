"""Style, layout and labels of all figures.

The line colors are from the colorblind-safe palette of Okabe and Ito (2008). Most lines also differ
in their dashes, markers or widths. Names from files are drawn literally: a `$` does not start a
formula, and control characters except line breaks are escaped.
"""

from __future__ import annotations

import functools
import io
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

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
POINTS_PER_INCH = 72.0
DATE_OFFSETS = ["", "%Y", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d %H:%M"]
"""The format of the date below an axis, for ticks at years, months, days, hours, minutes and
seconds."""
FORMATS = ("png", "svg", "pdf")
"""File name endings that `as_bytes` supports."""
CAPTION_SIZE, CAPTION_COLOR = 7.0, "#5f5f5f"  # points
COLUMN_WIDTH = 6.5  # inches, of a column of text into which a figure must fit
DISTANCES = (4.0, 8.0, 13.0, 19.0, 26.0, 34.0)  # from a point to the edge of its label, in points
MAX_BARE_DISTANCE = 8.0  # a label at a larger distance has a line to its point
NUM_DIRECTIONS = 16
OUTSIDE = 1e3  # cost of an area outside the panel, relative to an overlap of the same area


def with_style(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Decorate a drawing function so that the settings in `STYLE` override the caller's matplotlib
    settings."""

    @functools.wraps(draw)
    def draw_with_style(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return draw_with_style


def as_bytes(figure: Figure, ending: str = "png") -> bytes:
    """Return a figure as the content of a picture file. Equal figures give equal bytes.

    Args:
        ending: the ending of the file name, one of `FORMATS`.
    """
    no_date = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        if ending == "png":
            FigureCanvasAgg(figure)
        if (layout := figure.get_layout_engine()) is not None:
            # If the layout engine runs once and is then removed, the figure is drawn only once. The
            # engine "none" would leave a placeholder that draws the figure again.
            layout.execute(figure)
            figure.set_layout_engine(None)
        for text in figure.findobj(Text):
            assert isinstance(text, Text)
            if not (label := text.get_text()).isprintable():
                text.set_text(_escape_control(label))
            if not label.isascii() and (more := fonts_with(lacking_characters(label))):
                text.set_fontfamily([*text.get_fontfamily(), *more])
        with warnings.catch_warnings():
            # A character that all fonts lack is drawn as a box.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(buffer, format=ending, dpi=DPI, metadata=no_date[ending])
    return buffer.getvalue()


def lacking_characters(text: str) -> str:
    """Return the characters of a text that the font of all figures lacks, each once."""
    known = _characters_of(findfont(FontProperties()))
    return "".join(
        one for one in dict.fromkeys(text) if one.isprintable() and ord(one) not in known
    )


def fonts_with(characters: str) -> list[str]:
    """Return the names of installed fonts that have the characters, as far as there are any."""
    return list(dict.fromkeys(font for font in map(_font_with, characters) if font is not None))


@functools.cache
def _font_with(character: str) -> str | None:
    """Return the name of the first installed font that has a character."""
    fonts = sorted(fontManager.ttflist, key=lambda font: (font.name, font.fname))
    return next((font.name for font in fonts if ord(character) in _characters_of(font.fname)), None)


@functools.cache
def _characters_of(path: str) -> frozenset[int]:
    """Return the code points that a font has, without those that stand for a missing one."""
    try:
        found = frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):  # a font that was removed, or that matplotlib cannot read
        return frozenset()
    return frozenset() if "LastResort" in path else found


def as_gif(figures: Iterable[Figure], seconds: float = 0.4) -> bytes:
    """Return the content of a GIF file. The animation repeats endlessly.

    Each repetition shows the last frame for two seconds.

    Args:
        figures: the frames in order.
        seconds: the duration of each frame except the last, in seconds.
    """
    from PIL import Image  # Pillow is a dependency of matplotlib

    images = [Image.open(io.BytesIO(as_bytes(figure))).convert("RGB") for figure in figures]
    size = (max(image.width for image in images), max(image.height for image in images))
    frames = []
    for image in images:
        frame = Image.new("RGB", size, "white")
        frame.paste(image, (0, 0))
        frames.append(frame.quantize(128, dither=Image.Dither.NONE))
    times = [int(1000 * seconds)] * (len(frames) - 1) + [2000]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return buffer.getvalue()


def _escape_control(text: str) -> str:
    """Return the text with all unprintable characters except line breaks escaped."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def grid_shape(panels: int, panel_width: float, *, max_width: float = 14.0) -> tuple[int, int]:
    """Choose the number of rows and columns of a grid of panels, with at most five columns.

    Args:
        panel_width: the width of a panel in inches.
        max_width: the maximum width of all columns together in inches.
    """
    columns = max(1, min(5, panels, int(max_width / panel_width)))
    rows = math.ceil(panels / columns)
    return rows, math.ceil(panels / rows)


def panel_grid(shape: tuple[int, int], count: int) -> tuple[Figure, list[Axes]]:
    """Create a figure with a grid of panels, and return the figure and the first `count` panels.

    Args:
        shape: the number of rows and the number of columns.
        count: the number of panels to use. The other panels stay empty.
    """
    figure = Figure()
    panels = list(figure.subplots(*shape, squeeze=False).ravel())
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure, panels[:count]


def set_layout(
    figure: Figure, panel: tuple[float, float], shape: tuple[int, int], *, left: float,
    right: float, bottom: float, top: float, gaps: tuple[float, float] = (0.0, 0.0),
) -> None:  # fmt: skip
    """Set the size and the margins of a figure with panels of one size. All lengths are in inches.

    Some figures use this function instead of a layout engine of matplotlib. A layout engine draws
    every text several times, and for ten panels, this takes longer than drawing the figure. To
    determine the margins, callers of this function measure only the labels whose size differs
    between figures.

    Args:
        panel: the width and the height of the axes of one panel.
        shape: the number of rows and the number of columns.
        left, right, bottom, top: the margins around all panels.
        gaps: the horizontal and the vertical distance between two panels.
    """
    rows, columns = shape
    width = left + columns * panel[0] + (columns - 1) * gaps[0] + right
    height = bottom + rows * panel[1] + (rows - 1) * gaps[1] + top
    figure.set_size_inches(width, height)
    figure.subplots_adjust(
        left=left / width, right=1 - right / width, bottom=bottom / height, top=1 - top / height,
        wspace=gaps[0] / panel[0], hspace=gaps[1] / panel[1],
    )  # fmt: skip


def draw_caption(figure: Figure, caption: str, width: float) -> float:
    """Write a caption in small letters at the bottom of a figure that will have a width in inches,
    and return the height of the caption in inches.

    The letters have `CAPTION_SIZE` points if the figure is as wide as a column of text. A wider
    figure, which is made smaller to fit into a column, has letters of up to three times this size.
    """
    size = CAPTION_SIZE * float(np.clip(width / COLUMN_WIDTH, 1.0, 3.0))
    wrapped = wrap_text(caption, width - 0.2, size)
    figure.text(
        0.1, 0.05, wrapped, transform=figure.dpi_scale_trans, fontsize=size, color=CAPTION_COLOR,
        va="bottom",
    )  # fmt: skip
    return title_height([wrapped], size)


def label_axes(figure: Figure, horizontal: str, vertical: str, *, below: float = 0.0) -> None:
    """Write a common label for all horizontal axes, and a common label for all vertical axes.

    Args:
        below: the height of what is below the label of the horizontal axes, in inches.
    """
    width, height = figure.get_size_inches()
    figure.supxlabel(horizontal, y=(0.07 + below) / height, fontsize=9)
    figure.supylabel(vertical, x=0.07 / width, fontsize=9)


def text_width(texts: Iterable[str], size: float) -> float:
    """Return the width of the widest string in inches.

    Args:
        texts: the strings, which are drawn in the font of the figures.
        size: the font size in points.
    """
    font = FontProperties(size=size)
    widths = [text_to_path.get_text_width_height_descent(text, font, False)[0] for text in texts]
    return max(widths, default=0.0) / POINTS_PER_INCH


def wrap_text(text: str, width: float, size: float) -> str:
    """Return a text with line breaks between words, so that no line is wider than a width, unless
    a single word is.

    Args:
        width: the width in inches.
        size: the font size in points.
    """
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width([longer], size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def tick_width(axis: Axis, size: float) -> float:
    """Return the width of the widest tick label in inches, including the labels of minor ticks.

    Args:
        size: the font size in points.
    """
    labels = axis.get_ticklabels(which="both")
    return text_width((label.get_text() for label in labels), size)


def title_height(titles: Iterable[str], size: float) -> float:
    """Return the height of the tallest panel title, including the space below the title, in inches.

    Args:
        size: the font size in points.
    """
    lines = max((title.count("\n") + 1 for title in titles), default=0)
    return (lines * size * 1.2 + 7) / POINTS_PER_INCH


def tick_positions(count: int, max_ticks: int) -> list[int]:
    """Return at most `max_ticks` evenly spaced indices below `count`, starting at 0."""
    return list(range(0, count, max(1, math.ceil(count / max_ticks))))


def set_epoch_ticks(axis: Axis, epochs: Sequence[int]) -> None:
    """Set the ticks of an axis of epochs: the first and the last epoch, and round numbers between
    them."""
    first, last = epochs[0], epochs[-1]
    locator = MaxNLocator(7, integer=True, steps=[1, 2, 5, 10])
    between = locator.tick_values(first, last)
    gap = 0.6 * (between[1] - between[0])
    inner = [int(tick) for tick in between if first + gap <= tick <= last - gap]
    axis.set_ticks(sorted({first, *inner, last}))


def set_date_ticks(axis: Axis, max_ticks: int) -> None:
    """Set about `max_ticks` ticks of an axis of dates. The part that all dates share is below the
    axis."""
    # An axis of 47 hours has ticks every 12 hours, which is the largest interval of the locator.
    # One more tick lets these intervals cover all axes that are too short for the next unit.
    maxticks = dict.fromkeys((dates.YEARLY, dates.DAILY, dates.MICROSECONDLY), max_ticks)
    shorter = (dates.MONTHLY, dates.HOURLY, dates.MINUTELY, dates.SECONDLY)
    maxticks |= dict.fromkeys(shorter, max_ticks + 1)
    locator = dates.AutoDateLocator(minticks=2, maxticks=maxticks)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(
        dates.ConciseDateFormatter(locator, offset_formats=DATE_OFFSETS)  # type: ignore[no-untyped-call]
    )


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Label:
    """A label of a point.

    Attributes:
        text: the text.
        point: (2,), the coordinates of the point in the units of the axes.
        away_from: (2,), a position in the same units. If there is space, the label is on the other
            side of the point.
        color: the color of the text.
    """

    text: str
    point: Floats
    away_from: Floats
    color: str


def place_labels(
    axes: Axes, labels: Sequence[Label], size: float, obstacles: Floats, radius: float
) -> None:
    """Draw labels next to their points.

    Each label is drawn at the nearest possible place where it is inside the panel and overlaps no
    earlier label and no obstacle. If there is no such place, the label is drawn at the place with
    the smallest sum of the overlap and `OUTSIDE` times the area outside the panel. The limits of
    the axes and the layout of the figure must not change later.

    Args:
        labels: the labels, with the most important label first.
        size: the font size in points.
        obstacles: (n, 2), the coordinates of markers, in the units of the axes.
        radius: the radius of the markers in points.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = POINTS_PER_INCH / figure.dpi
    markers = axes.transData.transform(obstacles.reshape(-1, 2)) * scale
    boxes = np.hstack([markers - radius, markers + radius])
    panel = np.array(axes.get_window_extent().extents) * scale
    for label in labels:
        half = np.array([text_width([label.text], size) * POINTS_PER_INCH, size]) / 2
        point, away = axes.transData.transform([label.point, label.away_from]) * scale
        offsets, distances = _candidates(point - away, half)
        centers = point + offsets
        places = np.hstack([centers - half, centers + half])
        costs = _overlaps(places, boxes).sum(axis=1)
        area = 4 * half.prod()
        costs += OUTSIDE * (area - _overlaps(places, panel[None])[:, 0])
        best = int(np.argmin(np.round(costs, 3)))
        boxes = np.vstack([boxes, places[best]])
        is_far = distances[best] > MAX_BARE_DISTANCE
        text = axes.annotate(
            label.text, tuple(label.point), xytext=tuple(offsets[best]), fontsize=size,
            textcoords="offset points", ha="center", va="center_baseline", color=label.color,
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.4, "shrinkB": 0, "shrinkA": 0}
            if is_far else None, zorder=6,
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=1.6, foreground="white")])


def _candidates(preferred: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Return the possible offsets of the center of a label from its point, with the best offset
    first.

    Args:
        preferred: (2,), the preferred direction; zeros for no preference.
        half: (2,), half the width and half the height of the label.

    Returns:
        The offsets (n, 2) and the distances (n,) from the point to the edge of the label, in
        points.
    """
    angles = np.arange(NUM_DIRECTIONS) * 2 * np.pi / NUM_DIRECTIONS
    turn = angles - np.arctan2(preferred[1], preferred[0]) if preferred.any() else angles
    angles = angles[np.argsort(-np.cos(turn), kind="stable")]
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with np.errstate(divide="ignore"):
        to_edge = (half / np.abs(directions)).min(axis=1)  # from the center of the label
    distances = np.repeat(DISTANCES, NUM_DIRECTIONS)
    lengths = distances + np.tile(to_edge, len(DISTANCES))
    return np.tile(directions, (len(DISTANCES), 1)) * lengths[:, None], distances


def _overlaps(one: Floats, other: Floats) -> Floats:
    """Return the overlap areas (n, m) of each of n boxes with each of m boxes. Each row of an
    argument is a box (left, bottom, right, top)."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2))
