"""What the runs of a page show about attention, in sentences for the page and its tour."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Config, config_differences
from seqattn.report.content.examples import sequence_losses
from seqattn.report.content.live_differences import PageRun
from seqattn.runs import RunFolder

MIN_NEEDED = 1.5
"""A model depends on its weights if every loss with other weights is larger by more than this
factor."""
MIN_USED = 1.02
"""A model does not depend on its weights unless every loss with other weights is larger by more
than this factor. Up to the factor `MIN_NEEDED`, the model hardly depends on its weights."""
MAX_CLOSE = 1.5
"""Two losses are close if their ratio is at most this value."""
WITH, WITHOUT = "with attention", "without attention"
OVERRIDE_NAMES = {"uniform": "equal weights", "shuffled": "shuffled weights"}
LONG_SOURCES = "seqattn compare configs/bottleneck/copy.yaml"
WITHOUT_EFFECT = ("name", "logging", "training.record_attention", "training.checkpoint_seconds",
                  "training.compile")  # fmt: skip
"""Config keys that do not change what a model learns."""
NEEDED_WITHOUT = {
    "context": "output", "input_feeding": False, "readout": "linear", "copying": False,
}  # fmt: skip
"""Keys of a recurrent model, with the only values that they can have without attention."""

Commands = list[list[str]]
"""Pairs of a sentence about a command and the command."""


@dataclass(frozen=True)
class Need:
    """Sentences about the test loss of a model with its own weights and with other weights.

    Attributes:
        average: a sentence with the losses.
        conclusion: sentences about what the losses show.
    """

    average: str
    conclusion: list[str]


def describe_need(
    own: float, overridden: Mapping[str, float], count: int, name: str = "the model"
) -> Need:
    """Return sentences about what the loss with replaced weights shows about a model.

    Args:
        own: the loss with the model's own weights.
        overridden: one or more losses with other weights, by override mode.
        count: the number of test sequences.
        name: the name of the model in the sentence.
    """
    losses = [f"{own:.4g} with the own weights of {name}"]
    losses += [f"{loss:.4g} with {OVERRIDE_NAMES[mode]}" for mode, loss in overridden.items()]
    average = (
        f"Over {count:,} test sequences, the mean squared error is {', '.join(losses[:-1])} and"
        f" {losses[-1]}."
    )
    mode, lowest = min(overridden.items(), key=lambda item: item[1])
    words = f"with {OVERRIDE_NAMES[mode]}, the error is {_times(own, lowest)}"
    if lowest / MIN_NEEDED > own:
        first = f"This trained model depends on its attention weights: even {words}."
    elif lowest / MIN_USED > own:
        first = f"This trained model hardly depends on its attention weights: {words}."
    else:
        first = (
            "This trained model does not depend on its attention weights: with"
            f" {OVERRIDE_NAMES[mode]}, its forecasts are as good."
        )
    return Need(average, [
        first,
        "This does not show that attention is needed, because the model was trained with it. Only a"
        " second model shows whether a model without attention forecasts worse.",
    ])  # fmt: skip


def commands_for_other_model(folder: RunFolder, config: Config | None) -> Commands:
    """Return the commands that train a counterpart of a run's model, and that show both models. The
    counterpart has no attention if the model has attention, and vice versa. If the model has
    attention, the last command compares both models with several seeds. The list is empty if the
    config is None or the model is not recurrent."""
    if config is None or config.model.kind != "recurrent":
        return []
    path, has_attention = shown_path(folder.path), config.model.has_attention
    name = "without-attention" if has_attention else "with-attention"
    changes, note = ["model.attention={score: scaled_dot}"], ""
    if has_attention:
        changes = [f"{key}={value}" for key, value in _changes_without(config).items()]
        note = _note_changes(config)
    plugins = plugin_words(config)
    sets = [word for change in changes for word in ("--set", change)]
    train = ["seqattn", "train", f"{path}/{folder.config.name}", *sets, "--name", name]
    both = ["seqattn", "report", path, f"outputs/{name}", "--output", "both.html"]
    commands = [
        [
            f"Train the same model {WITHOUT if has_attention else WITH}{note}:",
            shlex.join([*train, *plugins]),
        ],
        ["Put both models on one page:", shlex.join([*both, *plugins])],
    ]
    return [*commands, _compare_command(path, config)] if has_attention else commands


def command_for_history(folder: RunFolder, config: Config | None) -> Commands:
    """Return the command that trains a run again and records its parameters."""
    path = shown_path(folder.path)
    words = ["seqattn", "train", f"{path}/{folder.config.name}", "--set",
             "training.record_attention=5", "--name", f"{folder.path.name}-recorded",
             *plugin_words(config)]  # fmt: skip
    return [["Train the run again with a record of every fifth epoch:", shlex.join(words)]]


def plugin_words(config: Config | None) -> list[str]:
    """Return the options that load the plugins of a run."""
    plugins = [] if config is None else config.plugins
    names = [shown_path(Path(each.path)) if each.path else str(each.module) for each in plugins]
    return [word for name in names for word in ("--plugin", name)]


def shown_command(command: str) -> str:
    """Return a command without absolute paths; see `shown_path`."""
    try:
        words = shlex.split(command)
    except ValueError:  # it was not written by a shell
        return command
    return shlex.join(shown_path(Path(word)) if word.startswith("/") else word for word in words)


def shown_path(path: Path) -> str:
    """Return a path as a page shows it. An absolute path may reveal the user's folders, so the page
    shows only its part below the working directory, or only its last part."""
    if not path.is_absolute():
        return path.as_posix()
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name


def _compare_command(path: str, config: Config) -> list[str]:
    """Return a sentence about a command, and the command. The command compares a model with its
    counterpart without attention."""
    without = ", ".join(f"{key}: {value}" for key, value in _changes_without(config).items())
    variants = f"{{with_attention: {{}}, without_attention: {{{without}}}}}"
    words = ["seqattn", "compare", f"{path}/config.yaml", "--set", f"compare.variants={variants}",
             "--seeds", "8", "--name", "with-and-without", *plugin_words(config)]  # fmt: skip
    note = _note_changes(config)
    if note:
        note += f" for the model {WITHOUT}"
    return [f"Compare the two kinds of model with eight seeds each{note}:", shlex.join(words)]


def _changes_without(config: Config) -> dict[str, str]:
    """Return the changes that remove the attention of a recurrent model: values as YAML, by dotted
    path."""
    changed = {
        f"model.{key}": json.dumps(value).strip('"')
        for key, value in NEEDED_WITHOUT.items()
        if getattr(config.model, key) != value
    }
    if config.training.coverage_loss:
        changed["training.coverage_loss"] = "0"
    return {"model.attention": "null"} | changed


def _note_changes(config: Config) -> str:
    """Return words about what else changes in a recurrent model if its attention is removed; "" if
    nothing else changes."""
    _, *others = _changes_without(config).items()
    named = [f"{key.removeprefix('model.')}: {value}" for key, value in others]
    return f", with {' and '.join(named)}" if named else ""


# --- several runs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunResult:
    """The test result of a run that is shown on a report page.

    Attributes:
        run: the model of the run.
        folder: the run folder.
        loss: the free-running test loss.
        floor: the noise floor of the test sequences; None if it is unknown.
        target: (N, T, F), the targets of the test sequences.
        losses: (N,), the loss of each test sequence.
        is_scaled: whether the losses are in scaled units instead of the units of the data.
    """

    run: PageRun
    folder: RunFolder
    loss: float
    floor: float | None
    target: NDArray[np.floating[Any]]
    losses: NDArray[np.float64]
    is_scaled: bool = False

    @property
    def has_attention(self) -> bool:
        return self.run.trained.has_attention

    @property
    def kind(self) -> str:
        return WITH if self.has_attention else WITHOUT


def read_result(run: PageRun, folder: RunFolder) -> RunResult:
    """Read the test result of a run.

    Raises:
        CheckpointError: if a file of the run cannot be read.
    """
    summary, predictions = folder.read_summary(), folder.read_predictions()
    losses = sequence_losses(predictions, run.trained.spec.target.scale)
    return RunResult(
        run,
        folder,
        summary["test_loss"],
        summary["noise_floor"],
        predictions["target"],
        losses,
        summary["scaled"],
    )


def describe_runs(results: Sequence[RunResult]) -> tuple[list[str], Commands]:
    """Return sentences about the test losses of two or more runs, and commands that show more.

    If some of the runs have attention and others do not, the first sentences say what attention
    changes.
    """
    if not _are_comparable(results):
        return [
            "The runs have different test sequences or units of error, so their test losses cannot"
            " be compared."
        ], []
    losses = _list_losses(results)
    attending = [each for each in results if each.has_attention]
    plain = [each for each in results if not each.has_attention]
    commands: Commands = []
    if attending and plain:
        best, other = _best(attending), _best(plain)
        answer = _contrast(best, other, losses, "best " * (len(results) > 2))
        if _are_close(best, other):
            commands.append(["See what happens with longer sources:", LONG_SOURCES])
        config = best.run.trained.config
        if config.model.kind == "recurrent":
            commands.append(_compare_command(shown_path(best.folder.path), config))
    else:
        answer = f"O{losses[1:]}.{_describe_floor(results[0].floor)}"
    return [
        answer,
        _count_closer(results),
        "Each of these runs has one seed. Another seed gives another error, so this page does not"
        " show that one kind of model is better than the other. seqattn compare trains several"
        " seeds of each and tests the difference.",
    ], commands


def _list_losses(results: Sequence[RunResult]) -> str:
    """Return a clause with the test losses of the runs."""
    parts = [f"{each.loss:.4g} {each.kind} ({each.run.name})" for each in results]
    unit = " (scaled)" if results[0].is_scaled else ""
    return (
        f"over {len(results[0].losses):,} test sequences, the mean squared error{unit} is"
        f" {', '.join(parts[:-1])} and {parts[-1]}"
    )


def _describe_floor(floor: float | None, low: float = 0.0, high: float = math.inf) -> str:
    """Return a sentence about the noise floor; "" if it is unknown.

    Args:
        floor: the noise floor.
        low, high: two losses, which are compared with the floor.
    """
    if floor is None:
        return ""
    start = "The noise floor of these sequences is"
    if floor / MAX_CLOSE <= low and high / MAX_CLOSE <= floor:
        start = "Both errors are near the noise floor of"
    return f" {start} {floor:.4g}: no model is reliably below it."


def _are_comparable(results: Sequence[RunResult]) -> bool:
    first = results[0]
    scale = first.run.trained.spec.target.scale
    return all(
        np.array_equal(first.target, each.target, equal_nan=True)
        and np.array_equal(scale, each.run.trained.spec.target.scale)
        for each in results
    )


def _best(results: Sequence[RunResult]) -> RunResult:
    return min(results, key=lambda each: each.loss)


def _count_closer(results: Sequence[RunResult]) -> str:
    """Return a sentence with the number of test sequences for which each run is best."""
    losses = np.stack([each.losses for each in results])
    scored = ~np.isnan(losses).any(axis=0)
    is_lowest = losses[:, scored] == losses[:, scored].min(axis=0, initial=math.inf)
    is_tied = is_lowest.sum(axis=0) > 1
    counts = [f"{each.run.name} in {int((is_lowest[k] & ~is_tied).sum()):,}"
              for k, each in enumerate(results)]  # fmt: skip
    joined = f"{', '.join(counts[:-1])} and {counts[-1]}"
    ties = (
        f"; in {int(is_tied.sum()):,}, two or more runs are equally close" if is_tied.any() else ""
    )
    known = "" if scored.all() else " with known errors"
    return (
        f"Of {int(scored.sum()):,} test sequences{known}, the forecast is closest to the truth for"
        f" {joined}{ties}."
    )


def _are_close(one: RunResult, other: RunResult) -> bool:
    low, high = sorted((one.loss, other.loss))
    return high / MAX_CLOSE <= low


def _contrast(attending: RunResult, plain: RunResult, losses: str, rank: str) -> str:
    """Return sentences that say whether the errors of two runs, with and without attention, differ.

    Args:
        attending: the run with attention.
        plain: the run without attention.
        losses: a clause with the test losses.
        rank: a word before the errors and models of these runs, such as "best "; "" if there are no
            other runs.
    """
    low, high = sorted((attending.loss, plain.loss))
    are_close = _are_close(attending, plain)
    if are_close:
        text = (
            f"With and without attention, the {rank}models forecast about equally well: {losses}."
        )
        text += _describe_floor(attending.floor, low, high)
    else:
        worse = plain if plain.loss > attending.loss else attending
        text = f"The {rank}error {worse.kind} is {_times(low, high)}: {losses}."
        text += _describe_floor(attending.floor)
    if others := _other_differences(attending, plain):
        text += (
            f" The configs also differ in {', '.join(others)}, so attention is not the only"
            " possible cause of a difference."
        )
    model, spec = plain.run.trained.config.model, plain.run.trained.spec
    numbers = spec.source_length * len(spec.source_features)
    if are_close and model.kind == "recurrent" and model.hidden_dim >= numbers:
        text += (
            f" A possible reason: without attention, the state of {model.hidden_dim} numbers has"
            f" room for the {numbers} numbers of a source. Attention helps if a source is too long"
            " for this memory."
        )
    return text


def _other_differences(one: RunResult, other: RunResult) -> list[str]:
    """Return the config keys in which two runs differ, without those in `WITHOUT_EFFECT` and those
    of attention. `model.context` has no effect in a model without attention."""
    differences = config_differences(one.run.trained.config, other.run.trained.config)
    return [
        key
        for key in differences
        if not key.startswith(("model.attention", "model.context"))
        and not any(key == each or key.startswith(f"{each}.") for each in WITHOUT_EFFECT)
    ]


def _times(low: float, high: float) -> str:
    """Return a phrase that compares two losses, such as "2.1 times as large"."""
    ratio = high / low if low else math.inf
    if math.isinf(ratio):
        return f"{high:.3g} instead of {low:.3g}"
    if 99.5 <= ratio < 1e6:
        return f"{ratio:,.0f} times as large"
    # Two digits would make 1.03 the same as 1.
    return f"{ratio:.{2 if ratio >= 1.1 else 3}g} times as large"
