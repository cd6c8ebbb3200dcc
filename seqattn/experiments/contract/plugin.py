"""The checks of all mechanisms that a plugin registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast, get_args

import torch

from seqattn.config import Config, extension, load_plugin, resolve
from seqattn.errors import UsageError
from seqattn.experiments.contract import (
    function_checks,
    ideal_checks,
    task_checks,
    training_checks,
)
from seqattn.experiments.contract.case import Part
from seqattn.experiments.contract.mechanisms import MechanismReport, check_mechanism, run_check
from seqattn.experiments.contract.result import CheckRow

TASK_CHECKS: dict[str, Callable[[Config], str]] = {
    "shapes": task_checks.check_task_shapes,
    "seeds": task_checks.check_determinism,
    "prefix": task_checks.check_prefix,
    "values": task_checks.check_task_values,
    "alignment": task_checks.check_alignment,
    "ideal": ideal_checks.check_ideal,
    "resume": training_checks.check_resume,
}
"""The checks of tasks, in the order of execution."""
SMALL_TASK = (
    "data.n_train=24", "data.n_validation=8", "data.n_test=8",
    f"training.epochs={training_checks.EPOCHS}", "training.batch_size=8",
)  # fmt: skip


def check_plugin(
    plugin: str | Path,
    *,
    overrides: Sequence[str] = (),
    limit: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[MechanismReport]:  # fmt: skip
    """Load a plugin, and run all checks on each mechanism that it registers.

    Computations use one thread, because the models are small.

    Args:
        plugin: the path of a Python file, or the name of an importable module.
        overrides: overrides of the config, such as "model.attention.width=4".
        limit: the largest number of combinations of each mechanism; None for all combinations.
        progress: a function that is called with a line for each mechanism.

    Raises:
        PluginError: if the plugin cannot be loaded.
        ConfigError: if a mechanism cannot be configured with its defaults and the overrides.
        UsageError: if the plugin registers no mechanism that can be checked.
    """
    source = load_plugin(plugin)
    found = [each for each in extension.REGISTERED.values() if _belongs(each.source, source)]
    if not found:
        raise UsageError(f"{source}: registers no mechanism that can be checked.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_check(each, overrides, limit, progress) for each in found]
    finally:
        torch.set_num_threads(threads)


def _belongs(found: extension.Source, plugin: extension.Source) -> bool:
    """Return whether a registration comes from a plugin, or from a module of its package."""
    return f"{found.module}.".startswith(f"{plugin.module}.")


def _check(
    found: extension.Registration,
    overrides: Sequence[str],
    limit: int | None,
    progress: Callable[[str], None],
) -> MechanismReport:
    file = str(found.source.path or "")
    if found.noun in get_args(Part):
        part = cast(Part, found.noun)
        return check_mechanism(
            part, found.name, file=file, overrides=overrides, limit=limit, progress=progress
        )
    progress(f"Checking {found.noun} {found.name}.")
    match found.noun:
        case "task":
            rows = _check_task(found.name, file, overrides)
        case "metric":
            rows = _single("metric", lambda: function_checks.check_metric(found.name), file)
        case _:
            rows = _single("verdict", lambda: function_checks.check_doctor_check(found.name), file)
    return MechanismReport(found.noun, found.name, tuple(rows))


def _check_task(name: str, file: str, overrides: Sequence[str]) -> Iterator[CheckRow]:
    config = resolve(None, [f"data.kind={name}", *SMALL_TASK, *overrides]).config
    blocked = ""
    for check, function in TASK_CHECKS.items():
        if blocked:
            yield CheckRow(check, "not applicable", f"see the check {blocked}.")
            continue
        row, blocks = run_check(check, lambda f=function: f(config), file)  # type: ignore[misc]
        blocked = check if blocks else ""
        yield row


def _single(check: str, function: Callable[[], str], file: str) -> Iterator[CheckRow]:
    yield run_check(check, function, file)[0]
