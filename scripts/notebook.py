"""The reference of the benchmark: an encoder-decoder with attention as in typical notebooks.

    python scripts/notebook.py FOLDER

The code has one class for each part of the model, stores state on the modules, computes one decoder
step at a time, uses a DataLoader over a TensorDataset, and calls `.item()` after every batch. The
script writes the same kinds of output as `seqattn train configs/notebook.yaml`: weights, losses,
forecasts, attention, and three pictures. It does not import seqattn.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(features, hidden, batch_first=True)

    def forward(self, source: Tensor) -> Tensor:
        states, self.hidden = self.rnn(source)
        return states


class NotebookAttention(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.width = hidden
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def set_memory(self, states: Tensor) -> None:
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
        self.attention = NotebookAttention(hidden)
        self.output = nn.Linear(2 * hidden, features)

    def start(self, states: Tensor) -> None:
        self.attention.set_memory(states)
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
            output = self.decoder(point)
            outputs[:, step : step + 1] = output
            self.weights[:, step : step + 1] = self.decoder.attention.weights
            is_forced = torch.rand(1) < teacher_forcing
            point = target[:, step : step + 1] if is_forced else output
        return outputs


def train_notebook(
    source: Tensor, target: Tensor, held_out_source: Tensor, held_out_target: Tensor, *,
    hidden: int, batch_size: int, epochs: int,
) -> tuple[NotebookModel, list[float], list[float]]:  # fmt: skip
    """Train a model, and return it with the training and validation losses of each epoch."""
    torch.manual_seed(1)
    device = torch.device("cpu")
    model = NotebookModel(2, hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of = nn.MSELoss()
    loader = DataLoader(TensorDataset(source, target), batch_size=batch_size, shuffle=True)
    held_out = TensorDataset(held_out_source, held_out_target)
    validation_loader = DataLoader(held_out, batch_size=batch_size)
    losses, validation_losses = [], []
    for _ in range(epochs):
        model.train()
        batch_losses = []
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = loss_of(model(x, y, 0.5), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            batch_losses.append(loss.item())
        losses.append(float(np.mean(batch_losses)))
        model.eval()
        batch_losses = []
        with torch.no_grad():
            for x, y in validation_loader:
                x, y = x.to(device), y.to(device)
                batch_losses.append(loss_of(model(x, y, 0.0), y).item())
        validation_losses.append(float(np.mean(batch_losses)))
    return model, losses, validation_losses


def squares(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Generate noisy squares with two source and two target corners."""
    numbers = np.random.RandomState(seed)
    corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]], dtype=np.float64)
    rows = []
    for _ in range(n):
        start, direction = numbers.randint(4), 1 if numbers.rand() < 0.5 else -1
        rows.append(corners[[(start + direction * k) % 4 for k in range(4)]])
    points = torch.as_tensor(np.array(rows) + 0.1 * numbers.randn(n, 4, 2), dtype=torch.float32)
    return points[:, :2], points[:, 2:]


def main(folder: Path) -> None:
    import matplotlib.pyplot as plt

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    model, losses, validation_losses = train_notebook(
        *squares(128, 13), *squares(128, 17), hidden=2, batch_size=16, epochs=100
    )
    torch.save(model.state_dict(), folder / "model.pt")
    with (folder / "losses.csv").open("w", newline="") as file:
        csv.writer(file).writerows(zip(losses, validation_losses, strict=True))
    source, target = squares(128, 19)
    with torch.no_grad():
        forecast = model(source, target, 0.0)
    np.savez(folder / "predictions.npz", source=source, target=target, forecast=forecast,
             attention=model.weights)  # fmt: skip
    plt.figure(figsize=(7, 4))
    plt.plot(losses, label="training")
    plt.plot(validation_losses, label="validation")
    plt.legend()
    plt.savefig(folder / "loss_curve.png")
    figure, panels = plt.subplots(2, 5, figsize=(14, 6))
    for k, axes in enumerate(panels.ravel()):
        for points, color in ((source, "k"), (target, "g"), (forecast, "r")):
            axes.plot(*points[k].T, "o-", color=color)
    figure.savefig(folder / "predictions.png")
    figure, panels = plt.subplots(2, 5, figsize=(14, 6))
    for k, axes in enumerate(panels.ravel()):
        axes.imshow(model.weights[k], vmin=0, vmax=1)
        for (row, column), weight in np.ndenumerate(model.weights[k].numpy()):
            axes.text(column, row, f"{weight:.2f}", ha="center")
    figure.savefig(folder / "attention.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
