"""Checks of a resumed training run and of the export to ONNX."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seqattn.config import Config
from seqattn.data import DataSpec, load_data
from seqattn.errors import SeqattnError
from seqattn.experiments.contract.case import ContractCase
from seqattn.experiments.contract.result import (
    CheckFailedError,
    NotApplicableError,
    tensor_difference,
)
from seqattn.models import FeatureSpec, Lengths, build_model
from seqattn.training import (
    LoadedModel,
    RunProgress,
    Session,
    TrainingRun,
    to_tensors,
    train_models,
)

EPOCHS, STOPS = 2, (1, 4)
"""Number of epochs, and the numbers of training steps after which training is stopped. An epoch has
three steps."""
EXPORTABLE = "exportable"
"""The class attribute with which a plugin's mechanism claims that it can be exported."""


class _StopAfter(Session):
    """A session that requests a stop after some steps.

    Args:
        steps: the number of steps; None to train to the end.
    """

    def __init__(self, steps: int | None) -> None:
        self.steps, self.done = steps, 0

    def stop_requested(self) -> bool:
        self.done += 1
        return self.steps is not None and self.done >= self.steps


def check_resume(config: Config) -> str:
    """Check that a stopped and resumed training run gives the same losses and weights as an
    uninterrupted run, bit for bit.

    Args:
        config: a config with a generated task of 24 training sequences in batches of 8.

    Raises:
        CheckFailedError: if a loss or a weight differs, or if training diverges.
    """
    whole = _train(config)
    if whole.error is not None:
        raise CheckFailedError(f"Training for {EPOCHS} epochs failed: {whole.error}")
    for stop in STOPS:
        half = _train(config, stop=stop)
        rest = _train(config, before=half)
        for name, found, expected in (
            *_losses(rest, whole), *_weights(rest, whole),
        ):  # fmt: skip
            if not torch.equal(found, expected):
                size = tensor_difference(found, expected).value
                raise CheckFailedError(
                    f"A training run that stops after step {stop} and is resumed differs from the"
                    f" uninterrupted run: {name} differs by {size:.2g}."
                    " The mechanism depends on something that is not in the checkpoint, such as an"
                    " attribute that forward changes, or random numbers of its own."
                )
    losses = ", ".join(f"{record.validation_loss:.3g}" for record in whole.history)
    return f"equal bits; validation losses {losses}"


def _train(
    config: Config, stop: int | None = None, before: RunProgress | None = None
) -> RunProgress:
    data = load_data(config.data)
    spec = DataSpec.of_splits(data)
    lengths = Lengths(spec.source_length, spec.target_length)
    run = TrainingRun(
        build_model(config.model, FeatureSpec.of(spec), config.seed, lengths),
        to_tensors(data.train, scaling=data.scaling),
        to_tensors(data.validation, scaling=data.scaling), config.training, config.seed,
    )  # fmt: skip
    states = {}
    if before is not None:
        assert before.state is not None
        states = {run: before.state}
    (progress,) = train_models([run], _StopAfter(stop), states=states)
    return progress


def _losses(one: RunProgress, other: RunProgress) -> list[tuple[str, Tensor, Tensor]]:
    rows = [
        torch.tensor([(r.train_loss, r.validation_loss) for r in run.history], dtype=torch.float64)
        for run in (one, other)
    ]
    if rows[0].shape != rows[1].shape:
        return [("the number of epochs", torch.tensor(math.nan), torch.tensor(0.0))]
    return [("a loss", rows[0], rows[1])]


def _weights(one: RunProgress, other: RunProgress) -> list[tuple[str, Tensor, Tensor]]:
    assert one.state is not None and other.state is not None
    weights = one.state.weights, other.state.weights
    return [(name, weights[0][name], weights[1][name]) for name in weights[1]]


# --- export ---------------------------------------------------------------------------------------


def check_export(case: ContractCase, config: Config) -> str:
    """Check that exported ONNX graphs give the forecasts of the model.

    Raises:
        CheckFailedError: if the model cannot be exported, or if a graph differs.
        NotApplicableError: if the mechanism does not claim that it can be exported, or if a library
            is missing.
    """
    if not claims_export(case.component()):
        raise NotApplicableError(
            f"not claimed. The class attribute `{EXPORTABLE} = True` claims that the mechanism can"
            " be exported."
        )
    from seqattn.export import LIBRARIES, missing_libraries

    try:
        for library in LIBRARIES:
            __import__(library)
    except ImportError:
        raise NotApplicableError(f"{missing_libraries()}.") from None
    from seqattn.export.check import MAX_DIFFERENCE, check_graphs
    from seqattn.export.onnx import trace_graphs

    spec = DataSpec.of_splits(load_data(config.data))
    lengths = Lengths(spec.source_length, spec.target_length)
    model = build_model(config.model, FeatureSpec.of(spec), config.seed, lengths)
    trained = LoadedModel(model, config, spec, 1)
    try:
        graphs = trace_graphs(trained, spec.target_length)
    except SeqattnError as error:
        raise CheckFailedError(
            f"The mechanism claims `{EXPORTABLE} = True`, but the export failed: {error}"
        ) from error
    rows = check_graphs(graphs, trained, spec.target_length, None, model.max_length)
    for row in rows:
        if not row.is_within_tolerance:
            raise CheckFailedError(
                f"The graph {row.graph} differs from the model by {row.largest:.2g} on"
                f" {row.sources}; the tolerance is {MAX_DIFFERENCE:.0e}. The likely mistake is a"
                " Python number or a condition that was computed once, while the graph was traced."
            )
    return f"largest difference {max(row.largest for row in rows):.1e}"


def claims_export(module: nn.Module) -> bool:
    """Return whether a mechanism claims that it can be exported. All built-in mechanisms do."""
    is_own = type(module).__module__.startswith("seqattn.")
    return bool(getattr(type(module), EXPORTABLE, is_own))
