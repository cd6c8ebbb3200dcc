"""The tasks that plugins register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seqattn.config import Generated, Section, extension
from seqattn.data.baselines import NaiveForecast
from seqattn.data.sequences import Sequences
from seqattn.errors import PluginError

Generate = Callable[[Any, int, int], Sequences]
"""A function (task, n, seed) that returns n sequences. The result depends only on the arguments."""


@dataclass(frozen=True)
class PluginTask:
    """A task of a plugin.

    Attributes:
        name: the value of `data.kind` that selects the task.
        generate: the function that generates the sequences.
        baseline: the name and the forecast function of the naive baseline; None if there is none.
    """

    name: str
    generate: Generate
    baseline: tuple[str, NaiveForecast] | None

    def sequences(self, task: Section, n: int, seed: int) -> Sequences:
        """Generate sequences, and check their number.

        Raises:
            PluginError: if the task does not return `n` sequences.
        """
        found = self.generate(task, n, seed)
        if not isinstance(found, Sequences) or len(found) != n:
            got = f"{len(found)}" if isinstance(found, Sequences) else type(found).__name__
            raise PluginError(
                f"{extension.OWNERS[type(task)]}: the task {self.name} must return"
                f" seqattn.Sequences with {n} sequences, got {got}."
            )
        return found


PLUGIN_TASKS: dict[type[Section], PluginTask] = {}
"""A mapping from config section to task."""


def register_task(
    name: str, config: type[Generated], *, baseline: tuple[str, NaiveForecast] | None = None
) -> Callable[[Generate], Generate]:
    """Return a decorator that registers a task, a function (task, n, seed) that returns
    `seqattn.Sequences`.

    Args:
        name: the value of `data.kind` that selects the task.
        config: the config section of the task, a subclass of `seqattn.TaskConfig`. The decorator
            adds the key `kind` to this section.
        baseline: the name of a naive baseline, and a function (source, lengths, steps) that
            computes its forecast (N, T, F) from the sources (N, S, F) with their lengths (N,).

    Raises:
        PluginError: if the name exists already.
    """

    def register(generate: Generate) -> Generate:
        def apply() -> None:
            PLUGIN_TASKS[config] = PluginTask(name, generate, baseline)

        extension.register_section(extension.TASK, name, config, generate.__module__, apply)
        return generate

    return register
