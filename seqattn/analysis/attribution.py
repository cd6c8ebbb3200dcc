"""Which source steps an output depends on: gradients, removal of source steps, and exchange of
encoder states. Attention weights are one answer among several, and this module holds them against
the others.

An output step has G numbers. For a target of vectors, they are the numbers of the point, in the
units of the model. For symbols, G is 1, and the number is the natural logarithm of the probability
of the symbol that the model has written. All previous outputs are kept as the model has written
them, so a number says how this step depends on the source, given the steps before.

In shapes, S is the source length, E the width of an embedded source step, T the number of output
steps, and B the number of sequences that are computed together.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from seqattn.models import RecurrentModel, Seq2SeqModel, TransformerModel
from seqattn.models.decoding import force, log_probabilities

Floats = NDArray[np.float64]

WEIGHTS, GRADIENT, INTEGRATED, RANDOM = (
    "attention weights", "gradient x input", "integrated gradients", "random order",
)  # fmt: skip
ROWS_AT_ONCE = 512
NODES = 8
MAX_NODES, FEW_NODES = 1024, 256
"""The number of sources after which the integral of one sequence is not refined further, and the
number for means over many sequences. The last refinement can double it. A network with relu has a
derivative with jumps, for which the error falls slowly."""
MAX_ERROR = 1e-4
MIN_CHANGE = 1e-6
"""A smaller change of the whole output has no shares."""
RANDOM_ORDERS = 10
FRACTIONS: Floats = np.linspace(0, 1, 11)
"""The shares of removed source steps at which curves are compared."""


class EmbeddedSource:
    """A trained model as a function of the embedded source of one sequence, in double precision.

    Args:
        model: the model.
        source: (S, F) numbers of symbols, or points in the units of the model, without padding.
        target: (T, G) the outputs of the model, which the decoder reads.

    Attributes:
        embedded: (S, E), the vectors of the symbols, or the points themselves.
        weights: (T, S), the mean of the cross-attention weights over layers and heads; None for a
            model without attention.
    """

    def __init__(self, model: Seq2SeqModel, source: Tensor, target: Tensor) -> None:
        self.model = copy.deepcopy(model).double().eval().requires_grad_(False)
        self.reads_symbols = model.features.source_symbols > 0
        self.writes_symbols = model.features.target_symbols > 0
        self.target = target if self.writes_symbols else target.double()
        self.source = source if self.reads_symbols else source.double()
        self.embedded = self.model.source_modality.embed(self.source)
        with torch.no_grad():
            output = force(self.model, self.source[None], None, self.target[None])
            cross = [one.weights[0].mean(0) for one in output.attention if one.kind == "cross"]
            self.weights: Floats | None = None
            if cross:
                self.weights = torch.stack(cross).mean(0).numpy()
            self.own = self.numbers(self.embedded[None])[0]

    def numbers(self, embedded: Tensor) -> Tensor:
        """Return the numbers (B, T, G) of all output steps for embedded sources (B, S, E)."""
        B, S, E = embedded.shape
        target = self.target.expand(B, -1, -1)
        if not self.reads_symbols:
            return self._read(force(self.model, embedded, None, target, with_attention=False))
        # Each step of each sequence gets a symbol of its own, whose vector is the embedded step.
        table = self.model.source_modality.vectors
        assert table is not None
        steps = len(table) + torch.arange(B * S).view(B, S, 1)
        name = "source_modality.embedding.weight"
        extended = {name: torch.cat([table, embedded.reshape(B * S, E)])}
        copier = getattr(self.model, "copier", None)
        if copier is not None:  # a step stands for the same target symbol as before
            copied = copier.copied_symbols
            own = copied[self.source[:, 0]].repeat(B)
            extended["copier.copied_symbols"] = torch.cat([copied, own])
        output = functional_call(
            self.model, extended, (steps, target),
            {"source_lengths": None, "with_attention": False,
             "teacher_forcing": torch.ones(target.shape[-2], dtype=torch.bool)},
        )  # fmt: skip
        return self._read(output)

    def _read(self, output: Any) -> Tensor:
        if not self.writes_symbols:
            values: Tensor = output.values
            return values
        target = self.target.expand(len(output.values), -1, -1)
        return log_probabilities(output.values).gather(-1, target)

    def changes(self, embedded: Tensor) -> Floats:
        """Return how far each output step is from the output of the true source, (B, T).

        For symbols, it is the probability that the written symbol loses. For vectors, it is the
        Euclidean distance in the units of the model.
        """
        with torch.no_grad():
            parts = [self.numbers(part) for part in embedded.split(ROWS_AT_ONCE)]
        numbers = torch.cat(parts)
        if self.writes_symbols:
            lost: Floats = (self.own.exp() - numbers.exp()).squeeze(-1).numpy()
            return lost
        distance: Floats = (numbers - self.own).norm(dim=-1).numpy()
        return distance

    def gradients(self, embedded: Tensor) -> Tensor:
        """Return the gradients of all numbers with respect to sources (B, S, E), as (T, G, B, S,
        E)."""
        found = list[Tensor]()
        for part in embedded.detach().split(ROWS_AT_ONCE):
            inputs = part.requires_grad_()
            total = self.numbers(inputs).sum(dim=0)
            each = [
                torch.autograd.grad(number, inputs, retain_graph=True, materialize_grads=True)[0]
                for number in total.flatten()
            ]
            found.append(torch.stack(each).view(*total.shape, *part.shape))
        return torch.cat(found, dim=2)


@dataclass(frozen=True)
class Attribution:
    """How much each source step contributes to each number of the output.

    Attributes:
        weights: (T, S), the mean attention weights over layers and heads; None without attention.
        gradient: (T, G, S), gradient times input, summed over the width of a step.
        integrated: (T, G, S), integrated gradients from a source of zeros.
        numbers, at_baseline: (T, G), the numbers of the output for the source, and for zeros.
        error: the largest difference between the sum of the integrated gradients over the source
            and `numbers` - `at_baseline`; 0 for an exact integral.
        nodes: the number of sources at which the integral was evaluated.
    """

    weights: Floats | None
    gradient: Floats
    integrated: Floats
    numbers: Floats
    at_baseline: Floats
    error: float
    nodes: int

    def importance(self) -> dict[str, Floats]:
        """Return how important each source step is for each output step, (T, S), by method: the
        weights, and the absolute contributions summed over the numbers of a step."""
        found = {} if self.weights is None else {WEIGHTS: np.abs(self.weights)}
        return {
            **found,
            GRADIENT: np.abs(self.gradient).sum(axis=1),
            INTEGRATED: np.abs(self.integrated).sum(axis=1),
        }


def shares_of_rows(found: Attribution) -> dict[str, Floats]:
    """Return the weights and the contributions (T, S), by method. The contributions of an output
    step are divided by their absolute sum. If a step has several numbers, they are the absolute
    contributions to all of them."""
    shares = {} if found.weights is None else {WEIGHTS: found.weights}
    for name, values in ((GRADIENT, found.gradient), (INTEGRATED, found.integrated)):
        of_step = values[:, 0] if values.shape[1] == 1 else np.abs(values).sum(axis=1)
        total = np.abs(of_step).sum(axis=-1, keepdims=True)
        shares[name] = np.divide(of_step, total, out=np.zeros_like(of_step), where=total > 0)
    return shares


def attribute(source: EmbeddedSource, max_nodes: int = MAX_NODES) -> Attribution:
    """Compute gradient times input and integrated gradients.

    Integrated gradients (Sundararajan, Taly and Yan 2017, "Axiomatic Attribution for Deep
    Networks", eq. 1) are x_i times the integral of dy / dx_i over the line from the baseline 0 to
    x. The baseline is 0 in the input of the model: the zero vector for a symbol, and the mean of
    the training data for standardized points. Over the source, they sum to y(x) - y(0), and the
    integral is refined until this sum is right up to `MAX_ERROR`, or until `max_nodes` nodes. The
    jumps of an output, such as those of hard attention, are in no contribution.
    """
    x = source.embedded
    gradient = (source.gradients(x[None])[:, :, 0] * x).sum(-1)
    with torch.no_grad():
        at_baseline = source.numbers(torch.zeros_like(x)[None])[0]
    integrated, nodes = _integrate(source, max_nodes)
    error = float((integrated.sum(-1) - (source.own - at_baseline)).abs().max())
    return Attribution(
        source.weights, gradient.numpy(), integrated.numpy(), source.own.numpy(),
        at_baseline.numpy(), error, nodes,
    )  # fmt: skip


def _integrate(source: EmbeddedSource, max_nodes: int) -> tuple[Tensor, int]:
    """Return the integrated gradients (T, G, S), and the number of nodes.

    The line is split into parts. On each part, the contributions must sum to the difference of the
    output between its ends, so the error of each part is known. Parts with an error are halved.
    """
    places, shares = np.polynomial.legendre.leggauss(NODES)
    inside, share = torch.from_numpy((places + 1) / 2), torch.from_numpy(shares / 2)
    x, total, nodes = source.embedded, torch.zeros(()), 0
    starts, length = torch.zeros(1, dtype=torch.float64), 1.0
    while len(starts):
        along = (starts.unsqueeze(-1) + length * inside).view(-1, 1, 1) * x
        gradients = source.gradients(along).unflatten(2, (len(starts), NODES))
        parts = (gradients * share.view(-1, 1, 1)).sum(dim=3) * length  # (T, G, parts, S, E)
        parts = (parts * x).sum(-1)
        ends = torch.stack([starts, starts + length]).view(-1, 1, 1) * x
        with torch.no_grad():
            first, last = source.numbers(ends).chunk(2)
        errors = (parts.sum(-1) - (last - first).movedim(0, -1)).abs().amax(dim=(0, 1))
        nodes += NODES * len(starts)
        is_done = (errors <= MAX_ERROR / 2 * max(length, 2**-8)) | (nodes >= max_nodes)
        total = total + parts[:, :, is_done].sum(dim=2)
        length /= 2
        halved = starts[~is_done]
        starts = torch.cat([halved, halved + length])
    return total, nodes


def removal_curves(
    source: EmbeddedSource, importance: Mapping[str, Floats], seed: int = 0
) -> dict[str, Floats]:
    """Return how much the output changes while source steps are replaced by zeros, the most
    important first: the mean change of the output steps at each of `FRACTIONS`, by method.

    The importance (T, S) of each method gives each output step its own order, in which steps of
    equal importance have a random order. The curve of `RANDOM` is the mean over `RANDOM_ORDERS`
    orders. The change is that of `EmbeddedSource.changes`. Removal from the most important step on
    is the test of DeYoung et al. 2020, "ERASER" (comprehensiveness), with zeros instead of a
    shorter source.
    """
    S = len(source.embedded)
    counts = np.unique(np.linspace(0, S, min(S, 10) + 1).round().astype(int))
    curves, rng = dict[str, Floats](), np.random.default_rng(seed)
    orders = np.stack([rng.permutation(S) for _ in range(RANDOM_ORDERS)])
    for name, values in importance.items():
        order = np.lexsort((rng.random(values.shape), -values), axis=-1)
        ranks = np.argsort(order, axis=-1)  # (T, S)
        changes = _remove(source, ranks < counts[:, None, None])  # (counts, T, T)
        curves[name] = changes.diagonal(axis1=1, axis2=2).mean(axis=-1)
    curves[RANDOM] = _remove(source, orders < counts[:, None, None]).mean(axis=(1, 2))
    return {name: np.interp(FRACTIONS, counts / S, curve) for name, curve in curves.items()}


def _remove(source: EmbeddedSource, removed: NDArray[np.bool_]) -> Floats:
    """Return the changes (..., T) of the output without the steps in a mask (..., S)."""
    mask = torch.from_numpy(~removed.reshape(-1, removed.shape[-1])).unsqueeze(-1)
    changes = source.changes(source.embedded * mask)
    return changes.reshape(*removed.shape[:-1], -1)


def area_above(curve: Floats, other: Floats) -> float:
    """Return the area between two curves over `FRACTIONS`, positive if `curve` is above."""
    return float(np.trapezoid(curve - other, FRACTIONS))


def rank_correlation(x: Floats, y: Floats) -> Floats:
    """Return Kendall's tau-b between the rows of x and y, (T, S) -> (T,). It is NaN for a row in
    which all numbers are equal. Jain and Wallace 2019, "Attention is not Explanation", section
    4.1, hold attention weights against gradients in this way."""
    signs = [np.sign(each[:, :, None] - each[:, None, :]) for each in (x, y)]
    both = (signs[0] * signs[1]).sum(axis=(1, 2))
    pairs = [np.abs(sign).sum(axis=(1, 2)) for sign in signs]
    with np.errstate(invalid="ignore"):
        tau: Floats = both / np.sqrt(pairs[0] * pairs[1])
    return tau


def trace_states(source: EmbeddedSource, other: Tensor) -> Floats:
    """Return which state of the encoder restores the output, when the source is replaced by another
    one (causal tracing; Meng et al. 2022, "Locating and Editing Factual Associations in GPT",
    section 2.1, who add noise instead).

    The decoder reads the states of the other source, except at one source step, whose state at one
    layer is that of the true source. The layers above compute their states from it. A
    recurrent decoder starts with the last state of each layer, which is not replaced together with
    the state of the last source step. So without attention, no state of the last layer restores
    anything.

    Args:
        source: the model and the true source.
        other: (S, F), another source of the same length.

    Returns:
        the change of each output step (L + 1, S, T) with the state of each layer and source step
            restored, and as the last row of the first axis, the change without a restored state,
            repeated S times: (L + 2, S, T) in all. Layer 0 is the embedded source. Models other
            than recurrent ones and Transformers have layer 0 only.
    """
    S = len(source.embedded)
    own, wrong = source.embedded, source.model.source_modality.embed(other).to(torch.float64)
    layers = _encoder_layers(source.model)
    clean = list[Tensor]()
    with _edited(layers, [clean.append] * len(layers)):
        source.changes(own[None])
    at = torch.eye(S, dtype=torch.bool).unsqueeze(-1)  # (row, step, 1)
    everywhere = wrong.expand(S, -1, -1)
    found = [source.changes(torch.where(at, own, wrong))]
    for layer, state in zip(layers, clean, strict=True):
        parts = list[Floats]()
        for rows in at.split(ROWS_AT_ONCE):
            with _edited([layer], [lambda x, rows=rows, state=state: torch.where(rows, state, x)]):
                parts.append(source.changes(everywhere[: len(rows)]))
        found.append(np.concatenate(parts))
    return np.stack([*found, source.changes(everywhere)])


def recovered(trace: Floats) -> Floats:
    """Return the share of the change of the whole output that a restored state takes back, (L + 1,
    S), from the result of `trace_states`. All shares are NaN if the other source changes nothing,
    or makes the written symbols more probable."""
    changes = trace.sum(axis=-1)
    if changes[-1, 0] < MIN_CHANGE:
        return np.full_like(changes[:-1], np.nan)
    shares: Floats = 1 - changes[:-1] / changes[-1]
    return shares


def _encoder_layers(model: Seq2SeqModel) -> Sequence[nn.Module]:
    """Return the layers of the encoder whose results begin with states (B, S, width)."""
    if isinstance(model, RecurrentModel):
        return [model.encoder, *model.encoder_above]
    return list(model.encoder) if isinstance(model, TransformerModel) else []


@contextmanager
def _edited(layers: Iterable[nn.Module], edits: Iterable[Any]) -> Iterator[None]:
    """Pass the states of each layer through a function, whose result, unless it is None, takes
    their place. Models call the method `forward` of their layers, without torch's hooks."""
    patched = list(zip(layers, edits, strict=True))
    try:
        for layer, edit in patched:
            layer.forward = _with_edit(layer.forward, edit)
        yield
    finally:
        for layer, _ in patched:
            layer.__dict__.pop("forward", None)


def _with_edit(forward: Any, edit: Any) -> Any:
    def edited(*args: Any, **options: Any) -> Any:
        states, *others = forward(*args, **options)
        new = edit(states)
        return (states if new is None else new, *others)

    return edited
