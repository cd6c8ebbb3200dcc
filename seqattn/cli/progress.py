"""Displays that show the progress of training on stderr as a panel, a progress bar or lines."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from seqattn.cli.output import escape_controls, note, plain_console

if TYPE_CHECKING:
    from rich.panel import Panel

    from seqattn.cli.stop_signals import StopRequest
    from seqattn.experiments import Callbacks
    from seqattn.runs import EpochRecord

SPARKS = "▁▂▃▄▅▆▇█"
REDRAW_SECONDS = 0.2
"""Minimum time between two redraws of the panel, in seconds. More frequent redraws would slow down
training."""


class Display:
    """A display that shows nothing. This class is the base class of all progress displays."""

    def step(self) -> None:
        pass

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


class PanelDisplay(Display):
    """A progress panel that is redrawn at most five times per second.

    The display stops if the terminal is closed.
    """

    def __init__(self, name: str, done: int, epochs: int, facts: Mapping[str, Any]) -> None:
        from rich.live import Live

        self.name, self.done, self.epochs, self.facts = name, done, epochs, facts
        self.finished, self.steps = done, 0
        self.losses = list[float]()
        self.record: EpochRecord | None = None
        self.start_time = self.draw_time = time.monotonic()
        self.console = plain_console(stderr=True)
        self.live: Live | None = Live(self.render(), console=self.console, auto_refresh=False)
        with self._close_on_error():
            self.live.start(refresh=True)
            self.console.show_cursor(True)  # a killed process could not restore a hidden cursor

    @contextlib.contextmanager
    def _close_on_error(self) -> Any:
        try:
            yield
        except (OSError, ValueError):
            self.live = None

    def step(self) -> None:
        self.steps += 1
        self._draw_if_due()

    def epoch(self, record: EpochRecord) -> None:
        self.finished += 1
        self.record = record
        self.losses.append(record.validation_loss)
        if self.finished == self.epochs:
            self.close()  # the panel does not show the time for writing the results
        else:
            self._draw_if_due()

    def message(self, line: str) -> None:
        if self.live is None:
            note(line)
            return
        with self._close_on_error():
            self.console.print(line)

    def close(self) -> None:
        live = self.live
        if live is not None:
            with self._close_on_error():
                live.update(self.render(), refresh=True)
                live.stop()
        self.live = None

    def _draw_if_due(self) -> None:
        now = time.monotonic()
        if self.live is not None and now - self.draw_time >= REDRAW_SECONDS:
            self.draw_time = now
            with self._close_on_error():
                self.live.update(self.render(), refresh=True)

    def render(self) -> Panel:
        from rich.panel import Panel
        from rich.text import Text

        width = max(20, min(self.console.width, 100) - 4) if hasattr(self, "console") else 60
        elapsed = time.monotonic() - self.start_time
        share = self.finished / self.epochs if self.epochs else 1.0
        left = "" if self.finished == self.done else _format_duration(
            elapsed / (self.finished - self.done) * (self.epochs - self.finished))  # fmt: skip
        speed = f"{self.steps / elapsed:,.0f} steps/s" if elapsed > 0.2 and self.steps else ""
        prefix = f"epoch {self.finished}/{self.epochs}  "
        suffix = "  ".join(part for part in (speed, f"{left} left" if left else "") if part)
        room = max(6, width - len(prefix) - len(suffix) - 2)
        full = int(share * room)
        lines = [f"{prefix}{'━' * full}{'╺' * (room - full)}  {suffix}"]
        if self.record is not None:
            record = self.record
            floor = self.facts.get("noise_floor")
            lines.append(
                f"training {record.train_loss:.4f}  validation {_describe_validation(record)}"
                + (f"  floor {floor:.4f}" if floor is not None else "")
            )
            rate = f"learning rate {record.learning_rate:.3g}  "
            lines.append(f"{rate}{sparkline(self.losses, max(8, width - len(rate) - 16))}"
                         " validation, log")  # fmt: skip
        seed = self.facts.get("seed")
        title = Text(
            escape_controls(f"{self.name}, seed {seed}" if seed is not None else self.name)
        )
        return Panel(Text("\n".join(lines)), title=title, title_align="left", width=width + 4)


def sparkline(values: list[float], width: int) -> str:
    """Return a string that shows numbers as bars on a logarithmic scale.

    Args:
        values: the numbers. Numbers that are not positive or not finite are left out.
        width: the maximum number of bars. If there are more numbers, a bar shows the geometric mean
            of several consecutive numbers.
    """
    logs = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    if not logs:
        return ""
    groups = min(width, len(logs))
    cuts = [k * len(logs) // groups for k in range(groups + 1)]
    means = [sum(logs[a:b]) / (b - a) for a, b in itertools.pairwise(cuts)]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(SPARKS[round((mean - low) / span * (len(SPARKS) - 1))] for mean in means)


def _format_losses(record: EpochRecord) -> str:
    loss = f"training {record.train_loss:.4f}, validation {record.validation_loss:.4f}"
    return loss if record.exact_match is None else f"{loss}, exact {record.exact_match:.1%}"


def _describe_validation(record: EpochRecord) -> str:
    if record.exact_match is not None:
        return f"{record.validation_loss:.4f} teacher-forced, exact {record.exact_match:.1%}"
    forced = record.validation_loss_teacher_forced
    return f"{record.validation_loss:.4f} free running, {forced:.4f} teacher-forced"


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextlib.contextmanager
def show_progress(name: str, quiet: bool, stop_request: StopRequest) -> Iterator[Callbacks]:
    """Show the progress of training, and yield the callbacks that update the display.

    On a terminal, the display is a panel for a single run and a progress bar for many runs. If
    stderr is not a terminal, or if the terminal is dumb, the display prints lines.

    Args:
        name: the name of the run or the comparison.
        quiet: whether to show nothing.
        stop_request: the record of the stop signals. The attribute `started` of the record becomes
            True when training starts.
    """
    from seqattn.experiments import Callbacks

    display = Display() if quiet else LineDisplay()
    facts: dict[str, Any] = {}

    def begin(done: int, epochs: int) -> None:
        nonlocal display
        stop_request.started = True
        if not quiet:
            display.close()
            display = _choose_display(name, done, epochs, facts)

    def stop() -> int:
        display.step()
        return stop_request.signals[0] if stop_request.signals else 0

    try:
        yield Callbacks(
            begin, lambda record: display.epoch(record), lambda line: display.message(line), stop,
            facts.update,
        )  # fmt: skip
    finally:
        display.close()


def _choose_display(name: str, done: int, epochs: int, facts: Mapping[str, Any]) -> Display:
    """Create the progress display when training starts.

    Args:
        name: the name of the run or the comparison.
        done: the number of finished epochs.
        epochs: the total number of epochs.
        facts: the seed and the noise floor of a single run; empty for many runs.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return LineDisplay(done, epochs)
    if not facts:
        return BarDisplay(name, done, epochs)
    return PanelDisplay(name, done, epochs, facts)
