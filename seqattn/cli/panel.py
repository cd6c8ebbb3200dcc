"""What a terminal shows while one run trains."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seqattn.cli.output import note, plain_console, printable
from seqattn.cli.progress import Display

if TYPE_CHECKING:
    from rich.panel import Panel as RichPanel

    from seqattn.runs import EpochRecord

BARS = "▁▂▃▄▅▆▇█"
EVERY = 0.2
"""Seconds between two drawings: more is not seen, and takes time from training."""


def sparkline(values: list[float], width: int) -> str:
    """Numbers as bars on a logarithmic scale, the mean of some of them each where they are many."""
    real = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    if not real:
        return ""
    groups = min(width, len(real))
    cuts = [k * len(real) // groups for k in range(groups + 1)]
    means = [sum(real[a:b]) / (b - a) for a, b in itertools.pairwise(cuts)]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(BARS[round((mean - low) / span * (len(BARS) - 1))] for mean in means)


class Panel(Display):
    """A panel that is drawn anew at most five times a second. A terminal that is gone is no reason
    to stop."""

    def __init__(self, name: str, done: int, epochs: int, facts: Mapping[str, Any]) -> None:
        from rich.live import Live

        self.name, self.done, self.epochs, self.facts = name, done, epochs, facts
        self.past, self.steps = done, 0
        self.losses = list[float]()
        self.record: EpochRecord | None = None
        self.began = self.drawn = time.monotonic()
        self.console = plain_console(stderr=True)
        self.live: Live | None = Live(self.drawing(), console=self.console, auto_refresh=False)
        with self._or_none():
            self.live.start(refresh=True)
            self.console.show_cursor(True)  # a process that is ended at once could not give it back

    @contextlib.contextmanager
    def _or_none(self) -> Any:
        try:
            yield
        except (OSError, ValueError):
            self.live = None

    def step(self) -> None:
        self.steps += 1
        self._draw_if_due()

    def epoch(self, record: EpochRecord) -> None:
        self.past += 1
        self.record = record
        self.losses.append(record.validation_loss)
        if self.past == self.epochs:
            self.close()  # what follows is not training
        else:
            self._draw_if_due()

    def say(self, line: str) -> None:
        if self.live is None:
            note(line)
            return
        with self._or_none():
            self.console.print(line)

    def close(self) -> None:
        live = self.live
        if live is not None:
            with self._or_none():
                live.update(self.drawing(), refresh=True)
                live.stop()
        self.live = None

    def _draw_if_due(self) -> None:
        now = time.monotonic()
        if self.live is not None and now - self.drawn >= EVERY:
            self.drawn = now
            with self._or_none():
                self.live.update(self.drawing(), refresh=True)

    def drawing(self) -> RichPanel:
        from rich.panel import Panel as RichPanel
        from rich.text import Text

        width = max(20, min(self.console.width, 100) - 4) if hasattr(self, "console") else 60
        taken = time.monotonic() - self.began
        share = self.past / self.epochs if self.epochs else 1.0
        left = "" if self.past == self.done else _time(
            taken / (self.past - self.done) * (self.epochs - self.past))  # fmt: skip
        speed = f"{self.steps / taken:,.0f} steps/s" if taken > 0.2 and self.steps else ""
        words = f"epoch {self.past}/{self.epochs}  "
        behind = "  ".join(part for part in (speed, f"{left} left" if left else "") if part)
        room = max(6, width - len(words) - len(behind) - 2)
        full = int(share * room)
        lines = [f"{words}{'━' * full}{'╺' * (room - full)}  {behind}"]
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
        title = Text(printable(f"{self.name}, seed {seed}" if seed is not None else self.name))
        return RichPanel(Text("\n".join(lines)), title=title, title_align="left", width=width + 4)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
