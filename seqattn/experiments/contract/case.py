"""A mechanism in a small model, and the random sequences on which the checks of the contract run.

The sizes of the axes are prime numbers and nearly all different, so that a check notices transposed
axes. With two heads, the width of the state is twice a prime.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from seqattn.config import Model
from seqattn.experiments.contract.result import NotApplicableError
from seqattn.models import (
    FeatureSpec,
    Lengths,
    ModelOutput,
    RecurrentModel,
    Seq2SeqModel,
    build_model,
)
from seqattn.models.attention import Attention
from seqattn.models.cells import Bidirectional, Cell

N, S, T, H, A, RUNS = 3, 7, 5, 11, 2, 2
SOURCE_DIM, TARGET_DIM = 17, 13
FEATURES = FeatureSpec(SOURCE_DIM, TARGET_DIM, (1, -1, 0, 5, -1, 16, 3, -1, 2, 4, -1, 7, 6))
"""Features of source and target. The source lacks four target features."""
LENGTHS = torch.tensor([7, 1, 4])
LONG_S, LONG_T = 29, 19
LONG_LENGTHS = torch.tensor([29, 5, 17])
"""Sizes and lengths of a long case. In a batch, the source of 5 steps is padded to 29 steps, so a
result that depends on the length of the padded array differs from the result without padding."""
SKIP_SOURCE_LENGTH = 4
"""Number of valid steps of every source of a model with a linear skip."""

Part = Literal["score", "normalizer", "location", "cell", "model"]


class ContractCase:
    """A model in which one mechanism is checked.

    `model` and its forecasts are computed once, for all checks that use them.

    Args:
        section: the `model` section.
        part: the kind of the mechanism.
        label: a description of the other settings of the model, such as "heads: 2".
        is_long: whether the sequences have the sizes `LONG_S` and `LONG_T`.
        in_train_mode: whether the model is in train mode.

    Attributes:
        S: the number of source steps, padding included.
        T: the number of target steps.
        lengths: the number of valid steps of each source.
    """

    def __init__(
        self, section: Model, part: Part = "model", label: str = "", *,
        is_long: bool = False, in_train_mode: bool = False,
    ) -> None:  # fmt: skip
        self.section, self.part, self.label = section, part, label
        self.in_train_mode = in_train_mode
        self.S, self.T = (LONG_S, LONG_T) if is_long else (S, T)
        has_skip = getattr(section, "skip", "none") == "linear"
        of_case = LONG_LENGTHS if is_long else LENGTHS
        self.lengths = torch.full((N,), SKIP_SOURCE_LENGTH) if has_skip else of_case

    def build(self, seed: int = 1) -> Seq2SeqModel:
        """Build the model in float64. In a model with a linear skip, parameters that start at zero
        get random values, so that they have an effect."""
        lengths = Lengths(SKIP_SOURCE_LENGTH, self.T)
        model = build_model(self.section, FEATURES, seed, lengths).double()
        if model.skip is not None:
            rng = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in model.parameters():
                    if not parameter.any():
                        parameter.uniform_(-0.3, 0.3, generator=rng)
        return model.train(self.in_train_mode)

    @cached_property
    def model(self) -> Seq2SeqModel:
        return self.build()

    def random_sequences(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return sources (N, S, SOURCE_DIM), with NaN in the padding, and targets
        (N, T, TARGET_DIM)."""
        S, T = self.S, self.T
        rng = torch.Generator().manual_seed(seed)
        source = torch.randn(N, S, SOURCE_DIM, generator=rng, dtype=torch.float64)
        target = torch.randn(N, T, TARGET_DIM, generator=rng, dtype=torch.float64)
        source[torch.arange(S) >= self.lengths[:, None]] = math.nan
        return source, target

    @cached_property
    def sequences(self) -> tuple[Tensor, Tensor]:
        return self.random_sequences()

    @cached_property
    def free(self) -> ModelOutput:
        """The free-running forecast of the whole batch."""
        with torch.no_grad():
            return self.model.forecast(self.sequences[0], self.T, source_lengths=self.lengths)

    @cached_property
    def alone(self) -> list[ModelOutput]:
        """The forecast of each sequence alone and without padding."""
        source, _ = self.sequences
        with torch.no_grad():
            return [
                self.model.forecast(source[n : n + 1, :length], self.T)
                for n, length in enumerate(self.lengths.tolist())
            ]

    def require_finite(self) -> None:
        """Check that the forecasts without padding are finite.

        Raises:
            NotApplicableError: if a forecast is not finite.
        """
        if not all(bool(output.values.isfinite().all()) for output in self.alone):
            raise NotApplicableError("the forecasts are not finite; see the check `finite`.")

    @cached_property
    def forces_every_step(self) -> bool:
        """Whether training the model requires teacher forcing at every step. This is the case for a
        Transformer."""
        source, target = self.sequences
        never = torch.zeros(self.T, dtype=torch.bool)
        try:
            with torch.no_grad():
                self.model(source, target, source_lengths=self.lengths, teacher_forcing=never)
        except ValueError as error:
            return "teacher forcing" in str(error)
        return False

    # --- the mechanism ----------------------------------------------------------------------------

    def component(self, model: Seq2SeqModel | None = None) -> nn.Module:
        """Return the module of the mechanism in a model. The default model is `self.model`."""
        model = self.model if model is None else model
        if self.part == "model":
            return model
        assert isinstance(model, RecurrentModel)
        if self.part == "cell":
            encoder = model.encoder
            return encoder.forwards if isinstance(encoder, Bidirectional) else encoder
        found = getattr(self.attention_of(model), self.part)
        assert isinstance(found, nn.Module)
        return found

    @staticmethod
    def attention_of(model: Seq2SeqModel) -> Attention:
        """Return the attention module of a recurrent model."""
        assert isinstance(model, RecurrentModel)
        assert model.attention is not None
        return model.attention

    @cached_property
    def is_stochastic(self) -> bool:
        """Whether the normalizer samples positions during training."""
        model = self.model
        if not isinstance(model, RecurrentModel) or model.attention is None:
            return False
        return model.attention.normalizer.is_stochastic

    def owns(self, parameter: str) -> bool:
        """Return whether a parameter of the model belongs to the mechanism.

        Args:
            parameter: the name of the parameter in the model.
        """
        if self.part == "model":
            return True
        module: nn.Module = self.model
        for name in parameter.split(".")[:-1]:
            if module is self.component() or (self.part == "cell" and isinstance(module, Cell)):
                return True
            module = module.get_submodule(name)
        return module is self.component() or (self.part == "cell" and isinstance(module, Cell))
