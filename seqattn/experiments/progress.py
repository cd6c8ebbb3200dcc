"""The losses that a display of the progress of training shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from seqattn.runs import EpochRecord


@dataclass
class RunsInTraining:
    """The newest losses of the runs that are still training.

    Attributes:
        total: the number of runs.
        newest: the newest record of each run that has finished an epoch and has not ended, by run
            folder.
    """

    total: int = 1
    newest: dict[Path, EpochRecord] = field(default_factory=dict)

    def epoch(self, folder: Path, record: EpochRecord) -> None:
        self.newest[folder] = record

    def ended(self, folder: Path) -> None:
        self.newest.pop(folder, None)

    def describe_losses(self) -> str:
        """Return the losses of the run that is training. Of several runs, return how many are still
        training, and the median and the range of their validation losses. At least one run must be
        training."""
        records = list(self.newest.values())
        exact = [each.exact_match for each in records if each.exact_match is not None]
        bleu = [each.bleu for each in records if each.bleu is not None]
        losses = [each.validation_loss for each in records]
        if len(records) == 1:
            text = f"training {records[0].train_loss:.4f}, validation {losses[0]:.4f}"
        else:
            text = (
                f"median validation {median(losses):.4f} ({min(losses):.4f} to {max(losses):.4f})"
            )
        if self.total > 1:
            text = f"{len(records)} of {self.total} runs training, {text}"
        if bleu:
            return f"{text}, BLEU {median(bleu):.2f}"
        return f"{text}, exact {median(exact):.1%}" if exact else text
