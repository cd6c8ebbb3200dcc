"""Many variants and seeds become one table with its spread.

outputs/NAME/
  comparison.json     what is compared: it makes the folder this comparison's and no other's
  VARIANT/seed-K/     an ordinary run folder for each variant and seed
  variants.csv        a row a variant: median, mean, intervals, best and worst seed, ...
  pairs.csv           a row a pair: difference, interval, test, effect size
  seeds.csv           a row a run
  comparison.md       the tables and what they say, in words
  comparison.png, curves.png, attention.png, along.png
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from seqattn.comparison.drawing import draw_all
from seqattn.comparison.outcome import Arm, Outcome
from seqattn.comparison.statistics import Spread, differences
from seqattn.comparison.tables import sentences, write_tables
from seqattn.config.comparing import Comparison
from seqattn.errors import UsageError
from seqattn.experiment import Job, Watchers, run_all
from seqattn.runs import RunFolder
from seqattn.storage import write_json

MARK = "comparison.json"


def compare(
    comparison: Comparison,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    plots: bool = False,
    config_path: Path | None = None,
    watchers: Watchers | None = None,
) -> Outcome:
    """Train every variant with every seed and say what the losses say. What is finished already
    is not trained again.

    Args:
        output_dir: all goes to `output_dir / comparison.name`.
        plots: draw each run's own pictures too.
        device, threads, config_path, watchers: see `experiment.run_all`.

    Raises:
        SeqattnError: what a user can mend; a folder that is not this comparison's among them.
    """
    path = output_dir / comparison.name
    _refuse_another(path, comparison)
    wanted = [
        (
            variant.config.model_copy(update={"seed": seed}),
            RunFolder(path / variant.name / f"seed-{seed}"),
        )
        for variant in comparison.variants
        for seed in comparison.seeds
    ]
    jobs = run_all(
        wanted, device=device, threads=threads, resume=True, plots=plots,
        config_path=config_path, watchers=watchers,
        before_writing=lambda: write_json(path / MARK, comparison.as_plain()),
    )  # fmt: skip
    count = len(comparison.seeds)
    arms = tuple(
        arm_of(variant.name, jobs[place * count : (place + 1) * count], variant.series, variant.at)
        for place, variant in enumerate(comparison.variants)
    )
    groups: dict[float | None, dict[str, dict[int, float]]] = {}
    for arm in arms:
        groups.setdefault(arm.at, {})[arm.name] = arm.losses
    pairs = differences(groups.values())
    same = len({repr(variant.config.data) for variant in comparison.variants}) == 1
    outcome = Outcome(path, comparison.name, arms, tuple(pairs), same, comparison.along)
    write_tables(outcome)
    draw_all(outcome)
    return outcome


def arm_of(name: str, jobs: Sequence[Job], series: str = "", at: float | None = None) -> Arm:
    """The seeds of one variant."""
    summaries = {job.config.seed: job.summary for job in jobs if job.summary is not None}
    losses = {seed: summary["test_loss"] for seed, summary in summaries.items()}
    folders = {job.config.seed: job.folder for job in jobs}
    return Arm(name, folders, summaries, Spread.of(losses) if losses else None, series, at)


def _refuse_another(path: Path, comparison: Comparison) -> None:
    """A folder that holds anything but this comparison is not touched."""
    if RunFolder(path).is_free:
        return
    try:
        before = json.loads((path / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            f"{path}: is there already, and is not the folder of a comparison (no readable"
            f" {MARK}), so nothing in it is touched. Choose another --name."
        ) from None
    now = json.loads(json.dumps(comparison.as_plain()))
    if before == now:
        return
    old, new = (set(found.get("variants", {})) for found in (before, now))
    if old != new:
        said = f"its variants are {', '.join(sorted(old))}; asked are {', '.join(sorted(new))}"
    else:
        changed = [
            name for name in sorted(new) if before["variants"][name] != now["variants"][name]
        ]
        said = f"its {', '.join(changed)} had another config"
    raise UsageError(
        f"{path}: holds another comparison: {said}. Nothing in it is touched. Choose another"
        " --name."
    )


__all__ = ["Arm", "Outcome", "arm_of", "compare", "sentences"]
