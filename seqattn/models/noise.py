"""Random numbers of a forward pass, for dropout and hard attention.

Letters: N sequences, L steps, A heads, H width of the state, W width of the readout's input.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from seqattn.models.base import RNG


class Dropout(NamedTuple):
    """The dropout of a Transformer's forward pass.

    Attributes:
        rng: source of the random numbers; None for no dropout.
        p: probability that an element is set to zero.
    """

    rng: RNG | None
    p: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.rng is None or self.p == 0:
            return x
        kept = self.rng.uniform("dropout", *x.shape[-3:]) >= self.p
        return x * kept.to(x.dtype) / (1 - self.p)


class Noise(NamedTuple):
    """The random numbers of L decoder steps of a recurrent model.

    Attributes:
        attention: (..., N, [A,] L), uniform over [0, 1], to sample the positions of hard attention.
            Rounding to float32 can result in 1.0. Pass None to select the most probable positions.
        layer_dropout: dropout factors of the input of each layer except the first, (..., N, L, H)
            each.
        readout_dropout: (..., N, L, W), dropout factors of the readout's input; None for no
            dropout.
    """

    attention: Tensor | None = None
    layer_dropout: tuple[Tensor, ...] = ()
    readout_dropout: Tensor | None = None

    def slice_steps(self, first: int, last: int) -> Noise:
        """Return the numbers of the steps `first` to `last - 1`."""
        if self is NO_NOISE:
            return self
        return Noise(
            None if self.attention is None else self.attention[..., first:last],
            tuple(factors[..., first:last, :] for factors in self.layer_dropout),
            None if self.readout_dropout is None else self.readout_dropout[..., first:last, :],
        )

    def drop_readout(self, x: Tensor) -> Tensor:
        """Apply dropout to the readout's input x (..., N, L, W)."""
        return x if self.readout_dropout is None else x * self.readout_dropout


NO_NOISE = Noise()


def dropout_factors(rng: RNG, p: float, like: Tensor, *shape: int) -> Tensor:
    """Draw dropout factors in the dtype of `like`: 0 with probability p, otherwise 1 / (1 - p)."""
    kept = rng.uniform("dropout", *shape) >= p
    return kept.to(like.dtype) / (1 - p)
