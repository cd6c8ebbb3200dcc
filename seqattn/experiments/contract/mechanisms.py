"""The checks of one mechanism in models that combine it with other mechanisms."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seqattn.config import Config, resolve
from seqattn.errors import ConfigError, SeqattnError, counted
from seqattn.experiments.contract import (
    forecast_checks,
    gradient_checks,
    repeated_checks,
    state_checks,
    step_checks,
    training_checks,
)
from seqattn.experiments.contract.case import A, ContractCase, H, Part
from seqattn.experiments.contract.result import (
    CheckFailedError,
    CheckRow,
    CheckWarningError,
    NotApplicableError,
    State,
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
SMALL_TRAINING = (
    "data.kind=copy", "data.length=5", "data.min_length=2", "data.n_train=24",
    "data.n_validation=8", "data.n_test=8", f"training.epochs={training_checks.EPOCHS}",
    "training.batch_size=8",
)  # fmt: skip


@dataclass(frozen=True)
class ContractCheck:
    """A check of the contract.

    Attributes:
        name: the name of the check.
        function: the check, which takes a case and the config of the case.
        only_first: whether the check runs on the first combination only.
        repeats: whether the check repeats other checks. It does not apply after a failed check.
    """

    name: str
    function: Callable[[ContractCase, Config], str]
    only_first: bool = False
    repeats: bool = False


CHECKS = (
    ContractCheck("build", lambda case, _: state_checks.check_build(case)),
    ContractCheck("shapes", lambda case, _: forecast_checks.check_output_shapes(case)),
    ContractCheck("state", lambda case, _: state_checks.check_state(case)),
    ContractCheck("checkpoint", lambda case, _: state_checks.check_checkpoint(case)),
    ContractCheck("finite", lambda case, _: state_checks.check_finite(case)),
    ContractCheck("weights", lambda case, _: forecast_checks.check_weights(case)),
    ContractCheck("padding", lambda case, _: forecast_checks.check_padding(case)),
    ContractCheck("batch", lambda case, _: forecast_checks.check_batch(case)),
    ContractCheck("steps", lambda case, _: step_checks.check_decoder_steps(case)),
    ContractCheck("runs", lambda case, _: gradient_checks.check_runs(case)),
    ContractCheck("gradients", lambda case, _: gradient_checks.check_gradients(case)),
    ContractCheck("modes", lambda case, _: repeated_checks.check_modes(case), repeats=True),
    ContractCheck(
        "long", lambda case, _: repeated_checks.check_long(case), only_first=True, repeats=True
    ),
    ContractCheck("scale", lambda case, _: state_checks.check_scale(case), only_first=True),
    ContractCheck(
        "resume", lambda case, config: training_checks.check_resume(config), only_first=True
    ),
    ContractCheck("export", training_checks.check_export, only_first=True),
)
"""The checks of scores, normalizers, locations, cells and models, in the order of execution."""


@dataclass(frozen=True)
class MechanismReport:
    """The results of all checks of one mechanism.

    Attributes:
        kind: the kind of the mechanism, such as "score".
        name: the name of the mechanism.
        rows: one row per check.
        combinations: the number of combinations that were checked.
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


def _overrides(part: Part, combination: Combination) -> list[str]:
    """Return the overrides of a combination, with a prime width per head."""
    heads = int(combination.get("attention.heads", "1"))
    if part == "model":  # some models need teacher forcing at every step
        own = ["training.teacher_forcing.probability=1"]
    else:
        own = [f"model.hidden_dim={H * heads}"]
    return [*SMALL_TRAINING, *own, *(f"model.{k}={v}" for k, v in combination.items())]


def _label(part: Part, name: str, combination: Combination) -> str:
    shown = {key.removeprefix("attention."): value for key, value in combination.items()}
    return ", ".join(
        f"{key}: {value}" for key, value in shown.items()
        if value != name and (key, value) != ("heads", "1")
    )  # fmt: skip


def check_mechanism(
    part: Part,
    name: str,
    *,
    file: str = "",
    overrides: Sequence[str] = (),
    limit: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> MechanismReport:  # fmt: skip
    """Run all checks on a mechanism. The checks with `only_first` run on the first combination
    only, and the others run on every combination.

    Args:
        part: the kind of the mechanism.
        name: the name of the mechanism in a config.
        file: the file of the plugin. Messages name the line of this file that raised an exception.
        overrides: overrides of the config, such as "model.attention.width=4".
        limit: the largest number of combinations; None for all combinations.
        progress: a function that is called with one line before the checks begin.

    Raises:
        ConfigError: if no combination is a valid config.
    """
    found, refused = list[tuple[ContractCase, Config]](), list[str]()
    problem: ConfigError | None = None
    for combination in itertools.islice(combinations_of(part, name), limit):
        label = _label(part, name, combination)
        try:
            config = resolve(None, [*_overrides(part, combination), *overrides]).config
            _check_heads(part, config)
        except ConfigError as error:
            problem = error
            refused.append(f"{label}: {error.mistakes[0] if error.mistakes else error}")
        else:
            found.append((ContractCase(config.model, part, label), config))
    if not found:
        assert problem is not None
        raise problem
    progress(f"Checking {part} {name} in {counted(len(found), 'combination')}.")
    results: dict[str, list[tuple[str, CheckRow]]] = {check.name: [] for check in CHECKS}
    for place, (case, config) in enumerate(found):
        for check, row in _check_case(case, config, file, is_first=place == 0):
            results[check].append((case.label, row))
    rows = tuple(_summarize(check, rows) for check, rows in results.items())
    return MechanismReport(part, name, rows, len(found), tuple(refused))


def _check_heads(part: Part, config: Config) -> None:
    """Check that a score supports the number of heads that its config sets.

    Raises:
        ConfigError: if the score does not support this number of heads.
    """
    attention = getattr(config.model, "attention", None)
    if part != "score" or attention is None or attention.heads == 1:
        return
    try:
        build_score(attention, config.model.hidden_dim)  # type: ignore[union-attr]
    except ConfigError:
        raise
    except Exception:  # the check `build` reports the exception
        return


def _check_case(
    case: ContractCase, config: Config, file: str, *, is_first: bool
) -> Iterator[tuple[str, CheckRow]]:
    """Yield the name and the row of each check of a combination. After a mistake that blocks other
    checks, the remaining checks are not applicable."""
    blocked = failed = ""
    for check in CHECKS:
        if check.only_first and not is_first:
            continue
        if before := blocked or (failed if check.repeats else ""):
            yield check.name, CheckRow(check.name, "not applicable", f"see the check {before}.")
            continue
        row, blocks = run_check(check.name, lambda c=check: c.function(case, config), file)  # type: ignore[misc]
        blocked = check.name if blocks else ""
        failed = failed or (check.name if row.state == "failed" else "")
        yield check.name, row


def run_check(name: str, function: Callable[[], str], file: str) -> tuple[CheckRow, bool]:
    """Run one check. Return its row, and whether the check found a mistake that blocks other
    checks.

    An exception whose class is not defined in the module `result` counts as a failed check.
    """
    try:
        return CheckRow(name, "passed", function()), False
    except CheckFailedError as error:
        return CheckRow(name, "failed", str(error)), error.blocks
    except CheckWarningError as error:
        return CheckRow(name, "warning", str(error)), False
    except NotApplicableError as error:
        return CheckRow(name, "not applicable", str(error)), False
    except Exception as error:  # a plugin's code may raise any exception
        return CheckRow(name, "failed", _describe_exception(error, file)), name in (
            "build",
            "shapes",
        )


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
