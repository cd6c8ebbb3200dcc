"""What training makes small: the mean squared error of a model under teacher forcing.

`objective` picks who works it out: passes derived by hand where there are any for the model, and
autograd for all others. Both give each run its own loss, and both fill the same gradient.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from seqattn.errors import UsageError
from seqattn.models import RNG, SampledActions, Seq2SeqModel
from seqattn.models.cells import Cell, Kernel
from seqattn.training.batches import Batch
from seqattn.training.stacked_params import StackedParams

MOST_PAIRS = 2**25
BACKEND = "inductor"
COMPILE_SECONDS = 40.0
"""What a compile may take from nothing; measured in docs/performance.md."""


class LossFn(Protocol):
    """A loss with its gradient, and the two losses that validation asks for.

    Attributes:
        name: how gradients are computed, for the log.
    """

    name: str

    def value_and_grad(self, batch: Batch, forced: Tensor, draws: RNG | None = None) -> Tensor:
        """Mean squared error of each run, (R,), or () for one run without an axis; its gradient
        is then the stack's `gradient`."""

    def both_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The same free running, and with every step teacher-forced; not for backward."""


class AutogradLoss:
    """The loss of any model."""

    name: str = "autograd"

    def __init__(
        self, model: Seq2SeqModel, stack: StackedParams | None = None, *, bfloat16: bool = False
    ) -> None:
        """
        Args:
            stack: of the model, for `value_and_grad`; None: only losses will be asked for.
            bfloat16: multiply in it while training; see torch.autocast for what stays in float32.
        """
        self.model, self.stack = model, stack
        self.bfloat16 = bfloat16
        if bfloat16:
            self.name = "autograd in bfloat16"

    def compile(self, batch: Batch) -> None:
        """Have every recurrent step compiled from now on; the first is tried with a batch.

        One step is compiled, never the unrolled loop, whose compile grows with the sequence.

        Raises:
            UsageError: torch cannot compile here; all is as before.
        """
        compiled = dict[Kernel, Kernel]()
        for cell in self._cells():
            plain = cell.eager_step()
            cell.kernel = compiled.setdefault(plain, _compiled(plain))
        own = torch.zeros(batch.target.shape[-2], dtype=torch.bool)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torch about its own compiler
                loss = self.loss(batch, own)
                torch.autograd.grad(loss.sum(), list(self.model.parameters()), allow_unused=True)
        except Exception as error:  # whatever a compiler may say
            self.disable_compile()
            first = (str(error).strip() or "no reason given").splitlines()[0][:200]
            raise UsageError(
                "training.compile: torch could not compile a step here"
                f" ({type(error).__name__}: {first}). Set it to off, or install what it needs: a"
                " C++ compiler."
            ) from None
        self.name += ", a step compiled"

    def disable_compile(self) -> None:
        """Go on without compiled steps."""
        for cell in self._cells():
            cell.kernel = cell.eager_step()
        self.name = self.name.removesuffix(", a step compiled")

    def _cells(self) -> list[Cell]:
        return [module for module in self.model.modules() if isinstance(module, Cell)]

    def value_and_grad(self, batch: Batch, forced: Tensor, draws: RNG | None = None) -> Tensor:
        assert self.stack is not None
        loss = self.loss(batch, forced, draws)
        self.stack.clear_gradient()
        # The runs do not touch, so a sum gives each its own gradient. To hand backward a gradient
        # of ones would do the same, but makes torch import sympy, a quarter of a second.
        (loss if self.stack.R == 1 else loss.sum()).backward()
        self.stack.gather_gradient()
        return loss.detach()

    def loss(self, batch: Batch, forced: Tensor, draws: RNG | None = None) -> Tensor:
        """The loss alone, with a way back."""
        if not self.bfloat16:
            return self._loss(batch, forced, draws)
        with torch.autocast(batch.source.device.type, torch.bfloat16):
            return self._loss(batch, forced, draws)

    def _loss(self, batch: Batch, forced: Tensor, draws: RNG | None = None) -> Tensor:
        forecast = self.model(
            batch.source, batch.target, source_lengths=batch.source_lengths,
            teacher_forcing=forced, with_attention=False, rng=draws,
        )  # fmt: skip
        values = forecast.values.to(batch.target)  # the loss itself is never in bfloat16
        loss = mean_squared_error(values, batch.target, batch.target_keep)
        if forecast.actions is not None:
            squared, keep = (values.detach() - batch.target).square(), batch.target_keep
            if keep is not None and keep.dim() == squared.dim():
                squared, keep = squared.masked_fill(~keep, 0), keep.to(squared.dtype).mean(dim=-1)
            surrogate = reinforcement(forecast.actions, squared.mean(dim=-1), keep)
            loss = loss + (surrogate - surrogate.detach())  # adds a gradient, but no value
        return loss

    @torch.inference_mode()
    def both_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        steps = batch.target.shape[-2]
        alone = self.model.forecast(
            batch.source, steps, source_lengths=batch.source_lengths, with_attention=False
        )
        truth = torch.ones(steps, dtype=torch.bool)
        return (
            mean_squared_error(alone.values, batch.target, batch.target_keep),
            self._loss(batch, truth),
        )


class ManualBackwardLoss:
    """The loss of the default family; see `seqattn.models.manual_backward`."""

    name = "manual backward"

    def __init__(self, passes: Any) -> None:
        self.passes = passes

    def value_and_grad(self, batch: Batch, forced: Tensor, draws: RNG | None = None) -> Tensor:
        loss: Tensor = self.passes.value_and_grad(
            batch.source, batch.target, source_lengths=batch.source_lengths,
            target_keep=batch.target_keep, teacher_forcing=forced,
        )  # fmt: skip
        return loss

    def both_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        losses: tuple[Tensor, Tensor] = self.passes.both_losses(
            batch.source, batch.target,
            source_lengths=batch.source_lengths, target_keep=batch.target_keep,
        )  # fmt: skip
        return losses


def stacked(
    models: Sequence[Seq2SeqModel],
    *,
    by_hand: bool = True,
    pairs: int = 0,
    bfloat16: bool = False,
) -> tuple[StackedParams, LossFn]:
    """Models of one config side by side, and their objective.

    Args:
        by_hand: False leaves it to autograd, whatever the model.
        pairs: of a source and a target point in a batch of all runs. Where there are very many the
            passes derived by hand are no faster, and keep three numbers for each.
        bfloat16: multiply in it while training, by autograd.
    """
    derived = derived_passes() if by_hand and not bfloat16 and pairs <= MOST_PAIRS else None
    if derived is not None and derived.supports(models[0]):
        inner = derived.prefers_runs_innermost(models[0], len(models))
        stack = StackedParams(models, runs_innermost=inner)
        return stack, ManualBackwardLoss(derived.ManualLoss(stack.model, stack.gradient))
    stack = StackedParams(models)
    return stack, AutogradLoss(stack.model, stack, bfloat16=bfloat16)


def derived_passes() -> ModuleType | None:
    """The module with passes derived by hand, or None where somebody has taken it out."""
    name = "seqattn.models.manual_backward"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def reinforcement(choices: SampledActions, errors: Tensor, keep: Tensor | None) -> Tensor:
    """What to differentiate so that choices which led to small errors become likelier.

    With e_t the error of step t, a choice at step t is answerable for what comes from then on,
    G_t = e_t + ... + e_T, and is measured by the baseline b for as many steps:

        sum over n, t of log p(choice) (G_t - b (T - t + 1)) / number of steps

    has the slope of the expected mean error (Williams 1992; Mnih et al. 2014, "Recurrent Models of
    Visual Attention", section 3.2, where the reward is our -G). b follows the errors by the square
    of the same difference.

    Args:
        errors: (..., N, T), without a slope.
        keep: (..., N, T), True at real target points; or how much of each was observed, from 0 to
            1, of which the errors are then the sums that belong to it; None: all.

    Returns:
        (...), a number for each run.
    """
    real = torch.ones_like(errors) if keep is None else keep.to(errors.dtype)
    errors = errors.where(real > 0, 0)
    rest = errors.flip(-1).cumsum(-1).flip(-1)
    steps = real.flip(-1).cumsum(-1).flip(-1)
    missed = rest - choices.baseline * steps
    each = (choices.log_prob * missed.detach() + missed.square()) * (steps > 0)
    total = real.sum(dim=(-2, -1))
    return each.sum(dim=(-2, -1)) / total.where(total > 0, 1)


def _compiled(plain: Kernel) -> Kernel:
    """A step compiled; validation has no backward to fuse, so there it stays as it is."""
    compiled = torch.compile(plain, backend=BACKEND)

    def step(*inputs: Any) -> Tensor:
        result: Tensor = (compiled if torch.is_grad_enabled() else plain)(*inputs)
        return result

    return step


def mean_squared_error(values: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
    """Mean over real target points and features, or over the cells that were observed; leading axes
    of runs stay.

    Args:
        values, target: (..., N, T, F).
        keep: (..., N, T), True at real target points, or (..., N, T, F), True at observed cells;
            None: all.

    Returns:
        (...), a number for each run; 0 where nothing was observed.
    """
    if keep is None and values.dim() == 3:
        return F.mse_loss(values, target)  # one operation instead of three
    squared = (values - target).square()
    if keep is None:
        return squared.mean(dim=(-3, -2, -1))
    if keep.dim() == target.dim():
        total = squared.masked_fill(~keep, 0).sum(dim=(-3, -2, -1))
        return total / keep.sum(dim=(-3, -2, -1)).clamp(min=1)
    total = squared.masked_fill(~keep.unsqueeze(-1), 0).sum(dim=(-3, -2, -1))
    return total / (keep.sum(dim=(-2, -1)) * target.shape[-1])
