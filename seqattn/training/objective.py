"""The training loss, which is the mean error of the forecasts as the modality of the target defines
it, its gradient, and the validation losses.

`build_loss` chooses manually derived gradients where they are possible and fast, and autograd
otherwise. Both backends compute a loss for each run and write the gradient to
`StackedParams.gradient`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.data.measures import OutputCounts
from seqattn.data.text_measures import BLEU_COUNTS, RightTexts, bleu_counts, bleu_of
from seqattn.errors import UsageError
from seqattn.models import RNG, ModelOutput, SampledActions, Seq2SeqModel
from seqattn.models.cells import Cell, Kernel
from seqattn.models.layers import at_least_float32
from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.process_group import ProcessGroup, shard_of
from seqattn.training.state import StackedParams, train_mode

BACKEND = "inductor"
COMPILE_SECONDS = 40.0
"""Duration of a first compilation in seconds, as measured in docs/performance.md."""
MAX_SEQUENCES = 512
"""Largest number of sequences in a chunk that exceeds the batch size of training."""
MAX_STEPS = 4096
"""Largest number of steps in a chunk that exceeds the batch size of training. A chunk that fits
into the CPU cache is faster."""


class LossFn(Protocol):
    """The interface of a training loss, which also computes the two validation losses."""

    @property
    def name(self) -> str:
        """Name of the gradient backend in the log."""

    def value_and_grad(
        self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None
    ) -> Tensor:
        """Compute the loss, and write its gradient to `StackedParams.gradient`.

        Args:
            batch: the training sequences.
            teacher_forcing: True at steps that receive the true target; see `EpochPlan`.
            rng: random numbers of the step; None for a model that draws no random numbers.

        Returns:
            Mean error of each run, (R,), or () for a single run.
        """

    def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Compute the free-running loss and the teacher-forced loss of each run, without gradients.

        Both losses have the shape (R,), or () for a single run. For symbols, both are the
        teacher-forced loss.
        """


class AutogradLoss:
    """The loss of any model, with gradients from autograd."""

    name: str = "autograd"

    def __init__(
        self, model: Seq2SeqModel, stack: StackedParams | None = None, *, bfloat16: bool = False,
        coverage_loss: float = 0.0,
    ) -> None:  # fmt: skip
        """
        Args:
            model: the model, whose parameters may have a leading axis of runs.
            stack: parameters of the model, which `value_and_grad` needs; None if only `loss` and
                `eval_losses` are called.
            bfloat16: whether to train in bfloat16 with `torch.autocast`.
            coverage_loss: factor of the coverage loss, which is added to the loss in training only.
        """
        self.model, self.stack, self.modality = model, stack, model.target_modality
        self.bfloat16, self.coverage_loss = bfloat16, coverage_loss
        if bfloat16:
            self.name = "autograd in bfloat16"

    def compile(self, batch: Batch) -> None:
        """Compile the recurrent step of every cell, and try the compiled steps on a batch.

        The unrolled loop is not compiled, because its compile time grows with the sequence length.

        Raises:
            UsageError: if torch cannot compile on this machine. The steps then remain eager.
        """
        compiled = dict[Kernel, Kernel]()
        free_running = torch.zeros(batch.target_steps, dtype=torch.bool)
        try:
            with warnings.catch_warnings(), train_mode(self.model):
                warnings.simplefilter("ignore")  # torch warns about its own compiler
                for cell in self._cells():
                    plain = cell.eager_step()
                    if plain not in compiled:
                        compiled[plain] = torch.compile(plain, backend=BACKEND)
                    cell.compiled_step = compiled[plain]
                loss = self.loss(batch, free_running)
                torch.autograd.grad(loss.sum(), list(self.model.parameters()), allow_unused=True)
        except Exception as error:  # a compiler may raise any exception
            self.disable_compile()
            first = (str(error).strip() or "no reason given").splitlines()[0][:200]
            raise UsageError(
                "training.compile: torch could not compile a step here"
                f" ({type(error).__name__}: {first}). Install a C++ compiler. If the run has no"
                " checkpoint yet, you can set training.compile=off instead; a resume cannot"
                " change this key."
            ) from None
        self.name += ", a step compiled"

    def disable_compile(self) -> None:
        """Replace compiled steps with eager steps."""
        for cell in self._cells():
            cell.compiled_step = None
        self.name = self.name.removesuffix(", a step compiled")

    def _cells(self) -> list[Cell]:
        return [module for module in self.model.modules() if isinstance(module, Cell)]

    def value_and_grad(
        self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None
    ) -> Tensor:
        assert self.stack is not None
        loss = self.loss(batch, teacher_forcing, rng)
        self.stack.clear_gradient()
        # Runs are independent, so the sum of their losses gives each run its own gradient. An
        # upstream gradient of ones has the same effect, but with it torch imports sympy, which
        # takes 0.25 seconds.
        (loss if self.stack.R == 1 else loss.sum()).backward()
        self.stack.gather_gradient()
        return loss.detach()

    def loss(self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None) -> Tensor:
        """Compute the differentiable loss of each run, (R,), or () for a single run."""
        if not self.bfloat16:
            return self._loss(batch, teacher_forcing, rng)
        with torch.autocast(batch.source.device.type, torch.bfloat16):
            return self._loss(batch, teacher_forcing, rng)

    def _loss(self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None) -> Tensor:
        covers = self.coverage_loss > 0 and self.model.training
        forecast = self.model(
            batch.source, batch.target, source_lengths=batch.source_lengths,
            teacher_forcing=teacher_forcing, with_attention=covers, rng=rng,
        )  # fmt: skip
        loss = self._error_loss(forecast, batch)
        if covers:
            repeated = coverage_losses(forecast.attention[0].weights).unsqueeze(-1)
            of_cells = repeated.expand(*repeated.shape[:-1], batch.target.shape[-1])
            loss = loss + self.coverage_loss * self.modality.mean_error(of_cells, batch.target_keep)
        return loss

    def _error_loss(self, forecast: ModelOutput, batch: Batch) -> Tensor:
        pending, keep = forecast.pending, batch.target_keep
        if pending is not None and forecast.actions is None:
            return self.modality.loss_of_states(pending.states, pending.layer, batch.target, keep)
        outputs = at_least_float32(forecast.values)  # the loss is never computed in bfloat16
        loss = self.modality.loss(outputs, batch.target, keep)
        if forecast.actions is not None:
            errors = self.modality.errors(outputs.detach(), batch.target)
            if keep is not None and keep.dim() == errors.dim():
                errors, keep = errors.masked_fill(~keep, 0), keep.to(errors.dtype).mean(dim=-1)
            surrogate = reinforce_loss(forecast.actions, errors.mean(dim=-1), keep)
            loss = loss + (surrogate - surrogate.detach())  # changes the gradient, not the value
        return loss

    @torch.inference_mode()
    def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        steps = batch.target_steps
        forced = self._loss(batch, torch.ones(steps, dtype=torch.bool))
        if not self.modality.is_scored_free_running:
            return forced, forced
        free = self.model.forecast(
            batch.source, steps, source_lengths=batch.source_lengths, with_attention=False
        )
        return self.modality.loss(free.values, batch.target, batch.target_keep), forced


class ManualBackwardLoss:
    """The loss of models with manually derived gradients; see `seqattn.models.manual_backward`."""

    name = "manual backward"

    def __init__(self, passes: Any) -> None:
        self.passes = passes

    def value_and_grad(
        self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None
    ) -> Tensor:
        loss: Tensor = self.passes.value_and_grad(
            batch.source, batch.target, source_lengths=batch.source_lengths,
            target_keep=batch.target_keep, teacher_forcing=teacher_forcing,
        )  # fmt: skip
        return loss

    def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        losses: tuple[Tensor, Tensor] = self.passes.eval_losses(
            batch.source, batch.target,
            source_lengths=batch.source_lengths, target_keep=batch.target_keep,
        )  # fmt: skip
        return losses


def build_loss(
    models: Sequence[Seq2SeqModel],
    *,
    manual_backward: bool = True,
    source_steps: int = 0,
    pairs: int = 0,
    bfloat16: bool = False,
    coverage_loss: float = 0.0,
) -> tuple[StackedParams, LossFn]:
    """Stack the models of one config, and build their loss.

    Args:
        manual_backward: whether to allow manually derived gradients.
        pairs: number of (source step, target step) pairs in a batch of all runs. For very many
            pairs, manual gradients are no faster than autograd. They need memory for three values
            per pair and head, and with an additive score of K hidden units, for 2 * K more values
            per pair.
        bfloat16: whether to train in bfloat16. Only autograd supports bfloat16.
        coverage_loss: see `AutogradLoss`. Only autograd supports the score with coverage.

    Returns:
        The stacked parameters and their loss.
    """
    manual = _import_manual_backward() if manual_backward and not bfloat16 else None
    first = models[0]
    if manual and manual.supports(first) and manual.is_faster(first, source_steps, pairs):
        inner = manual.prefers_runs_innermost(first, len(models))
        stack = StackedParams(models, runs_innermost=inner)
        return stack, ManualBackwardLoss(manual.ManualLoss(stack.model, stack.gradient))
    stack = StackedParams(models)
    loss = AutogradLoss(stack.model, stack, bfloat16=bfloat16, coverage_loss=coverage_loss)
    return stack, loss


def _import_manual_backward() -> ModuleType | None:
    """Import the module with manually derived gradients, or return None if the file has been
    deleted."""
    name = "seqattn.models.manual_backward"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def coverage_losses(weights: Tensor) -> Tensor:
    """Return the coverage loss of each target step, (..., N, T): the sum over the source steps of
    the smaller of the weight and of the coverage, the sum of the weights of all earlier target
    steps (See et al. 2017, eq. 12). Of several heads, it is the mean.

    Args:
        weights: (..., N, A, T, S) attention weights.
    """
    coverage = weights.cumsum(dim=-2) - weights
    return torch.minimum(weights, coverage).sum(dim=-1).mean(dim=-2)


def reinforce_loss(actions: SampledActions, errors: Tensor, keep: Tensor | None) -> Tensor:
    """Compute the surrogate loss of REINFORCE.

    Minimizing this loss raises the probability of actions that led to small errors. Let e_t be the
    error of step t. The cost of an action at step t is the sum of the errors from this step on,
    G_t = e_t + ... + e_T. The baseline b predicts the error of a single step. The loss

        sum over n, t of log p(action) (G_t - b (T - t + 1)) / number of steps

    has, in expectation, the gradient of the mean error (Williams 1992; Mnih et al. 2014, "Recurrent
    Models of Visual Attention", section 3.2, where the reward is our -G). A second term, the square
    of G_t - b (T - t + 1), trains b.

    Args:
        actions: the log-probabilities of the sampled actions, and the baseline.
        errors: (..., N, T) detached errors of the target steps.
        keep: mask (..., N, T), True at valid target steps. If some cells were not observed, `keep`
            is the observed share of each step from 0 to 1, and the error of a step is the sum over
            its observed cells divided by F. None means that all steps are valid.

    Returns:
        (...) loss of each run.
    """
    real = torch.ones_like(errors) if keep is None else keep.to(errors.dtype)
    errors = errors.where(real > 0, 0)
    rest = errors.flip(-1).cumsum(-1).flip(-1)
    steps = real.flip(-1).cumsum(-1).flip(-1)
    missed = rest - actions.baseline * steps
    each = (actions.log_prob * missed.detach() + missed.square()) * (steps > 0)
    total = real.sum(dim=(-2, -1))
    return each.sum(dim=(-2, -1)) / total.where(total > 0, 1)


def validation_chunk_size(steps: int, batch_size: int) -> int:
    """Compute the number of validation sequences in a chunk.

    Args:
        steps: length of the longest source plus length of the longest target.
        batch_size: batch size of training.
    """
    return max(batch_size, min(MAX_SEQUENCES, MAX_STEPS // steps), 1)


class Validation(NamedTuple):
    """What a validation measures.

    Attributes:
        free_running: free-running loss of each run.
        teacher_forced: teacher-forced loss of each run.
        outputs: for each run, counts of the outputs in free running; empty for vectors.
        bleu: BLEU of the outputs of each run; empty if it is not measured.
    """

    free_running: list[float]
    teacher_forced: list[float]
    outputs: list[OutputCounts]
    bleu: list[float]


def validate(
    loss_fn: LossFn,
    validation: Batch | GatheredBatch,
    batch_size: int = 1,
    processes: ProcessGroup | None = None,
    *,
    counted: Seq2SeqModel | None = None,
    right_texts: Sequence[RightTexts] = (),
) -> Validation:
    """Compute the mean errors of the validation part, free running and teacher-forced.

    The gap between the two errors measures the exposure bias (Bengio et al. 2015, "Scheduled
    Sampling", section 1).

    Args:
        processes: the processes that share the sequences; None if this process is alone.
        counted: the model whose outputs in free running are counted if its targets are symbols;
            None to count none.
        right_texts: for each run, the right texts of its validation part, which BLEU is measured
            against; empty to measure no BLEU.
    """
    R, mine = validation.run_count, shard_of(processes, len(validation)).places
    # For each run: two sums of losses, the number of their summands, and the counts of outputs.
    of_texts = 3 + len(OutputCounts._fields)
    sums = torch.zeros(R, of_texts + BLEU_COUNTS, dtype=torch.float64)
    if counted is not None and counted.target_modality.is_scored_free_running:
        counted = None
    at_once = validation_chunk_size(validation.source_steps + validation.target_steps, batch_size)
    for first in range(mine.start, mine.stop, at_once):
        places = slice(first, min(first + at_once, mine.stop))
        batch = validation.take(places).contiguous()
        n = batch.loss_counts.double()
        for k, losses in enumerate(loss_fn.eval_losses(batch)):
            sums[:, k] += losses.view(-1).cpu().double() * n.cpu()
        sums[:, 2] += n.cpu()
        if counted is not None:
            found, true = read_outputs(counted, batch)
            for k in range(R):
                sums[k, 3:of_texts] += torch.tensor(OutputCounts.of(found[k], true[k]))
            for k, right in enumerate(right_texts):
                sums[k, of_texts:] += torch.from_numpy(bleu_counts(*right.pairs(places, found[k])))
    if processes is not None:
        sums = processes.all_reduce(sums.to(processes.device)).cpu()
    free_running, teacher_forced = (sums[:, :2] / sums[:, 2:3]).T.tolist()
    counts = sums[:, 3:of_texts].long().tolist()
    outputs = [] if counted is None else [OutputCounts(*row) for row in counts]
    bleu = [bleu_of(row) for row in sums[:, of_texts:].long().tolist()] if right_texts else []
    return Validation(free_running, teacher_forced, outputs, bleu)


@torch.inference_mode()
def read_outputs(
    model: Seq2SeqModel, batch: Batch
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the outputs of each run of a model of symbols in free running, (R, N, T), and the
    targets, (R, N, T)."""
    forecast = model.forecast(
        batch.source, batch.target_steps, source_lengths=batch.source_lengths, with_attention=False
    )
    found = model.target_modality.read(forecast.values)[..., 0].cpu().numpy()
    true = batch.target[..., 0].cpu().numpy()
    return found.reshape(-1, *found.shape[-2:]), true.reshape(-1, *true.shape[-2:])
