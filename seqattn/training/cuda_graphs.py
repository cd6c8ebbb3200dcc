"""CUDA graphs of training steps and validation passes.

On a GPU, the CPU starts every kernel on its own. For a small model, this takes longer than the
kernels themselves. `GraphedLoss` captures all kernels of a pass as a CUDA graph, and replays the
graph for every batch of the same shape with a single call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from seqattn.models import RNG
from seqattn.training.batches import Batch, BatchShape
from seqattn.training.objective import LossFn

Computation = Callable[[], tuple[Tensor, ...]]
GraphKey = tuple[str, BatchShape, tuple[int, ...], bool]

WARM_UP_PASSES = 2
"""Number of passes before a capture, in which libraries such as cuBLAS allocate their memory."""


class DrawsRandomNumbersError(Exception):
    """A pass draws random numbers on the CPU, so it cannot be captured."""


class GraphedLoss:
    """A training loss on a GPU whose passes are captured as CUDA graphs.

    A graph contains no Python code, so it cannot choose a path by the values of the teacher-forcing
    mask. Masks that are True at every step have a graph of their own. In the graph for all other
    masks, each step after the first computes both inputs, and selects one of them for each
    sequence.

    A step that draws random numbers, and a step that waits for the GPU, cannot be captured. All
    passes are then computed without graphs.

    Args:
        inner: the loss to capture.
        capture: function that captures a pass, and returns a function that replays it.
    """

    def __init__(
        self, inner: LossFn, capture: Callable[[Computation], Computation] | None = None
    ) -> None:
        self.inner = inner
        self.capture = capture or CudaGraphs().capture
        self.passes: dict[GraphKey, GraphedPass] = {}
        self.reason = ""

    @property
    def name(self) -> str:
        """Name of the gradient backend in the log."""
        if self.reason:
            return f"{self.inner.name}, no CUDA graphs ({self.reason})"
        return f"{self.inner.name}, CUDA graphs"

    def value_and_grad(
        self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None
    ) -> Tensor:
        """Compute the loss, and write its gradient; see `LossFn.value_and_grad`."""
        is_forced = bool(teacher_forcing.all())
        key = ("train", batch.shape, tuple(teacher_forcing.shape), is_forced)
        if not self.reason and key not in self.passes:
            mask = teacher_forcing.clone() if is_forced else teacher_forcing.to(batch.source.device)
            stub = None if rng is None else _NoRNG()

            def function(static: Batch) -> tuple[Tensor, ...]:
                return (self.inner.value_and_grad(static, mask, stub),)

            self._add(key, batch, mask, function)
        if self.reason:
            return self.inner.value_and_grad(batch, teacher_forcing, rng)
        return self.passes[key].run(batch, None if is_forced else teacher_forcing)[0]

    def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Compute the two validation losses; see `LossFn.eval_losses`."""
        key = ("validate", batch.shape, (), False)
        if not self.reason and key not in self.passes:
            self._add(key, batch, None, self.inner.eval_losses)
        if self.reason:
            return self.inner.eval_losses(batch)
        free_running, teacher_forced = self.passes[key].run(batch, None)
        return free_running, teacher_forced

    def _add(
        self, key: GraphKey, batch: Batch, mask: Tensor | None,
        function: Callable[[Batch], tuple[Tensor, ...]],
    ) -> None:  # fmt: skip
        """Capture a pass, or set `reason` if it cannot be captured."""
        static = batch.map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
        try:
            replay = self.capture(lambda: function(static))
        except DrawsRandomNumbersError:
            self.reason = "a step draws random numbers"
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch reports every operation that cannot be captured
            self.reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        else:
            self.passes[key] = GraphedPass(static, mask, replay)
            return
        self.passes.clear()


class GraphedPass:
    """A captured pass and the tensors that it reads.

    Args:
        batch: the batch that the pass reads.
        mask: the teacher-forcing mask that the pass reads; None if it reads none.
        replay: function that replays the pass, and returns its results.
    """

    def __init__(self, batch: Batch, mask: Tensor | None, replay: Computation) -> None:
        self.batch, self.mask, self.replay = batch, mask, replay

    def run(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Replay the pass for a batch, and return copies of its results.

        Args:
            batch: a batch of the same shape.
            mask: the teacher-forcing mask; None keeps the mask of the capture.
        """
        self.batch.map(Tensor.copy_, batch)
        if mask is not None and self.mask is not None:
            self.mask.copy_(mask, non_blocking=True)
        return tuple(result.clone() for result in self.replay())


class CudaGraphs:
    """CUDA graphs that share the memory of their temporary tensors.

    A replay overwrites the results of all earlier replays.
    """

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, function: Computation) -> Computation:
        """Capture the kernels of a function, and return a function that replays them.

        Raises:
            RuntimeError: if an operation of the function cannot be captured.
        """
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_PASSES):
                function()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # A thread that writes a checkpoint may use the GPU during the capture.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            results = function()

        def replay() -> tuple[Tensor, ...]:
            graph.replay()
            return results

        return replay


class _NoRNG:
    """A generator that refuses to draw numbers."""

    def uniform(self, name: Literal["sampling", "dropout"], *shape: int) -> Tensor:
        raise DrawsRandomNumbersError(name)
