"""Two models as a practised user of torch writes them: references for the benchmarks.

    python scripts/bench.py --only A,B,C,transformer --peers

`PractisedModel` is the notebook's model. One call of nn.GRU encodes all source steps, and one
matrix product computes the keys. The decoder calls nn.GRUCell once for each step.
`PractisedTransformer` is torch's own nn.Transformer. The optimizer is fused. There is no
DataLoader, no `.item()` in the loop and no validation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class PractisedModel(nn.Module):
    """A GRU encoder-decoder with scaled dot-product attention.

    Args:
        features: F, the number of features.
        hidden: H, the width of the recurrent state.
    """

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(features, hidden, batch_first=True)
        self.decoder = nn.GRUCell(features, hidden)
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.output = nn.Linear(2 * hidden, features)

    def forward(self, source: Tensor, target: Tensor, forced: list[bool]) -> Tensor:
        """Return the outputs (N, T, F).

        Args:
            source, target: (N, S, F) and (N, T, F), the sequences.
            forced: for each step, whether its input is the previous target.
        """
        encoded, last = self.encoder(source)
        keys = self.key(encoded).mT / math.sqrt(encoded.shape[-1])
        state, x, outputs = last[0], source[:, -1], list[Tensor]()
        for t in range(target.shape[1]):
            if t > 0:
                x = target[:, t - 1] if forced[t] else outputs[-1]
            state = self.decoder(x, state)
            scores = self.query(state).unsqueeze(1) @ keys
            context = (scores.softmax(-1) @ encoded).squeeze(1)
            outputs.append(self.output(torch.cat([context, state], dim=-1)))
        return torch.stack(outputs, dim=1)


class PractisedTransformer(nn.Module):
    """A pre-norm nn.Transformer between two linear layers, with sinusoidal positions.

    Args:
        features: F, the number of features.
        width: D, the width of every layer.
        heads: number of attention heads.
        layers: number of layers in the encoder and in the decoder.
        feedforward: width of the hidden layer in each feed-forward sublayer.
        longest: length of the longest sequence.
        symbols: size of both vocabularies if the steps are symbols (N, L, 1); 0 for vectors.
    """

    positions: Tensor
    ahead: Tensor

    def __init__(
        self, features: int, width: int, heads: int, layers: int, feedforward: int, longest: int,
        *, symbols: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.symbols = symbols
        self.source_in, self.target_in = (
            nn.Embedding(symbols, width) if symbols else nn.Linear(features, width)
            for _ in range(2)
        )
        self.transformer = nn.Transformer(
            width, heads, layers, layers, feedforward, dropout=0.0, batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.output = nn.Linear(width, symbols or features)
        place = torch.arange(longest).unsqueeze(-1)
        angles = place * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        self.register_buffer("positions", waves)
        ahead = nn.Transformer.generate_square_subsequent_mask(longest)
        self.register_buffer("ahead", ahead)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the outputs (N, T, F) for sources (N, S, F) and targets (N, T, F), with teacher
        forcing at every step."""
        S, T = source.shape[1], target.shape[1]
        shifted = torch.cat([source[:, -1:], target[:, :-1]], dim=1)
        if self.symbols:
            source, shifted = source.squeeze(-1), shifted.squeeze(-1)
        output: Tensor = self.transformer(
            self.source_in(source) + self.positions[:S],
            self.target_in(shifted) + self.positions[:T],
            tgt_mask=self.ahead[:T, :T], tgt_is_causal=True,
        )  # fmt: skip
        values: Tensor = self.output(output)
        return values


def train_practised(
    source: Tensor, target: Tensor, *, hidden: int, batch_size: int, epochs: int
) -> float:
    """Train with Adam at learning rate 0.01, and return the loss of the last batch.

    A coin flip for each step decides whether the step is teacher-forced.
    """
    model = PractisedModel(source.shape[-1], hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    loss = source.new_zeros(())
    for _ in range(epochs):
        for rows in torch.randperm(len(source)).split(batch_size):
            optimizer.zero_grad()
            forced = (torch.rand(target.shape[1]) < 0.5).tolist()
            loss = nn.functional.mse_loss(model(source[rows], target[rows], forced), target[rows])
            loss.backward()
            optimizer.step()
    return loss.item()
