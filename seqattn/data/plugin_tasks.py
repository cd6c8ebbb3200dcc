"""The tasks that plugins register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seqattn.config import Generated, Section, plugins
from seqattn.config.data import TASK
from seqattn.data.baselines import NaiveForecast
from seqattn.data.sequences import Sequences
from seqattn.errors import PluginError

Generate = Callable[[Any, int, int], Sequences]
"""A function (task, n, seed) that returns n sequences. The result must depend only on the
arguments."""


@dataclass(frozen=True)
class PluginTask:
    """A task that a plugin registered.

    Attributes:
        name: the value of `data.kind` that selects the task.
        generate: the function that generates the sequences.
        baseline: the name and the forecast function of the naive baseline; None if there is none.
    """

    name: str
    generate: Generate
    baseline: tuple[str, NaiveForecast] | None

    def sequences(self, task: Section, n: int, seed: int) -> Sequences:
        """Generate sequences, and check their number and the shape of the ideal forecast.

        Raises:
            PluginError: if the task raises an exception that is not a `SeqattnError`, if it does
                not return `n` sequences, or if `ideal` is neither None nor an array with the shape
                of the target.
        """
        owner = plugins.OWNERS[type(task)]
        with plugins.plugin_errors([owner], f"the task {self.name}"):
            found = self.generate(task, n, seed)
        if not isinstance(found, Sequences) or len(found) != n:
            got = f"{len(found)}" if isinstance(found, Sequences) else type(found).__name__
            raise PluginError(
                f"{owner}: the task {self.name} must return seqattn.Sequences with {n} sequences,"
                f" got {got}."
            )
        shape = getattr(found.ideal, "shape", type(found.ideal).__name__)
        if found.ideal is not None and shape != found.target.shape:
            raise PluginError(
                f"{owner}: the task {self.name} must return `ideal`, the target without noise, as"
                f" an array with the shape of the target, {found.target.shape}, got {shape}."
            )
        return found


PLUGIN_TASKS: dict[type[Section], PluginTask] = {}
"""The registered tasks, by class of their config section."""


def register_task(
    name: str, config: type[Generated], *, baseline: tuple[str, NaiveForecast] | None = None
) -> Callable[[Generate], Generate]:
    """Return a decorator that registers a task. The decorated function (task, n, seed) must return
    `seqattn.Sequences` with n sequences.

    Args:
        name: the value of `data.kind` that selects the task.
        config: the config section of the task, a subclass of `seqattn.TaskConfig`. The decorator
            adds the key `kind` to this section.
        baseline: the name of a naive baseline, and a function (source, lengths, steps) that returns
            its forecast (N, steps, F) for sources (N, S, F) with lengths (N,).

    Raises:
        PluginError: if the config class is not a subclass of `seqattn.TaskConfig` or belongs to
            another task, or if the name is invalid or already exists. The decorator raises this
            error.
    """

    def register(generate: Generate) -> Generate:
        def apply() -> None:
            PLUGIN_TASKS[config] = PluginTask(name, generate, baseline)

        plugins.register_section(TASK, name, config, generate.__module__, apply)
        return generate

    return register
