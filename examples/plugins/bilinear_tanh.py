"""A score in one file: score = tanh((A q) . (B k) / sqrt(width)).

seqattn check-plugin examples/plugins/bilinear_tanh.py
seqattn train examples/plugins/bilinear_tanh.yaml
"""

import math
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor

import seqattn


class BilinearTanhConfig(seqattn.ScoreConfig):
    """The hyperbolic tangent of a bilinear form of query and key."""

    width: Annotated[int, Field(ge=1, le=8192)] = 8
    """Rank of the bilinear form."""


@seqattn.register_score("bilinear_tanh", BilinearTanhConfig)
class BilinearTanh(seqattn.Score):
    """The score in the docstring of the module. Each head uses its own slice of A q and B k."""

    exportable = True  # `seqattn check-plugin` compares the ONNX graphs with the model

    def __init__(self, hidden: int, width: int, heads: int) -> None:
        super().__init__(heads)
        # Linear accepts the parameters of many runs, which have a leading axis.
        self.query = seqattn.Linear(hidden, width, bias=False)
        self.key = seqattn.Linear(hidden, width, bias=False)

    @classmethod
    def from_config(cls, config: Any, hidden: int) -> "BilinearTanh":
        return cls(hidden, config.width, config.heads)

    def keys(self, encoded: Tensor) -> Tensor:
        # Once per source: (..., N, S, H) -> (..., N, [A,] S, K)
        return self.split(self.key(encoded))

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        # For each query: (..., N, [A,] T, S). Masks are applied later, by the normalizer.
        products = self.split(self.query(queries)) @ keys.mT
        return (products / math.sqrt(keys.shape[-1])).tanh()

    def split(self, x: Tensor) -> Tensor:
        """Split the last axis into heads: (..., L, K) -> (..., A, L, K / A)."""
        return x if self.heads == 1 else x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
