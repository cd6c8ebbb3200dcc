"""How far a training is: a panel, a bar, or a line now and then, on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from seqattn.cli.output import note

if TYPE_CHECKING:
    from seqattn.cli.terminal import StopRequest
    from seqattn.experiments import Callbacks
    from seqattn.runs import EpochRecord


class Display:
    """What is shown of a training: here nothing."""

    def step(self) -> None:
        pass

    def epoch(self, record: EpochRecord) -> None:
        pass

    def say(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines(Display):
    """A line for every tenth of the epochs."""

    def __init__(self, done: int = 0, epochs: int = 0) -> None:
        self.past, self.epochs = done, epochs

    def epoch(self, record: EpochRecord) -> None:
        self.past += 1
        if self.past == self.epochs or self.past % max(1, self.epochs // 10) == 0:
            note(f"epoch {self.past}/{self.epochs}: {_losses(record)}")

    def say(self, line: str) -> None:
        note(line)


class Bar(Lines):
    """A bar for the epochs of all runs. A terminal that is gone stops nothing."""

    def __init__(self, name: str, done: int, epochs: int) -> None:
        from tqdm import tqdm

        super().__init__(done, epochs)
        self.bar = tqdm(total=epochs, initial=done, desc=name, unit="epoch", leave=True)

    def epoch(self, record: EpochRecord) -> None:
        self.past += 1
        with contextlib.suppress(OSError, ValueError):
            if self.past == self.epochs or self.past % max(1, self.epochs // 1000) == 0:
                self.bar.set_postfix_str(_losses(record), refresh=False)
            self.bar.update()
            if self.past == self.epochs:  # what follows is not training
                self.bar.close()

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.bar.close()


def _losses(record: EpochRecord) -> str:
    return f"training {record.train_loss:.4f}, validation {record.validation_loss:.4f}"


@contextlib.contextmanager
def progress(name: str, quiet: bool, told: StopRequest) -> Iterator[Callbacks]:
    """On a terminal a panel for one run and a bar for many; elsewhere a line now and then; nothing
    when quiet."""
    from seqattn.experiments import Callbacks

    display = Display() if quiet else Lines()
    facts: dict[str, Any] = {}

    def begin(done: int, epochs: int) -> None:
        nonlocal display
        told.begun = True
        if not quiet:
            display.close()
            display = _display(name, done, epochs, facts)

    def stop() -> int:
        display.step()
        return told.numbers[0] if told.numbers else 0

    try:
        yield Callbacks(
            begin, lambda record: display.epoch(record), lambda line: display.say(line), stop,
            facts.update,
        )  # fmt: skip
    finally:
        display.close()


def _display(name: str, done: int, epochs: int, facts: Mapping[str, Any]) -> Display:
    """
    Args:
        facts: of a single run; of many there are none.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return Lines(done, epochs)
    if not facts:
        return Bar(name, done, epochs)
    from seqattn.cli.panel import Panel

    return Panel(name, done, epochs, facts)
