"""Linear maps, layer norm, matrix products and parameter initialization.

Maps and products operate on the last axes. In shapes, R is the number of runs in one batch, N the
number of sequences, S the source length, F the number of features, and H the width of the state.
Tensors may have leading axes, as in (N, F), (N, S, F) or, for R runs, (R, N, S, F). The weights of
R runs have the shape (R, out, in).

With several runs and narrow states, the axis of sequences is innermost in memory: a tensor (R, N,
..., H) keeps its shape but has the strides of (R, H, ..., N). If the features were innermost, an
operation on some features of all sequences would access memory with a stride of a few numbers, and
these accesses would take longer than the arithmetic. Cells select the layout with
`uses_batch_innermost`. The operations on the states of cells preserve the layout, and give correct
results for any strides.

Under `torch.autocast`, matrix products are computed in bfloat16, and the results are converted to
float32 (`at_least_float32`). Everything between two products is therefore in float32: states,
positions, lengths, norms, softmax and losses. A bfloat16 number has only 8 significant bits, so the
position 257, for example, has no exact bfloat16 value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.errors import PluginError
from seqattn.rng import rngs_for

# Measured thresholds. No threshold changes a result by more than rounding.
MAX_INNERMOST_WIDTH = 8  # largest H for which the sequences of several runs are innermost
MAX_ELEMENTWISE_TERMS = 256  # largest L * K * M of elementwise products (sequences innermost)
MAX_SLOW_TERMS = 400  # smallest L * K * M for which torch.bmm avoids its slow loop on the CPU
MIN_SLOW_SIDE = 64  # smallest max(K, M) for which elementwise products are faster than this loop
MIN_SLOW_TOTAL = 8192  # smallest number of terms for which elementwise products are faster
MIN_SIGMOID_NUMBERS = 2**14  # smallest number of tanh values that are computed from the sigmoid


def at_least_float32(x: Tensor) -> Tensor:
    """Convert a bfloat16 tensor to float32; return any other tensor unchanged."""
    return x.float() if x.dtype is torch.bfloat16 else x


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context manager that disables autocast, so that products are computed in the dtype
    of their operands.

    Args:
        x: any tensor on the device of the products.
    """
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute x W^T + b along the last axis of x.

    Args:
        x: the input (..., in), or (R, N, ..., in) if the weight has an axis of runs.
        weight: the weight W, (out, in) or (R, out, in).
        bias: the bias b, (out,) or (R, out); None for no bias.
    """
    if weight.dim() == 2:
        return at_least_float32(F.linear(x, weight, bias))
    if is_batch_innermost(x):
        columns = x.transpose(1, -1)
        if columns.dim() == 3:
            return affine_columns(columns, weight, bias).mT
        mapped = affine_columns(columns.flatten(2), weight, bias)
        return mapped.view(*mapped.shape[:2], *columns.shape[2:]).transpose(1, -1)
    rows = x.flatten(1, -2)  # (R, all middle axes, in)
    if bias is None:
        mapped = rows @ weight.mT
    else:
        mapped = torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT)
    return at_least_float32(mapped).reshape(*x.shape[:-1], weight.shape[-2])


def affine_columns(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute W x + b for each column of x.

    Args:
        x: the input (R, in, n).
        weight: the weight W, (R, out, in).
        bias: the bias b, (R, out); None for no bias.

    Returns:
        the result (R, out, n).
    """
    if bias is None:
        return at_least_float32(torch.bmm(weight, x))
    return at_least_float32(torch.baddbmm(bias.unsqueeze(-1), weight, x))


def uses_batch_innermost(weight: Tensor) -> bool:
    """Return whether a cell with the given recurrent weight stores states with the sequences
    innermost."""
    return weight.dim() == 3 and weight.shape[-1] <= MAX_INNERMOST_WIDTH


def is_batch_innermost(x: Tensor) -> bool:
    """Return whether the sequences of x, (R, N, ..., features), are innermost in memory."""
    return x.stride(1) == 1 and x.stride(-1) > 1


def concat_features(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the last axis. If the sequences are innermost in memory, the result
    has the same layout."""
    if parts[0].dim() < 3 or not is_batch_innermost(parts[0]):
        return torch.cat(list(parts), dim=-1)
    return torch.cat([part.transpose(1, -1) for part in parts], dim=1).transpose(1, -1)


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Multiply batches of matrices: (..., L, K) and (..., K, M) -> (..., L, M)."""
    *_, L, K = left.shape
    *_, M = right.shape
    if left.dim() == 4 and L * K * M <= MAX_ELEMENTWISE_TERMS and is_batch_innermost(left):
        # Multiply elementwise and sum, for all sequences at once.
        rows, columns = left.permute(0, 3, 2, 1), right.permute(0, 2, 3, 1)
        if L == 1:
            return (rows * columns).sum(1, keepdim=True).permute(0, 3, 1, 2)
        return (rows.unsqueeze(3) * columns.unsqueeze(2)).sum(1).permute(0, 3, 1, 2)
    slow = (
        L * K * M < MAX_SLOW_TERMS
        and max(K, M) >= MIN_SLOW_SIDE
        and left.numel() * M >= MIN_SLOW_TOTAL
    )
    if slow and left.is_cpu and not torch.compiler.is_compiling():
        if K >= M:
            return (left.unsqueeze(-2) * right.mT.unsqueeze(-3)).sum(-1)
        return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2)
    # torch.bmm has less overhead than @.
    return at_least_float32(torch.bmm(left, right) if left.dim() == 3 else left @ right)


def is_inference() -> bool:
    """Return whether torch computes in inference mode. A function that is traced does not."""
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()


def fast_tanh(x: Tensor) -> Tensor:
    """Compute tanh(x). In inference, the tanh of many numbers is computed as 2 sigmoid(2 x) - 1,
    because torch's sigmoid takes a fifth of the time of its tanh on the CPU."""
    if not (is_inference() and x.is_cpu and x.numel() >= MIN_SIGMOID_NUMBERS):
        return x.tanh()
    return (2 * x).sigmoid_().mul_(2).sub_(1)


class SymbolInputs(NamedTuple):
    """The embedded steps of sequences of symbols as places in a table. A linear map of the steps is
    then the map of the table, which saves most products of a small vocabulary.

    Attributes:
        numbers: the numbers of the symbols, (..., N, L, 1).
        vectors: the vectors of all symbols, (..., V, E).
    """

    numbers: Tensor
    vectors: Tensor


def table_rows(table: Tensor, numbers: Tensor) -> Tensor:
    """Return rows of a table: a table (V, E) and numbers (...) give (..., E). Runs have tables (R,
    V, E) and numbers (R, ...)."""
    if table.dim() == 3:  # as one table, because the backward pass of an advanced index is slow
        R, V, _ = table.shape
        first = torch.arange(0, R * V, V, device=numbers.device)
        numbers = numbers + first.view(-1, *[1] * (numbers.dim() - 1))
        table = table.flatten(0, 1)
    return F.embedding(numbers, table)


class Linear(nn.Module):
    """A learned affine map, initialized like torch's `Linear` from U(-b, b) with b = 1/sqrt(in)."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.init_bound = 1 / math.sqrt(inputs)

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the map: (..., in) -> (..., out). The call skips torch's module hooks, which take
        time at every call."""
        return affine(x, self.weight, self.bias)


class LearnedVector(nn.Module):
    """A learned vector, such as a temperature or a baseline, with a constant initial value.

    Args:
        init: the initial value of all elements.
        size: the number of elements.
    """

    def __init__(self, init: float, size: int = 1) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.empty(size))
        self.init = init

    def broadcast_to(self, x: Tensor) -> Tensor:
        """Return the element of a vector of size 1, in a shape that broadcasts to x.

        Args:
            x: (...), or (R, ...) if each of R runs has its own element.
        """
        value: Tensor = self.value
        return value if value.dim() == 1 else value.view(-1, *[1] * (x.dim() - 1))

    def of_heads(self) -> Tensor:
        """Return the elements of a vector with one element for each head, in a shape that
        broadcasts to scores (..., N, [A,] T, S)."""
        value: Tensor = self.value[..., None, None]  # ([R,] A, 1, 1)
        has_runs_and_heads = value.dim() == 4 and value.shape[-3] > 1
        return value.unsqueeze(1) if has_runs_and_heads else value


class LayerNorm(nn.Module):
    """Layer normalization (Ba, Kiros and Hinton 2016, "Layer Normalization", eq. 4). Each row is
    normalized to mean 0 and variance 1 and multiplied by a learned gain, and a learned bias is
    added.

    Args:
        width: the length of a row.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.bias = LearnedVector(1.0, width), LearnedVector(0.0, width)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize rows: (..., width) -> (..., width)."""
        *_, width = x.shape
        gain: Tensor = self.gain.value
        bias: Tensor = self.bias.value
        if gain.dim() == 1:
            return F.layer_norm(x, (width,), gain, bias)
        runs = (-1, *[1] * (x.dim() - 2), width)
        return F.layer_norm(x, (width,)) * gain.view(runs) + bias.view(runs)


class Embedding(nn.Module):
    """A table with a learned vector for each symbol of a vocabulary.

    The bound of the initial distribution gives the elements the variance 1 / E, so that a table
    that is also the output layer begins with outputs of variance 1 for inputs of variance 1.

    Args:
        symbols: size V of the vocabulary.
        width: width E of the vectors.

    Attributes:
        weight: the vectors (V, E), or (R, V, E) for R runs.
    """

    def __init__(self, symbols: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(symbols, width))
        self.init_bound = math.sqrt(3 / width)

    def __call__(self, numbers: Tensor) -> Tensor:
        """Return the vectors (..., E) of symbols.

        Args:
            numbers: the numbers of the symbols, int64: (...), or (R, ...) for R runs.
        """
        return table_rows(self.weight, numbers)


class TiedLinear(nn.Module):
    """An output layer whose weights are the vectors of an embedding (Press and Wolf 2017, "Using
    the Output Embedding to Improve Language Models").

    Args:
        embedding: the embedding (V, E).
        width: width of the input. If it differs from E, a learned map to the width E comes first.
    """

    def __init__(self, embedding: Embedding, width: int) -> None:
        super().__init__()
        symbols, E = embedding.weight.shape
        self.source = [embedding]  # in a list, so that its parameters do not count twice
        self.inner = None if width == E else Linear(width, E)
        self.bias = nn.Parameter(torch.empty(symbols))
        self.init_bound = 0.0

    @property
    def weight(self) -> Tensor:
        return self.source[0].weight

    def __call__(self, x: Tensor) -> Tensor:
        return affine(x if self.inner is None else self.inner(x), self.weight, self.bias)


def init_parameters(model: nn.Module, seed: int) -> None:
    """Initialize every parameter. The elements of a `LearnedVector` are set to its constant initial
    value, and every other parameter is drawn from a random stream named after the parameter.

    An additional module therefore does not change the initial values of the other modules.

    Args:
        model: the model. Each module that directly contains parameters must be a `LearnedVector` or
            have the attribute `init_bound`, the bound b of the initial distribution U(-b, b).
        seed: the seed of the run.

    Raises:
        PluginError: if a module with parameters has no initial distribution, which is the case for
            torch's own modules, or if a module is one of torch's dropout modules.
    """
    with torch.no_grad():
        uniform = dict[str, tuple[nn.Parameter, float]]()
        for module_name, module in model.named_modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                raise PluginError(
                    f"{module_name}: the random numbers of torch's {type(module).__name__} do not"
                    " depend on the seed of the run. Use seqattn's random numbers instead: the"
                    " method `uniform` of the argument `rng`."
                )
            if isinstance(module, LearnedVector):
                module.value.fill_(module.init)
                continue
            for name, parameter in module.named_parameters(recurse=False):
                if not isinstance(bound := getattr(module, "init_bound", None), float):
                    raise PluginError(
                        f"{module_name}.{name}: the class {type(module).__name__} has no initial"
                        " distribution. Use seqattn.Linear or seqattn.LearnedVector instead, or set"
                        " the attribute init_bound of the module to the bound b of U(-b, b)."
                    )
                uniform[f"{module_name}.{name}"] = parameter, bound
        keys = ((seed, name) for name in uniform)
        for (parameter, bound), rng in zip(uniform.values(), rngs_for(keys, "init"), strict=True):
            values = rng.uniform(-bound, bound, size=tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values))
