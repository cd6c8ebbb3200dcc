"""Measure whether the bits of a run depend on the runs beside it, and what independent bits cost.

    python scripts/invariance.py

The first table compares seed 1 in groups of different sizes and places. The second measures a
training whose matrix products are computed run by run, so that the size of a group cannot select
another kernel, and one whose decoder steps are segments of one step each, so that the coins of
other runs cannot change the segments. The works are those of scripts/bench.py, with autograd.
"""

from __future__ import annotations

import time
from unittest import mock

import torch
from torch import Tensor
from workloads import Work, workloads

from seqattn.config import Recurrent, Training
from seqattn.models import build_model
from seqattn.models.teacher_forcing import Segment
from seqattn.training import TrainingRun, train_models


def trained(work: Work, seeds: list[int], epochs: int) -> tuple[dict[int, list[float]], float]:
    """Train a group, and return the validation losses of each seed and the processor time."""
    settings = Training(epochs=epochs, batch_size=work.batch_size, learning_rate=0.01)
    config = Recurrent(hidden_dim=work.hidden)
    runs = [
        TrainingRun(build_model(config, 2, seed), work.data, work.validation, settings, seed)
        for seed in seeds
    ]
    began = time.process_time()
    results = train_models(runs, manual_backward=False)
    taken = time.process_time() - began
    losses = {
        seed: [record.validation_loss for record in result.history]
        for seed, result in zip(seeds, results, strict=True)
    }
    return losses, taken


def products_run_by_run(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([torch.mm(*pair) for pair in zip(a.unbind(0), b.unbind(0), strict=True)])


def sums_run_by_run(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    rows = zip(c.unbind(0), a.unbind(0), b.unbind(0), strict=True)
    return torch.stack([torch.addmm(*row) for row in rows])


def main() -> None:
    torch.set_num_threads(1)
    works = {work.name: work for work in workloads()}
    print("seed 1 in a group, largest difference of a validation loss from seed 1 alone")
    for name, epochs in (("A", 20), ("B", 1)):
        alone, _ = trained(works[name], [1], epochs)
        for seeds in ([1, 2], [2, 1], [1, 2, 3], list(range(1, 9))):
            losses, _ = trained(works[name], seeds, epochs)
            difference = max(abs(a - b) for a, b in zip(losses[1], alone[1], strict=True))
            print(f"  {name}, {len(seeds)} runs, place {seeds.index(1) + 1}: {difference:.1e}")
    print("processor time, of the time of the usual training (least of three)")
    for name, seeds, epochs in (("A", range(64), 10), ("B", range(8), 1), ("C", range(8), 1)):
        every_step = mock.patch(
            "seqattn.models.recurrent.segments",
            lambda _, T: [Segment(t, t + 1, "mixed") for t in range(T)],
        )
        products = mock.patch.multiple(torch, bmm=products_run_by_run, baddbmm=sums_run_by_run)
        usual, single, separate = [], [], []
        for _ in range(3):
            usual.append(trained(works[name], list(seeds), epochs)[1])
            with every_step:
                single.append(trained(works[name], list(seeds), epochs)[1])
            with products:
                separate.append(trained(works[name], list(seeds), epochs)[1])
        print(
            f"  {name}, {len(seeds)} runs: segments of one step {min(single) / min(usual):.2f},"
            f" products run by run {min(separate) / min(usual):.2f}"
        )


if __name__ == "__main__":
    main()
