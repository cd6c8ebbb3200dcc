"""Times the training loop against a notebook's loop on the same work, side by side in one run.

    make bench                                       # or: python scripts/bench.py --repeats 5

The notebook's loop is the way encoder-decoders with attention are usually taught: a DataLoader
over a TensorDataset, a GRU module called once a step, a coin tossed at every step, `.item()` after
every batch, and one validation pass an epoch. seqattn's loop does the same work with two validation
passes an epoch (free running and teacher-forced). Both use one thread. Times drift on a busy
machine, so the two take turns, and what counts is the ratio.

    A  hidden 2, 128 squares, batch 16, 100 epochs
    B  hidden 64, 2048 squares, batch 64, 5 epochs
    C  hidden 64, 2048 random paths of 32 -> 32 points, batch 64, 1 epoch
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from seqattn.config import Recurrent, Squares, Training
from seqattn.data import load
from seqattn.models import build_model
from seqattn.training import Batch, Run, to_tensors, train


@dataclass(frozen=True)
class Work:
    name: str
    hidden: int
    batch_size: int
    epochs: int
    data: Batch
    validation: Batch


def works() -> list[Work]:
    def squares(n: int) -> tuple[Batch, Batch]:
        splits = load(Squares(n_train=n, n_validation=128))
        return to_tensors(splits.train), to_tensors(splits.validation)

    def paths(n: int, seed: int) -> Batch:
        steps = np.random.RandomState(seed).randn(n, 64, 2) * 0.1
        points = torch.as_tensor(steps.cumsum(axis=1), dtype=torch.float32)
        return Batch(points[:, :32], points[:, 32:])

    return [
        Work("A", 2, 16, 100, *squares(128)),
        Work("B", 64, 64, 5, *squares(2048)),
        Work("C", 64, 64, 1, paths(2048, 1), paths(128, 2)),
    ]


# --- as a notebook writes it: a class a part, state kept on the modules, one step at a time ------


class Encoder(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(features, hidden, batch_first=True)

    def forward(self, source: Tensor) -> Tensor:
        states, self.hidden = self.rnn(source)
        return states


class Attention(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.width = hidden
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def remember(self, states: Tensor) -> None:
        self.values, self.keys = states, self.key(states)

    def forward(self, state: Tensor) -> Tensor:
        products = torch.bmm(self.query(state), self.keys.permute(0, 2, 1))
        weights = torch.softmax(products / math.sqrt(self.width), dim=-1)
        self.weights = weights.detach()
        return torch.bmm(weights, self.values)


class Decoder(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(features, hidden, batch_first=True)
        self.attention = Attention(hidden)
        self.output = nn.Linear(2 * hidden, features)

    def start(self, states: Tensor) -> None:
        self.attention.remember(states)
        self.hidden = states[:, -1:].permute(1, 0, 2).contiguous()

    def forward(self, point: Tensor) -> Tensor:
        state, self.hidden = self.rnn(point, self.hidden)
        context = self.attention(state)
        return self.output(torch.cat([context, state], dim=-1))


class NotebookModel(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(features, hidden), Decoder(features, hidden)

    def forward(self, source: Tensor, target: Tensor, teacher_forcing: float) -> Tensor:
        self.decoder.start(self.encoder(source))
        outputs = torch.zeros_like(target)
        self.weights = torch.zeros(target.shape[0], target.shape[1], source.shape[1])
        point = source[:, -1:]
        for step in range(target.shape[1]):
            said = self.decoder(point)
            outputs[:, step : step + 1] = said
            self.weights[:, step : step + 1] = self.decoder.attention.weights
            told = torch.rand(1) < teacher_forcing
            point = target[:, step : step + 1] if told else said
        return outputs


def notebook_loop(work: Work) -> float:
    """Train as a notebook does; the last validation loss."""
    torch.manual_seed(1)
    device = torch.device("cpu")
    model = NotebookModel(2, work.hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of = nn.MSELoss()
    dataset = TensorDataset(work.data.source, work.data.target)
    loader = DataLoader(dataset, batch_size=work.batch_size, shuffle=True)
    held_out = TensorDataset(work.validation.source, work.validation.target)
    validation_loader = DataLoader(held_out, batch_size=work.batch_size)
    losses, validation_losses = [], []
    for _ in range(work.epochs):
        model.train()
        batch_losses = []
        for source, target in loader:
            source, target = source.to(device), target.to(device)
            loss = loss_of(model(source, target, 0.5), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            batch_losses.append(loss.item())
        losses.append(float(np.mean(batch_losses)))
        model.eval()
        batch_losses = []
        with torch.no_grad():
            for source, target in validation_loader:
                source, target = source.to(device), target.to(device)
                batch_losses.append(loss_of(model(source, target, 0.0), target).item())
        validation_losses.append(float(np.mean(batch_losses)))
    return validation_losses[-1]


# --- the same with seqattn -----------------------------------------------------------------------


def seqattn_loop(work: Work, by_hand: bool = True) -> float:
    """Train with seqattn; the last validation loss."""
    config = Training(epochs=work.epochs, batch_size=work.batch_size, learning_rate=0.01)
    model = build_model(Recurrent(hidden_dim=work.hidden), 2, seed=1)
    run = Run(model, work.data, work.validation, config, seed=1)
    train([run], by_hand=by_hand)
    return run.history[-1].validation_loss


def seconds(loop: Callable[[Work], float], work: Work) -> tuple[float, float]:
    began = time.perf_counter()
    loss = loop(work)
    return time.perf_counter() - began, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each (default 5)")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, one thread,"
          f" {arguments.repeats} repeats, median [min to max]\n")  # fmt: skip
    print(f"{'work':<5}{'notebook, s':>24}{'seqattn, s':>24}{'ratio':>24}")
    figures = {}
    for work in works():
        seconds(notebook_loop, work), seconds(seqattn_loop, work)  # warm-up, not counted
        pairs = []
        for _ in range(arguments.repeats):
            theirs, ours = seconds(notebook_loop, work), seconds(seqattn_loop, work)
            pairs.append((theirs[0], ours[0]))
        columns = {
            "notebook_seconds": [theirs for theirs, _ in pairs],
            "seqattn_seconds": [ours for _, ours in pairs],
            "ratio": [theirs / ours for theirs, ours in pairs],
        }
        figures[work.name] = columns
        cells = [
            f"{statistics.median(column):.2f} [{min(column):.2f} to {max(column):.2f}]"
            for column in columns.values()
        ]
        print(f"{work.name:<5}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
