"""Displays that show the progress of training on stderr as a progress bar or as lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seqattn.cli.output import note

if TYPE_CHECKING:
    from seqattn.cli.stop_signals import StopRequest
    from seqattn.experiments import Callbacks
    from seqattn.runs import EpochRecord


class Display:
    """A display that shows nothing. This class is the base class of all progress displays."""

    def epoch(self, record: EpochRecord) -> None:
        pass

    def message(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


class LineDisplay(Display):
    """A display that prints the losses at regular intervals of epochs and after the last epoch."""

    def __init__(self, done: int = 0, epochs: int = 0) -> None:
        self.done, self.epochs = done, epochs

    def epoch(self, record: EpochRecord) -> None:
        self.done += 1
        if self.done == self.epochs or self.done % max(1, self.epochs // 10) == 0:
            note(f"epoch {self.done}/{self.epochs}: {_format_losses(record)}")

    def message(self, line: str) -> None:
        note(line)


class BarDisplay(LineDisplay):
    """A progress bar over the epochs of all runs. Errors from a closed terminal are ignored."""

    def __init__(self, name: str, done: int, epochs: int) -> None:
        from tqdm import tqdm

        super().__init__(done, epochs)
        self.bar = tqdm(total=epochs, initial=done, desc=name, unit="epoch", leave=True)

    def epoch(self, record: EpochRecord) -> None:
        self.done += 1
        with contextlib.suppress(OSError, ValueError):
            if self.done == self.epochs or self.done % max(1, self.epochs // 1000) == 0:
                self.bar.set_postfix_str(_format_losses(record), refresh=False)
            self.bar.update()
            if self.done == self.epochs:  # the bar does not show the time for writing the results
                self.bar.close()

    def message(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.bar.clear()  # otherwise, the bar and the message would share a line
        note(line)
        with contextlib.suppress(OSError, ValueError):
            self.bar.refresh()

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.bar.close()


def _format_losses(record: EpochRecord) -> str:
    losses = f"training {record.train_loss:.4f}, validation {record.validation_loss:.4f}"
    if record.bleu is not None:
        return f"{losses}, BLEU {record.bleu:.2f}"
    return losses if record.exact_match is None else f"{losses}, exact {record.exact_match:.1%}"


@contextlib.contextmanager
def show_progress(name: str, quiet: bool, stop_request: StopRequest) -> Iterator[Callbacks]:
    """Show the progress of training, and yield the callbacks that update the display.

    On a terminal, the display is a progress bar. If stderr is not a terminal, or if the terminal is
    dumb, the display prints lines.

    Args:
        name: the name of the run or the comparison.
        quiet: whether to show nothing.
        stop_request: the record of the stop signals. The attribute `started` of the record becomes
            True when training starts.
    """
    from seqattn.experiments import Callbacks

    display = Display() if quiet else LineDisplay()

    def begin(done: int, epochs: int) -> None:
        nonlocal display
        stop_request.started = True
        if not quiet:
            has_bar = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
            display = BarDisplay(name, done, epochs) if has_bar else LineDisplay(done, epochs)

    def stop() -> int:
        return stop_request.signals[0] if stop_request.signals else 0

    try:
        yield Callbacks(
            begin, lambda record: display.epoch(record), lambda line: display.message(line), stop
        )
    finally:
        display.close()
