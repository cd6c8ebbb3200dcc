"""The panel that shows the progress of a single training run in a terminal."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seqattn.cli.output import escape_controls, note, plain_console
from seqattn.cli.progress import Display

if TYPE_CHECKING:
    from rich.panel import Panel

    from seqattn.runs import EpochRecord

SPARKS = "▁▂▃▄▅▆▇█"
REDRAW_SECONDS = 0.2
"""Minimum time between two redraws of the panel, in seconds. More frequent redraws would slow down
training."""


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
                f"training {record.train_loss:.4f}  validation {record.validation_loss:.4f} free"
                f" running, {record.validation_loss_teacher_forced:.4f} teacher-forced"
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


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
