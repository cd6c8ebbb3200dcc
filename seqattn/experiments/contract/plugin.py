"""All checks of a mechanism, in models that combine it with other mechanisms, and of a plugin."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast, get_args

import torch
from torch import Tensor

from seqattn.config import Config, load_plugin, plugins, resolve
from seqattn.errors import ConfigError, SeqattnError, UsageError, counted
from seqattn.experiments.contract import task_checks
from seqattn.experiments.contract.case import (
    LONG_S,
    LONG_T,
    A,
    CheckFailedError,
    CheckRow,
    CheckWarningError,
    ContractCase,
    H,
    NotApplicableError,
    Part,
    State,
    tensor_difference,
)
from seqattn.experiments.contract.model_checks import (
    check_batch,
    check_build,
    check_checkpoint,
    check_decoder_steps,
    check_finite,
    check_output_shapes,
    check_padding,
    check_scale,
    check_state,
    check_weights,
)
from seqattn.experiments.contract.training_checks import (
    check_export,
    check_gradients,
    check_resume,
    check_runs,
)
from seqattn.models.attention.scores import build_score

Combination = Mapping[str, str]
"""Overrides by dotted key, as in `--set`."""

NORMALIZERS: tuple[Combination, ...] = (
    {"normalizer": "softmax"},
    {"normalizer": "sparsemax"},
    {"normalizer": "hard", "estimator": "straight_through"},
    {"normalizer": "hard", "estimator": "reinforce"},
)
LOCATIONS: tuple[Combination, ...] = (
    {"location.kind": "location_shift"}, {"location.kind": "local"},
)  # fmt: skip
USES: tuple[Combination, ...] = (
    {"context": "input"}, {"input_feeding": "true"}, {"readout": "tanh"}, {"hidden_dim": "6"},
)  # fmt: skip
COPY_TASK = ("data.kind=copy", "data.length=5", "data.min_length=2")
SIZES = (
    "data.n_train=24", "data.n_validation=8", "data.n_test=8", "training.epochs=2",
    "training.batch_size=8",
)  # fmt: skip


@dataclass(frozen=True)
class MechanismReport:
    """The results of all checks of one mechanism.

    Attributes:
        refused: the combinations that are not valid configs, with the reasons.
    """

    kind: str
    name: str
    rows: tuple[CheckRow, ...]
    combinations: int = 1
    refused: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        return any(row.state == "failed" for row in self.rows)

    def as_plain(self) -> dict[str, object]:
        return {
            "kind": self.kind, "name": self.name, "combinations": self.combinations,
            "refused": list(self.refused), "checks": [row.as_plain() for row in self.rows],
        }  # fmt: skip


def combinations_of(part: Part, name: str) -> Iterator[Combination]:
    """Yield the combinations in which a mechanism is checked. The keys are relative to `model`."""

    def attention(*mappings: Combination) -> Combination:
        return {f"attention.{key}": value for each in mappings for key, value in each.items()}

    match part:
        case "score":
            score = {"score": name}
            for normalizer, heads in itertools.product(NORMALIZERS, (1, A)):
                yield attention(score, normalizer, {"heads": str(heads)})
            yield from (attention(score, location, {"heads": str(A)}) for location in LOCATIONS)
            yield from ({**attention(score), **use} for use in USES)
        case "normalizer":
            normalizer = {"normalizer": name}
            for score_name, heads in itertools.product(("scaled_dot", "additive"), (1, A)):
                yield attention({"score": score_name}, normalizer, {"heads": str(heads)})
            yield from (attention(normalizer, location) for location in LOCATIONS)
            yield from ({**attention(normalizer), **use} for use in USES)
        case "location":
            location = {"location.kind": name}
            for normalizer, heads in itertools.product(NORMALIZERS[:2], (1, A)):
                yield attention(location, normalizer, {"heads": str(heads)})
            yield from ({**attention(location), **use} for use in USES)
        case "cell":
            # `cell: NAME` stands for the section of the cell with its default values.
            yield {"cell": name}
            yield {"cell": name, "layers": "2"}
            yield {"cell": name, "bidirectional": "true", "layers": "2"}
            yield {"cell": name, "dropout": "0.3", "layers": "2"}
            yield {"cell": name, "attention": "null"}
            yield from ({"cell": name, **use} for use in USES)
        case "model":
            yield {"kind": name}


# --- checks that repeat others --------------------------------------------------------------------


def check_long(case: ContractCase) -> str:
    """Repeat the checks of shapes, weights, padding, batches, single steps and gradients with
    longer sources and targets."""
    limit = case.model.max_length
    if limit is not None and limit < LONG_S:
        raise NotApplicableError(f"the model accepts at most {limit} steps.")
    long = ContractCase(case.section, case.part, case.label, is_long=True)
    for check in (check_output_shapes, check_weights, check_padding, check_batch,
                  check_decoder_steps, check_gradients):  # fmt: skip
        try:
            check(long)
        except CheckFailedError as error:
            where = f"With sources of up to {LONG_S} steps and targets of {LONG_T} steps"
            raise CheckFailedError(f"{where}: {error}") from error
        except NotApplicableError:
            continue
    return f"up to {LONG_S} source steps and {LONG_T} target steps"


def check_modes(case: ContractCase) -> str:
    """Compare forecasts without random numbers in train mode with those in eval mode, which the
    other checks use."""
    case.require_finite()
    other = ContractCase(case.section, case.part, case.label, in_train_mode=True)
    difference = max(map(tensor_difference, _forecasts(other), _forecasts(case)))
    if difference.is_equal:
        return f"largest difference {difference.value:.1e}"
    raise CheckWarningError(
        f"In train mode, forecasts differ from eval mode by up to"
        f" {difference.at('sequence', 'step')}, without random numbers. Training steps use"
        " train mode. Validation, tests, predictions and exports use eval mode. If both modes"
        " should be the same, do not read `self.training`."
    )


def _forecasts(case: ContractCase) -> list[Tensor]:
    """Return the free-running and the teacher-forced forecast of the whole batch."""
    source, target = case.sequences
    with torch.no_grad():
        forced = case.model(
            source, target, source_lengths=case.lengths, with_attention=False,
            teacher_forcing=torch.ones(case.T, dtype=torch.bool),
        )  # fmt: skip
    return [case.free.values, forced.values]


# --- one mechanism --------------------------------------------------------------------------------

Check = Callable[[ContractCase, Config], str]
CHECKS: dict[str, Check] = {
    "build": lambda case, _: check_build(case),
    "shapes": lambda case, _: check_output_shapes(case),
    "state": lambda case, _: check_state(case),
    "checkpoint": lambda case, _: check_checkpoint(case),
    "finite": lambda case, _: check_finite(case),
    "weights": lambda case, _: check_weights(case),
    "padding": lambda case, _: check_padding(case),
    "batch": lambda case, _: check_batch(case),
    "steps": lambda case, _: check_decoder_steps(case),
    "runs": lambda case, _: check_runs(case),
    "gradients": lambda case, _: check_gradients(case),
    "modes": lambda case, _: check_modes(case),
    "long": lambda case, _: check_long(case),
    "scale": lambda case, _: check_scale(case),
    "resume": lambda case, config: check_resume(config),
    "export": check_export,
}
"""The checks of scores, normalizers, locations, cells and models, in the order of execution."""
ONLY_FIRST = ("long", "scale", "resume", "export")
"""The checks that run on the first combination only."""
REPEATS = ("modes", "long")
"""The checks that repeat other checks. They do not apply after a failed check."""
BLOCKING = ("build", "shapes", "state", "checkpoint")
"""The checks after whose failure other checks would only report the same mistake again."""
TASK_CHECKS: dict[str, Callable[[Config], str]] = {
    "shapes": task_checks.check_task_shapes,
    "seeds": task_checks.check_determinism,
    "prefix": task_checks.check_prefix,
    "values": task_checks.check_task_values,
    "alignment": task_checks.check_alignment,
    "ideal": task_checks.check_ideal,
    "resume": check_resume,
}
"""The checks of tasks, in the order of execution."""


def check_mechanism(
    part: Part,
    name: str,
    *,
    file: str = "",
    overrides: Sequence[str] = (),
    limit: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> MechanismReport:  # fmt: skip
    """Run all checks on a mechanism, in up to `limit` combinations (None for all).

    Args:
        file: the file of the plugin. Messages name the line of this file that raised an exception.
        overrides: overrides of the config, such as "model.attention.width=4".

    Raises:
        ConfigError: if no combination is a valid config.
    """
    found, refused = _cases_of(part, name, overrides, limit)
    progress(f"Checking {part} {name} in {counted(len(found), 'combination')}.")
    results: dict[str, list[tuple[str, CheckRow]]] = {check: [] for check in CHECKS}
    for number, (case, config) in enumerate(found):
        checks = {
            check: partial(function, case, config) for check, function in CHECKS.items()
            if number == 0 or check not in ONLY_FIRST
        }  # fmt: skip
        for row in _run_checks(checks, file):
            results[row.check].append((case.label, row))
    rows = tuple(_summarize(check, rows) for check, rows in results.items())
    return MechanismReport(part, name, rows, len(found), tuple(refused))


def _cases_of(
    part: Part, name: str, overrides: Sequence[str], limit: int | None
) -> tuple[list[tuple[ContractCase, Config]], list[str]]:
    """Return the case and the config of each valid combination, and the combinations that are not
    valid configs, with the reasons.

    Raises:
        ConfigError: if no combination is a valid config.
    """
    found, refused, problem = list[tuple[ContractCase, Config]](), list[str](), None
    for combination in itertools.islice(combinations_of(part, name), limit):
        shown = {key.removeprefix("attention."): value for key, value in combination.items()}
        label = ", ".join(
            f"{key}: {value}" for key, value in shown.items()
            if value != name and (key, value) != ("heads", "1")
        )  # fmt: skip
        try:
            config = _config_of(part, combination, overrides)
        except ConfigError as error:
            problem = error
            refused.append(f"{label}: {error.mistakes[0] if error.mistakes else error}")
        else:
            found.append((ContractCase(config.model, part, label), config))
    if not found:
        assert problem is not None
        raise problem
    return found, refused


def _config_of(part: Part, combination: Combination, overrides: Sequence[str]) -> Config:
    """Build the config of a combination, with a prime width per head."""
    heads = int(combination.get("attention.heads", "1"))
    if part == "model":  # some models need teacher forcing at every step
        own = ["training.teacher_forcing.probability=1"]
    else:
        own = [f"model.hidden_dim={H * heads}"]
    of_model = [f"model.{key}={value}" for key, value in combination.items()]
    config = resolve(None, [*COPY_TASK, *SIZES, *own, *of_model, *overrides]).config
    attention = getattr(config.model, "attention", None)
    if part == "score" and attention is not None and attention.heads > 1:
        try:
            build_score(attention, config.model.hidden_dim)  # type: ignore[union-attr]
        except ConfigError:
            raise
        except Exception:  # the check `build` reports the exception
            return config
    return config


def _run_checks(checks: Mapping[str, Callable[[], str]], file: str) -> Iterator[CheckRow]:
    """Yield the row of each check. After a mistake that blocks other checks, the remaining checks
    are not applicable. An exception of a class that is not defined in `case` counts as a failed
    check."""
    failed = list[str]()
    for name, function in checks.items():
        blocking = [each for each in failed if each in BLOCKING or name in REPEATS]
        state: State = "passed"
        try:
            if blocking:
                raise NotApplicableError(f"see the check {blocking[0]}.")
            message = function()
        except CheckFailedError as error:
            state, message = "failed", str(error)
        except CheckWarningError as error:
            state, message = "warning", str(error)
        except NotApplicableError as error:
            state, message = "not applicable", str(error)
        except Exception as error:  # a plugin's code may raise any exception
            state, message = "failed", _describe_exception(error, file)
        failed += [name] * (state == "failed")
        yield CheckRow(name, state, message)


def _describe_exception(error: Exception, file: str) -> str:
    """Return a sentence about an exception. Unless the exception is a `SeqattnError`, the sentence
    contains the last line of the plugin in the traceback, if there is one."""
    lines = [
        frame for frame in traceback.extract_tb(error.__traceback__)
        if file and Path(frame.filename) == Path(file)
    ]  # fmt: skip
    text = (str(error).strip() or "no reason given").splitlines()[0]
    words = f"{type(error).__name__}: {text}"
    if isinstance(error, SeqattnError):
        return text
    if not lines:
        return f"The check raises {words}"
    return f"Line {lines[-1].lineno} (`{lines[-1].line}`) raises {words}"


def _summarize(check: str, rows: Sequence[tuple[str, CheckRow]]) -> CheckRow:
    """Combine the rows of a check from all combinations into one row with the worst state."""
    order: tuple[State, ...] = ("failed", "warning", "passed", "not applicable")
    for state in order:
        matching = [(label, row) for label, row in rows if row.state == state]
        if not matching:
            continue
        label, first = matching[0]
        if state not in ("failed", "warning") or len(rows) == 1:
            return first
        where = f"In {len(matching)} of {counted(len(rows), 'combination')}"
        where = f"{where}, such as {label}: " if label else f"{where}: "
        return CheckRow(check, state, where + first.message)
    return CheckRow(check, "not applicable", "no combination is allowed.")


# --- all mechanisms of a plugin -------------------------------------------------------------------


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
        overrides, limit, progress: see `check_mechanism`.

    Raises:
        UsageError: if the plugin registers no mechanism that can be checked.
    """
    source = load_plugin(plugin)
    found = [  # of the plugin, or of a module of its package
        each for each in plugins.REGISTERED.values()
        if f"{each.source.module}.".startswith(f"{source.module}.")
    ]  # fmt: skip
    if not found:
        raise UsageError(f"{source}: registers no mechanism that can be checked.")

    def check(noun: str, name: str, file: str) -> MechanismReport:
        if noun in get_args(Part):
            return check_mechanism(
                cast("Part", noun), name,
                file=file, overrides=overrides, limit=limit, progress=progress,
            )  # fmt: skip
        progress(f"Checking {noun} {name}.")
        if noun == "task":
            config = resolve(None, [f"data.kind={name}", *SIZES, *overrides]).config
            checks = {check: partial(function, config) for check, function in TASK_CHECKS.items()}
        elif noun == "metric":
            checks = {"metric": partial(task_checks.check_metric, name)}
        else:
            checks = {"verdict": partial(task_checks.check_doctor_check, name)}
        return MechanismReport(noun, name, tuple(_run_checks(checks, file)))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [check(each.noun, each.name, str(each.source.path or "")) for each in found]
    finally:
        torch.set_num_threads(threads)
