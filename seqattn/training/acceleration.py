"""Faster training steps: compiled recurrent steps, and CUDA graphs of whole passes.

`StepCompiler` decides when to compile the recurrent step. The CPU starts every kernel on the GPU
separately, and for a small model, this takes longer than the kernels themselves. `GraphedLoss`
captures all kernels of a pass as a CUDA graph, and replays the graph for every batch of the same
shape with a single call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from seqattn.config import Training
from seqattn.errors import SeqattnError, UsageError
from seqattn.models import RNG
from seqattn.training.batches import Batch, BatchShape
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, LossFn

WARM_UP_PASSES = 2
"""Number of passes before a capture, in which libraries such as cuBLAS allocate their memory."""
MAX_REASON = 200
"""Largest number of characters of a reason in the log."""
WAITING = frozenset({
    torch.ops.aten._local_scalar_dense.default,  # item, bool, float, tolist
    torch.ops.aten.equal.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
})  # fmt: skip
"""Operations for which the CPU waits, because it needs the result or the shape of the result."""


class StepCompiler:
    """A compiler that decides for each group of runs whether to compile the recurrent step.

    Only the steps of `AutogradLoss` can be compiled. In mode "on", the step is compiled before the
    first epoch of a group, and in mode "off", it is never compiled. In mode "auto", it is compiled
    at the end of an epoch if the remaining epochs will probably take longer than a compilation. In
    the epoch after the compilation, torch also compiles for other shapes, such as a smaller last
    batch, so the duration of this epoch is not used. If the second epoch after the compilation
    takes longer than the last eager epoch, the compiler returns to eager steps.

    Args:
        log: function that receives a line whenever the backend of the gradients changes.

    Attributes:
        is_futile: whether a compilation has failed or brought no speed-up. Mode "auto" then
            compiles nothing in later epochs and groups.
        eager_seconds: duration in seconds of the last epoch before the compilation, until the
            speed-up of the compilation is known; None at other times.
        is_warm: whether an epoch has finished since the last compilation.
    """

    def __init__(self, log: Callable[[str], None] = lambda line: None) -> None:
        self.is_futile = False
        self._write, self._logged_backend = log, ""

    def _log(self, addition: str = "") -> None:
        """Log the backend, and store its name, so that a smaller group with the same backend does
        not log it again."""
        self._logged_backend = self.loss_fn.name
        self._write(self.loss_fn.name + addition)

    def start_group(self, mode: str, loss_fn: LossFn, batch: Callable[[], Batch]) -> None:
        """Store the loss of a new group, and compile the recurrent step of its model if the mode is
        "on".

        Args:
            loss_fn: the loss of the group, which has eager steps.
            batch: function that returns a batch on which a compiled step is tried.
        """
        self.mode, self.loss_fn = mode, loss_fn
        self.eager_seconds: float | None = None
        self.is_compiled = self.is_warm = False
        if mode == "on" and isinstance(loss_fn, AutogradLoss):
            loss_fn.compile(batch())
        if loss_fn.name != self._logged_backend:
            self._log()

    def after_epoch(self, seconds: float, epochs_left: int, batch: Callable[[], Batch]) -> None:
        """In mode "auto", compile the step if this will probably save time, or return to eager
        steps if compilation saved no time.

        Args:
            epochs_left: largest number of remaining epochs of any run.
        """
        loss_fn = self.loss_fn
        if loss_fn.name != self._logged_backend:  # a step could not be captured as a CUDA graph
            self._log()
        if self.mode != "auto" or self.is_futile or not isinstance(loss_fn, AutogradLoss):
            return
        if self.eager_seconds is not None and not self.is_warm:
            self.is_warm = True
        elif self.eager_seconds is not None:
            self.is_futile = seconds > self.eager_seconds
            self.eager_seconds = None
            if self.is_futile:
                loss_fn.disable_compile()
                self._log("; compilation disabled (no speed-up)")
        elif not self.is_compiled and epochs_left * seconds > COMPILE_SECONDS:
            try:
                loss_fn.compile(batch())
            except UsageError as error:
                self.is_futile = True
                self._log(f": {error}")
            else:
                self.is_compiled, self.eager_seconds = True, seconds
                self._log()


Computation = Callable[[], tuple[Tensor, ...]]
GraphKey = tuple[str, BatchShape, tuple[int, ...], bool]


def uses_graphs(config: Training, model: nn.Module) -> bool:
    """Return whether the passes of a model on a GPU are captured.

    A model with a module of a plugin is not captured, because a replay of a graph does not run the
    Python code of the modules. With a graph, a plugin that counts its calls or draws random numbers
    from its own generator would compute with the same values in every step.
    """
    own = ("seqattn.", "torch.")
    is_own = all(type(module).__module__.startswith(own) for module in model.modules())
    return config.cuda_graphs and config.compile == "off" and is_own


class DrawsRandomNumbersError(Exception):
    """A pass draws random numbers on the CPU, so it cannot be captured."""


class WaitsForDeviceError(Exception):
    """A pass contains an operation for which the CPU waits until the GPU has finished."""


class GraphedLoss:
    """A training loss on a GPU whose passes are captured as CUDA graphs.

    A pass computes either the loss and the gradient of a training batch, or the losses of a
    validation chunk. Each shape of the batch has its own graphs. A graph contains no Python code,
    so it cannot branch on the values of the teacher-forcing mask. Masks that are True at every step
    have a separate graph. In the graph for all other masks, each step after the first computes both
    possible inputs of the decoder, and selects one of them for each sequence. The mask of these
    passes is therefore a tensor on the GPU.

    A pass that draws random numbers or waits for the GPU cannot be captured. Such a pass is always
    computed without a graph. Whether a pass is captured depends only on the pass, and not on
    earlier passes, so a resumed run computes each step as an uninterrupted run does.

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
        self.failed: dict[GraphKey, str] = {}

    @property
    def name(self) -> str:
        """Name of the gradient backend in the log."""
        if not self.failed:
            return f"{self.inner.name}, CUDA graphs"
        reasons = "; ".join(dict.fromkeys(self.failed.values()))
        some = "no CUDA graphs" if not self.passes else "CUDA graphs for some passes only"
        return f"{self.inner.name}, {some} ({reasons})"

    def value_and_grad(
        self, batch: Batch, teacher_forcing: Tensor, rng: RNG | None = None
    ) -> Tensor:
        """Compute the loss, and write its gradient; see `LossFn.value_and_grad`."""
        is_forced = bool(teacher_forcing.all())
        key = ("train", batch.shape, tuple(teacher_forcing.shape), is_forced)
        if key not in self.passes and key not in self.failed:
            device = teacher_forcing.device if is_forced else batch.source.device
            mask = teacher_forcing.to(device, copy=True)
            stub = None if rng is None else _NoRNG()

            def function(static: Batch) -> tuple[Tensor, ...]:
                return (self.inner.value_and_grad(static, mask, stub),)

            self._add(key, batch, mask, function)
        if key in self.failed:
            return self.inner.value_and_grad(batch, teacher_forcing, rng)
        return self.passes[key].run(batch, None if is_forced else teacher_forcing)[0]

    def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Compute the two validation losses; see `LossFn.eval_losses`."""
        key = ("validate", batch.shape, (), False)
        if key not in self.passes and key not in self.failed:
            self._add(key, batch, None, self.inner.eval_losses)
        if key in self.failed:
            return self.inner.eval_losses(batch)
        free_running, teacher_forced = self.passes[key].run(batch, None)
        return free_running, teacher_forced

    def _add(
        self, key: GraphKey, batch: Batch, mask: Tensor | None,
        function: Callable[[Batch], tuple[Tensor, ...]],
    ) -> None:  # fmt: skip
        """Capture a pass. If it cannot be captured, store the reason in `failed`."""
        static = batch.map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
        try:
            replay = self.capture(lambda: function(static))
        except SeqattnError:
            raise
        except DrawsRandomNumbersError:
            self.failed[key] = "a step draws random numbers"
        except WaitsForDeviceError as error:
            self.failed[key] = f"a step waits for the GPU: {error}"
        except Exception as error:  # a mistake of the model appears again in the pass without graph
            self.failed[key] = describe_cause(error)
        else:
            self.passes[key] = GraphedPass(static, mask, replay)


def describe_cause(error: BaseException) -> str:
    """Return the first line of the innermost exception, because the end of a failed capture raises
    another exception."""
    while error.__context__ is not None:
        error = error.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0][:MAX_REASON]


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

    failed: ClassVar[list[torch.cuda.CUDAGraph]] = []
    """Graphs whose capture failed. torch's allocator may refer to them until the process ends."""

    def __init__(self) -> None:
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()

    def capture(self, function: Computation) -> Computation:
        """Capture the kernels of a function, and return a function that replays them.

        Raises:
            RuntimeError: if an operation of the function cannot be captured.
            Exception: any exception that the function raises. The current stream is restored in any
                case.
        """
        before, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        self.stream.wait_stream(before)
        try:
            with torch.cuda.stream(self.stream):
                for _ in range(WARM_UP_PASSES):
                    function()
                with RefuseWaiting():  # type: ignore[no-untyped-call]
                    function()
            # A thread that writes a checkpoint may use the GPU during the capture.
            with torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                results = function()
        except BaseException:
            self.failed.append(graph)
            self.pool = torch.cuda.graph_pool_handle()
            raise
        finally:
            # After a failed capture, torch leaves the stream of the capture as the current stream.
            torch.cuda.set_stream(before)
            before.wait_stream(self.stream)

        def replay() -> tuple[Tensor, ...]:
            graph.replay()
            return results

        return replay


class RefuseWaiting(TorchDispatchMode):
    """A context manager that raises `WaitsForDeviceError` if the CPU would wait for the GPU.

    A capture would fail at such an operation, and after a failed capture, no further graph can use
    the same memory pool. torch's own check, `torch.cuda.set_sync_debug_mode`, would also reject the
    operations of a thread that writes a checkpoint.
    """

    device_type: ClassVar[str] = "cuda"

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any | None = None
    ) -> Any:
        inputs = [each for each in args if isinstance(each, Tensor)]
        if any(each.device.type == self.device_type for each in inputs):
            result = func(*args, **(kwargs or {})) if func not in WAITING else None
            is_copied = isinstance(result, Tensor) and result.device.type != self.device_type
            if func in WAITING or is_copied or _has_boolean_index(func, args):
                raise WaitsForDeviceError(str(func))
            return result
        return func(*args, **(kwargs or {}))


def _has_boolean_index(func: Any, args: Any) -> bool:
    """Return whether an operation selects elements by a boolean mask."""
    if func is not torch.ops.aten.index.Tensor:
        return False
    return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])


class _NoRNG:
    """A generator that raises `DrawsRandomNumbersError` instead of drawing numbers."""

    def uniform(self, name: Literal["sampling", "dropout", "feedback"], *shape: int) -> Tensor:
        raise DrawsRandomNumbersError(name)
