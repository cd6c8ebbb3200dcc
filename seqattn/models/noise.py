"""Random numbers of a forward pass, for dropout and hard attention.

In shapes, N is the number of sequences, L the number of steps, A the number of heads, H the width
of the state, W the width of the readout's input, and `...` an optional leading axis of runs. "[A,]"
denotes an axis that exists only with several heads.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from seqattn.models.base import RNG


class Dropout(NamedTuple):
    """The dropout of a Transformer's forward pass.

    Attributes:
        rng: the source of the random numbers; None for no dropout.
        p: the probability that an element is set to zero.
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
        attention: numbers uniform over [0, 1], (..., N, [A,] L), from which hard attention samples
            positions; None if the model samples no positions. Rounding to float32 can make a number
            1.0.
        layer_dropout: for each decoder layer except the first, the dropout factors of the layer's
            input, (..., N, L, H); empty for no dropout.
        readout_dropout: dropout factors of the readout's input, (..., N, L, W); None for no
            dropout.
    """

    attention: Tensor | None = None
    layer_dropout: tuple[Tensor, ...] = ()
    readout_dropout: Tensor | None = None

    def slice_steps(self, first: int, last: int) -> Noise:
        """Return the random numbers of the steps `first` to `last - 1`."""
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
    """Draw dropout factors in the dtype of `like`. A factor is 0 with probability p; otherwise, the
    factor is 1 / (1 - p)."""
    kept = rng.uniform("dropout", *shape) >= p
    return kept.to(like.dtype) / (1 - p)
