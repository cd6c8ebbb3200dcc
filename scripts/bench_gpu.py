"""Measure training steps on a GPU, and compare them with those of a practised user of torch.

    make bench-gpu                                       # or: python scripts/bench_gpu.py
    python scripts/bench_gpu.py --only A,wide --json figures.json

A step consists of what `seqattn train` does for each batch: taking the batch from the shuffled
sequences, forward and backward pass, clipping and the update of the weights. Each time is the
median of several blocks of steps. The GPU is waited for only at the end of a block. The sizes are N
sequences in a batch, S = T steps in source and target, a state of width H, and R runs in one batch.

The columns are

    eager        autograd, without CUDA graphs
    graphs       autograd, captured as a CUDA graph
    by hand      manually derived gradients, without CUDA graphs
    hand+graphs  manually derived gradients, captured as a CUDA graph
    peer         the model in plain torch (scripts/practised.py, scripts/practised_words.py); for
                 many runs, one run after the other, so the time of one run is multiplied by R
    of peak      floating-point operations of a step in the fastest column, as a share of what a
                 product of two large matrices reaches in the same precision

The script runs on a CPU as well, for a test of the script itself (`--device cpu --blocks 1`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import practised
import practised_words
import torch
from bench_results import conditions_text, describe_conditions
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from seqattn.config import Config, resolve
from seqattn.models import FeatureSpec, build_model
from seqattn.training import Batch, RunProgress, TrainingRun
from seqattn.training.learner import Learner, build_group
from seqattn.training.loop import train_step
from seqattn.training.state import TrainState

BATCHES = 8
FEATURES = 2
COLUMNS = ("eager", "graphs", "by hand", "hand+graphs", "peer")


@dataclass(frozen=True)
class GpuWork:
    """A model and its sizes; see the docstring of the file."""

    name: str
    N: int
    S: int
    R: int
    model: dict[str, Any]
    bfloat16: bool = False
    symbols: int = 0  # size of both vocabularies; 0 for vectors

    @property
    def features(self) -> FeatureSpec:
        if self.symbols:
            return FeatureSpec(1, 1, (-1,), self.symbols, self.symbols)
        return FeatureSpec.same(FEATURES)

    @property
    def is_transformer(self) -> bool:
        return bool(self.model["kind"] == "transformer")

    @property
    def config(self) -> Config:
        training = {
            "batch_size": self.N, "learning_rate": 1e-3,
            "precision": "bfloat16" if self.bfloat16 else "float32",
            "teacher_forcing": {"probability": 1.0 if self.is_transformer or self.symbols else 0.5},
        }  # fmt: skip
        return resolve({"model": self.model, "training": training}).config


def recurrent(width: int) -> dict[str, Any]:
    return {"kind": "recurrent", "hidden_dim": width}


TRANSFORMER = {
    "kind": "transformer", "model_dim": 256, "heads": 8, "layers": 3, "feedforward_dim": 1024,
}  # fmt: skip
WORDS = {
    "kind": "recurrent", "hidden_dim": 512, "bidirectional": True, "context": "input",
    "attention": {"score": "additive"},
}  # fmt: skip
WORKS = [
    GpuWork("A: H 2, S 2, N 16", 16, 2, 1, recurrent(2)),
    GpuWork("B: H 64, S 2, N 64", 64, 2, 1, recurrent(64)),
    GpuWork("C: H 64, S 32, N 64", 64, 32, 1, recurrent(64)),
    GpuWork("64 seeds of A", 16, 2, 64, recurrent(2)),
    GpuWork("1,024 seeds of A", 16, 2, 1024, recurrent(2)),
    GpuWork("64 seeds of C", 64, 32, 64, recurrent(64)),
    GpuWork("wide: H 512, S 128, N 64", 64, 128, 1, recurrent(512)),
    GpuWork("wide, bfloat16", 64, 128, 1, recurrent(512), bfloat16=True),
    GpuWork("Transformer: D 256, S 128, N 64", 64, 128, 1, TRANSFORMER),
    GpuWork("Transformer, bfloat16", 64, 128, 1, TRANSFORMER, bfloat16=True),
    GpuWork("words: H 512, V 8,000, N 256", 256, 20, 1, WORDS, symbols=8000),
    GpuWork("words, bfloat16", 256, 20, 1, WORDS, bfloat16=True, symbols=8000),
    GpuWork(
        "Transformer of words: D 512", 256, 20, 1, {**TRANSFORMER, "model_dim": 512}, symbols=8000
    ),
    GpuWork(
        "Transformer of words, bfloat16",
        256,
        20,
        1,
        {**TRANSFORMER, "model_dim": 512},
        bfloat16=True,
        symbols=8000,
    ),
]


class Bench:
    """The measurement of all works on one device.

    Args:
        device: the device.
        blocks: number of blocks of steps; the result is the median.
        seconds: approximate duration of all blocks of a column.
    """

    def __init__(self, device: torch.device, blocks: int, seconds: float) -> None:
        self.device, self.blocks, self.seconds = device, blocks, seconds

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def time_of(self, step: Callable[[], object]) -> float:
        """Return the median duration of a step in seconds."""
        for _ in range(BATCHES):
            step()
        self.wait()
        began = time.perf_counter()
        for _ in range(2):
            step()
        self.wait()
        each = (time.perf_counter() - began) / 2
        steps = max(2, min(200, int(self.seconds / self.blocks / each)))
        taken = []
        for _ in range(self.blocks):
            began = time.perf_counter()
            for _ in range(steps):
                step()
            self.wait()
            taken.append((time.perf_counter() - began) / steps)
        return statistics.median(taken)

    def data_of(self, work: GpuWork) -> Batch:
        numbers = torch.Generator().manual_seed(1)
        if work.symbols:
            shape = (2, BATCHES * work.N, work.S, 1)
            words = torch.randint(4, work.symbols, shape, generator=numbers)
            return Batch(*words.to(self.device))
        points = torch.randn(2, BATCHES * work.N, work.S, FEATURES, generator=numbers)
        return Batch(*points.to(self.device))

    def group_of(self, work: GpuWork, *, graphs: bool, manual: bool) -> tuple[TrainState, Learner]:
        config, data = work.config, self.data_of(work)
        training = config.training.model_copy(update={"cuda_graphs": graphs})
        few = data.take(slice(0, 1))
        runs = [
            TrainingRun(
                build_model(config.model, work.features, seed).to(self.device),
                data,
                few,
                training,
                seed,
            )
            for seed in range(work.R)
        ]
        return build_group([RunProgress(run) for run in runs], manual_backward=manual)

    def ours(self, work: GpuWork, *, graphs: bool, manual: bool) -> tuple[float, str]:
        """Return the seconds of a step, and the name of the gradient backend."""
        state, learner = self.group_of(work, graphs=graphs, manual=manual)
        plan = learner.plan_epoch(state)

        def step() -> None:
            state.step %= BATCHES
            train_step(state, learner, plan)
            if not state.step % BATCHES:
                state.pending.clear()

        taken = self.time_of(step)
        return taken, learner.loss_fn.name

    def flops_of(self, work: GpuWork) -> int:
        """Return the floating-point operations of a step, as torch counts them."""
        state, learner = self.group_of(work, graphs=False, manual=False)
        plan = learner.plan_epoch(state)
        with FlopCounterMode(display=False) as counter:
            learner.compute_gradient(state, plan)
        return counter.get_total_flops()

    def peer(self, work: GpuWork) -> float:
        """Return the seconds of a step of R runs in plain torch."""
        data = self.data_of(work)
        model: nn.Module
        if work.is_transformer:
            sizes = [work.model[key] for key in ("model_dim", "heads", "layers", "feedforward_dim")]
            model = practised.PractisedTransformer(FEATURES, *sizes, work.S, symbols=work.symbols)
        elif work.symbols:
            width = work.model["hidden_dim"]
            model = practised_words.PractisedWords(work.symbols, work.symbols, width, width)
        else:
            model = practised.PractisedModel(FEATURES, work.model["hidden_dim"])
        model.to(self.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        numbers = torch.Generator().manual_seed(1)

        def step() -> None:
            rows = torch.randint(len(data), (work.N,), generator=numbers).to(self.device)
            source, target = data.source[rows], data.target[rows]
            arguments: list[Any] = [source, target]
            if not work.is_transformer:
                arguments.append((torch.rand(work.S, generator=numbers) < 0.5).tolist())
            optimizer.zero_grad()
            half = torch.autocast(self.device.type, torch.bfloat16)
            with half if work.bfloat16 else nullcontext():
                if isinstance(model, practised_words.PractisedWords):
                    lengths = torch.full((work.N,), work.S)  # on the CPU, as torch packs sequences
                    loss = model.loss(source.squeeze(-1), lengths, target.squeeze(-1))
                elif work.symbols:
                    logits = model(source, target).float().flatten(0, 1)
                    loss = nn.functional.cross_entropy(logits, target.flatten())
                else:
                    loss = nn.functional.mse_loss(model(*arguments).float(), target)
            loss.backward()
            optimizer.step()

        return work.R * self.time_of(step)

    def peak(self, *, bfloat16: bool, size: int) -> float:
        """Return the floating-point operations per second of a product of two size x size
        matrices."""
        dtype = torch.bfloat16 if bfloat16 else torch.float32
        a = torch.randn(size, size, device=self.device).to(dtype)
        return 2 * size**3 / self.time_of(lambda: a @ a)

    def measure(self, work: GpuWork, peaks: dict[bool, float]) -> dict[str, Any]:
        """Measure all columns of a work."""
        found: dict[str, Any] = {}
        backends = []
        for column in COLUMNS[:-1]:
            graphs, manual = "graphs" in column, "hand" in column
            if manual and (work.bfloat16 or work.is_transformer or work.symbols):
                continue
            found[column], backend = self.ours(work, graphs=graphs, manual=manual)
            backends.append(backend)
        found["peer"] = self.peer(work)
        fastest = min(found[column] for column in COLUMNS[:-1] if column in found)
        found["flops"] = self.flops_of(work)
        found["of peak"] = found["flops"] / fastest / peaks[work.bfloat16]
        return {**found, "backends": backends}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="beginnings of the names to measure, separated by commas")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", type=Path, default=Path("outputs/bench-gpu.json"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    bench = Bench(device, arguments.blocks, arguments.seconds)
    conditions = describe_conditions()
    size = 512
    if device.type == "cuda":
        conditions["gpu"], size = torch.cuda.get_device_name(device), 8192
        print(conditions["gpu"])
    print(conditions_text(conditions))
    peaks = {half: bench.peak(bfloat16=half, size=size) for half in (False, True)}
    print(", ".join(
        f"{'bfloat16' if half else 'float32'}: {peak / 1e12:.3g} TFLOP/s in a product of two"
        f" {size} x {size} matrices" for half, peak in peaks.items()
    ))  # fmt: skip
    print(f"\n{'ms a step':<34}" + "".join(f"{column:>13}" for column in COLUMNS) + "    of peak")
    chosen = arguments.only.split(",") if arguments.only else [""]
    rows = {}
    for work in WORKS:
        if not any(work.name.startswith(name) for name in chosen):
            continue
        found = rows[work.name] = bench.measure(work, peaks)
        cells = [f"{found[c] * 1e3:.3g}" if c in found else "-" for c in COLUMNS]
        share = f"{found['of peak']:.2%}"
        print(f"{work.name:<34}" + "".join(f"{cell:>13}" for cell in cells) + f"{share:>11}")
        for backend in found["backends"]:
            if "no CUDA graphs" in backend:
                print(f"    {backend}")
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        content = {"conditions": conditions, "peaks": list(peaks.values()), "rows": rows}
        arguments.json.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
