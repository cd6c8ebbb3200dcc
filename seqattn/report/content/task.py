"""Sentences that explain tasks and baselines to readers who do not know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from seqattn.config import (
    Config,
    Copy,
    Dates,
    Drawn,
    Grammar,
    Lag,
    Numbers,
    OwnFile,
    Polygons,
    Recall,
    Reverse,
    Sort,
    Squares,
    Text,
)
from seqattn.data.baselines import DRIFT, LAST_POINT, NOISE_FLOOR, TRAINING_MEAN
from seqattn.data.least_squares import LEAST_SQUARES
from seqattn.data.plugin_tasks import PLUGIN_TASKS
from seqattn.data.tasks import Task
from seqattn.errors import CheckpointError, counted
from seqattn.runs import RunFolder

MAX_NAMES = 4
"""Maximum number of features that a sentence names."""
CORNERS = {1: "the first corner", 2: "the first two corners", 3: "the first three corners"}
REST = {1: "the last corner", 2: "the other two corners", 3: "the other three corners"}
BASELINE_RULES = {
    TRAINING_MEAN: "forecasts the mean of the training targets, whatever the source",
    LAST_POINT: "repeats the last source point",
    DRIFT: "continues the straight line from the first source point to the last one",
    LEAST_SQUARES: "computes the forecast from the source with a matrix, fitted to the training"
    " part",
    "minus the source corner": "forecasts the negative of the corner two places earlier, which is"
    " the opposite corner",
    "turn on by the last angle": "turns each corner about the center by the angle between the last"
    " two source corners",
    "value of the nearest key": "forecasts the value of the key that is nearest to the last source"
    " point",
    NOISE_FLOOR: "the error of a forecast that knows the sequences without noise; no model is"
    " reliably better",
    "this model, free running": "each forecast point starts from the model's own previous one",
    "this model, teacher-forced": "each forecast point starts from the true previous point, which"
    " is unknown in real use",
}
"""An explanation of each row of a table of losses, by the name of the row."""
SEASONAL_RULE = "repeats the values of one season earlier"


def describe_row(name: str) -> str:
    """Return the explanation of a row of a table of losses; "" if the name is unknown."""
    return SEASONAL_RULE if name.startswith("seasonal naive") else BASELINE_RULES.get(name, "")


def describe_task_of(folder: RunFolder, config: Config | None) -> str:
    """Return sentences that describe the task of a run; "" if a file of the run cannot be read."""
    if config is None:
        return ""
    if isinstance(config.data, Text):
        return "Pairs of texts from files."
    if not isinstance(config.data, OwnFile):
        return describe_task(config.data)
    try:
        predictions = folder.read_predictions()
        features = [str(name) for name in predictions["features"]]
        targets = [str(name) for name in predictions["said"]]
        sources, steps = (predictions[f"{side}_lengths"] for side in ("source", "target"))
        return (
            f"The source has {_range(sources.min(), sources.max())} steps of {_names(features)};"
            f" the forecast must continue {'them' if targets == features else _names(targets)} for"
            f" {_range(steps.min(), steps.max())} steps."
        )
    except CheckpointError:
        return ""


def describe_task(task: Task) -> str:
    """Return sentences that say what the source of a generated task is and what the forecast must
    be. For a plugin task, return one sentence, which only names the task."""
    if type(task) in PLUGIN_TASKS:
        return f"The task is {PLUGIN_TASKS[type(task)].name}, which a plugin defines."
    if isinstance(task, Drawn) and task.symbols is not None:
        return _describe_symbols(task)
    match task:
        case Squares():
            text = _describe_squares(task)
        case Polygons():
            count = _range(task.min_corners, task.corners)
            text = (
                f"The source has the first {task.source_length} corners of a regular polygon with"
                f" {count} corners around the point (0, 0), in order; the forecast must draw the"
                " other corners. Size, rotation and direction differ from polygon to polygon."
            )
        case Copy() | Reverse() | Sort() | Lag():
            text = _describe_path(task)
        case Recall():
            text = (
                f"The source has {_range(task.min_pairs, task.pairs)} pairs of points, a key and"
                " its value, and at the end one of the keys again. The forecast must be the value"
                " of this key."
            )
        case Dates():
            return (
                "The source is a date in one of six human formats, character by character; the"
                " output must be the same date in the form 2014-03-09."
            )
        case Numbers():
            return (
                f"The source is a number of at most {task.digits} digits; the output must say it in"
                f" {task.language.capitalize()} words, split into their parts."
            )
        case Grammar():
            return (
                "The source is a sentence of English words; the output must say it in an artificial"
                " language, whose verb comes last and whose adjectives follow their noun."
            )
        case _:
            assert_never(task)
    return text + _describe_noise(task)


def describe_outside(config: Config | None) -> str:
    """Return a warning for readers who change the source: the training data contain no sources like
    the changed source. Return "" unless the task is `squares`, whose sources are all alike."""
    if config is None or type(config.data) is not Squares:
        return ""
    return (
        "All training sequences draw the same square, so a corner that you moved far is unlike all"
        " training data, and the forecast need not complete a square."
    )


def _describe_squares(task: Squares) -> str:
    known = task.source_length
    start = "The source has" if not task.variable_length else (
        "Each sequence has the first two, three or four corners of a square. The source has at most"
    )  # fmt: skip
    corners = CORNERS[known] + ("" if task.variable_length else " of a square")
    rest = "the rest" if task.variable_length else REST[4 - known]
    text = f"{start} {corners}, in order; the forecast must draw {rest}."
    if known == 1:
        text += " Corner 2 may be either neighbor of corner 1."
    opposite = [f"{corner} {'lies ' * (k == 0)}opposite corner {corner - 2}"
                for k, corner in enumerate(range(max(3, known + 1), 5))]  # fmt: skip
    parts = ["the first corner", "the direction"]
    parts += ["the number of corners"] * task.variable_length + ["the random noise"] * bool(
        task.noise
    )
    return (
        f"{text} Corner {', and corner '.join(opposite)}. All sequences draw the same square, with"
        f" coordinates of -1 and 1: only {', '.join(parts[:-1])} and {parts[-1]} differ."
    )


def _describe_path(task: Copy | Reverse | Sort | Lag) -> str:
    start = f"The source has {_path_lengths(task)} random points."
    match task:
        case Copy():
            return f"{start} The forecast must repeat them in the same order."
        case Reverse():
            return f"{start} The forecast must repeat them in reverse order, the last one first."
        case Sort():
            return f"{start} The forecast must repeat them in ascending order of x."
        case Lag():
            return (
                f"{start} The forecast has {counted(task.steps, 'point')}. Each of them must repeat"
                f" the source point that lies {counted(task.lag, 'place')} before it."
            )


def _describe_symbols(task: Copy | Reverse | Sort | Lag | Recall) -> str:
    if isinstance(task, Recall):
        return (
            f"The source has {_range(task.min_pairs, task.pairs)} pairs of a key and a value, and"
            " at the end one of the keys again. The output must be the value of this key."
        )
    match task:
        case Copy():
            rule = "repeat them in the same order"
        case Reverse():
            rule = "repeat them in reverse order, the last one first"
        case Sort():
            rule = "repeat them in ascending order"
        case Lag():
            rule = f"repeat {task.steps} of them, from the last but {task.lag - 1} on"
    return (
        f"The source has {_path_lengths(task)} random symbols of {task.symbols}. The output must"
        f" {rule}."
    )


def _path_lengths(task: Copy | Reverse | Sort | Lag) -> str:
    test = task.for_test_part()
    lengths, of_test = (_range(one.min_length, one.length) for one in (task, test))
    return lengths if lengths == of_test else f"{lengths} (in the test part {of_test})"


def _describe_noise(
    task: Squares | Polygons | Copy | Reverse | Sort | Recall | Lag,
) -> str:
    if task.noise == 0:
        return ""
    match task:
        case Squares() | Polygons():
            return " Random noise moves every corner a little."
        case Recall():
            return " Random noise moves the repeated key a little."
        case _:
            return " Random noise moves the true points a little."


def _range(low: int | None, high: int) -> str:
    return str(high) if low is None or low == high else f"{low} to {high}"


def _names(features: Sequence[str]) -> str:
    shown = ", ".join(features[:MAX_NAMES])
    more = len(features) - MAX_NAMES
    return shown if more <= 0 else f"{shown} and {counted(more, 'other feature')}"
