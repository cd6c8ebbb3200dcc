"""Random numbers of a forward pass: dropout and hard choices.

Letters: N sequences, L steps, A heads, H width of the state.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from seqattn.models.base import RNG


class Dropout(NamedTuple):
    """Dropout of a Transformer's forward pass.

    Attributes:
        draws: None: nothing is dropped.
        chance: of a number.
    """

    draws: RNG | None
    chance: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.draws is None or self.chance == 0:
            return x
        kept = self.draws.uniform("dropout", *x.shape[-3:]) >= self.chance
        return x * kept.to(x.dtype) / (1 - self.chance)


class Noise(NamedTuple):
    """Random numbers of L decoder steps of a recurrent model.

    Attributes:
        choices: (..., N, [A,] L), uniform, for hard attention; None: it takes the best.
        layers: (..., N, L, H) factors of dropout below each layer but the first.
        readout: (..., N, L, W) factors of dropout on what makes the point; None: no dropout.
    """

    choices: Tensor | None = None
    layers: tuple[Tensor, ...] = ()
    readout: Tensor | None = None

    def steps(self, first: int, last: int) -> Noise:
        """Those of steps first to last - 1."""
        if self is NO_NOISE:
            return self
        return Noise(
            None if self.choices is None else self.choices[..., first:last],
            tuple(factors[..., first:last, :] for factors in self.layers),
            None if self.readout is None else self.readout[..., first:last, :],
        )

    def on_readout(self, x: Tensor) -> Tensor:
        """x (..., N, L, W) after dropout."""
        return x if self.readout is None else x * self.readout


NO_NOISE = Noise()
