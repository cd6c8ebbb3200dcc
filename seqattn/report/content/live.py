"""The live part of a page: models that the page evaluates in the browser.

In shapes, E is the number of epochs with recorded parameters and P is the number of parameters of a
model.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.analysis.evaluation.texts import longest_output
from seqattn.config import ScoreConfig, as_plain, name_of
from seqattn.config.plugins import OWNERS
from seqattn.data.tokens import Tokens
from seqattn.errors import CheckpointError, DataError, UsageError, counted
from seqattn.report.content.examples import examples_content, pack_points
from seqattn.report.content.live_differences import PageRun, describe_differences, find_conflict
from seqattn.report.content.live_input import input_form
from seqattn.report.content.symbols import symbols_content
from seqattn.report.content.verdict import shown_path
from seqattn.runs import RunFolder

if TYPE_CHECKING:
    from seqattn.report.content.verdict import Commands, Need
    from seqattn.training import LoadedModel

MAX_PARAMETER_BYTES = 20 * 2**20
"""Maximum size of the parameters of all runs of a page, before compression."""
MAX_START_SEQUENCES = 50
MAX_GRAPHS = 12
"""Maximum number of different graphs in a page. Tracing a graph takes some seconds."""
# A page may be read on another machine, so it has no path of this machine.
NEEDS_EXPORT = (
    "The model is not in this page. Putting it there needs onnx and onnxscript:"
    ' pip install "seqattn[export]"'
)
EXPORT_MODULES = ("onnx", "onnxscript", "onnx_ir")
"""Modules that the extra `export` installs."""


@dataclass
class LiveModels:
    """The models of a page. A run is live if the page contains its model. Runs with equal model
    configs and equal data specs share one ONNX graph.

    Attributes:
        models: the content of each graph, in the order in which they were added.
        reasons: sentences that say why runs are not live.
        runs: the runs of the page, in the order in which they were added.
    """

    models: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    runs: list[PageRun] = field(default_factory=list)
    _size: int = 0
    _beyond_limit: int = 0
    _position: dict[str, int] = field(default_factory=dict)
    _frames: list[tuple[dict[str, Any], NDArray[np.int64], NDArray[np.float32]]] = field(
        default_factory=list
    )

    def add(self, folder: RunFolder, name: str, *, with_history: bool = True) -> bool:
        """Add a run, with the parameters of its best epoch and those recorded during its training.

        Args:
            folder: the run folder.
            name: the name of the run on the page.
            with_history: whether to add the recorded parameters.

        Returns:
            Whether the run is live. If the run is not live, `reasons` contains the reason. The
            exception is a run that would need more than `MAX_GRAPHS` graphs, which the method
            `content` reports.
        """
        try:
            _, trained = open_run(folder.path)
            _check_kinds(trained)
            check_sources_observed(trained)
            size = sum(parameter.nbytes for parameter in trained.model.parameters())
            if self._size + size > MAX_PARAMETER_BYTES:
                self._add_reason(self._describe_limit(name))
                return False
            model = self._find_model(PageRun(name, trained))
            if model is None:
                return False
            history = folder if with_history else None
            epochs, parameters = _recorded_parameters(history, trained, model)
        except ImportError as error:
            self._add_reason(_describe_import(name, error))
            return False
        except (CheckpointError, UsageError) as error:
            self._add_reason(f"The model of {name} is not in this page. {error}")
            return False
        self._size += size
        run = {
            "name": name, "seed": trained.config.seed, "best_epoch": trained.epoch,
            "path": _reachable_path(folder.path),
        }  # fmt: skip
        model["runs"].append(run)
        self.runs.append(PageRun(name, trained))
        self._frames.append((run, epochs, parameters))
        return True

    def content(self, notices: list[str], sequences_of: str | None = None) -> dict[str, Any] | None:
        """Return the content for the page; None if the page has no models.

        Args:
            notices: a list to which the method appends sentences about omitted epochs and runs, and
                about differences between the runs.
            sequences_of: the name of the run whose test sequences the page shows; None if the page
                has only one run.
        """
        if not self._frames:
            return None
        notices.extend(describe_differences(self.runs, sequences_of))
        if self._beyond_limit:
            total = len(self.runs) + self._beyond_limit
            notices.append(
                f"{self._beyond_limit} of {total} runs are not live, because a page has at most"
                f" {counted(MAX_GRAPHS, 'graph')}. Runs share a graph only if their model configs"
                " and the scaling of their data are equal."
            )
        total = sum(parameters.nbytes for _, _, parameters in self._frames)
        for run, epochs, parameters in self._frames:
            best = epochs.tolist().index(run["best_epoch"])
            kept = _thin_frames(len(epochs), min(1.0, MAX_PARAMETER_BYTES / total), best)
            run["epochs"] = epochs[kept].tolist()
            run["recorded"] = len(epochs)
            run["parameters"] = pack_points(parameters[kept])
        shown, recorded = (sum(counts) for counts in zip(
            *((len(run["epochs"]), len(epochs)) for run, epochs, _ in self._frames), strict=True
        ))  # fmt: skip
        if shown < recorded:
            notices.append(
                f"The page has the parameters of {shown} of {recorded} recorded epochs; the"
                " parameters of all recorded epochs would take more than"
                f" {MAX_PARAMETER_BYTES // 2**20} MB."
            )
        return {"models": [model for model in self.models if model["runs"]]}

    def start_sequences(
        self, folders: Sequence[RunFolder], names: Sequence[str], notices: list[str]
    ) -> tuple[str | None, dict[str, Any]]:
        """Return the test sequences of the first run whose test sequences can be read.

        Args:
            folders: the folders of runs that were added.
            names: the names of these runs on the page.
            notices: a list to which sentences about unreadable sequences are appended.

        Returns:
            The name of the run and its sequences; None and an empty dict if there is no such run.

        Raises:
            UsageError: if no sequence of this run fits all models.
        """
        for folder, name in zip(folders, names, strict=True):
            try:
                if has_symbols(self.runs[0].trained):
                    return name, symbols_content(folder)
                sequences = _read_sequences(folder, folders)
            except CheckpointError as error:
                notices.append(f"The test sequences of {name} cannot be read: {error}")
                continue
            lengths = sequences["examples"]["source_lengths"]
            if not any(all(run.accepts(length) for run in self.runs) for length in lengths):
                limits = [run.source_limit for run in self.runs if run.source_limit is not None]
                raise UsageError(
                    f"No test sequence of {name} fits all models: {', and '.join(limits)}."
                )
            return name, sequences
        notices.append("The page has no models, because it has no test sequences to start from.")
        return None, {}

    def _find_model(self, run: PageRun) -> dict[str, Any] | None:
        """Return the entry of the page for the graph of a run's model.

        Runs with the same model section and the same data spec share a graph, which is traced for
        the first of these runs. The result is None if the page cannot show the run with the other
        runs, or if the page already has `MAX_GRAPHS` graphs.
        """
        from seqattn.export.live import attention_shape, trace_live

        trained = run.trained
        spec, plain = trained.spec, as_plain(trained.config)["model"]
        data = {key: value for key, value in spec.as_plain().items() if key != "digests"}
        key = json.dumps([plain, data], sort_keys=True, default=str)
        if key in self._position:
            return self.models[self._position[key]]
        if conflict := find_conflict(run, self.runs):
            self._add_reason(f"The model of {run.name} is not in this page: {conflict}.")
            return None
        if len(self.models) == MAX_GRAPHS:
            self._beyond_limit += 1
            return None
        live = trace_live(trained)
        raw = live.graph.SerializeToString(deterministic=True)
        layers, heads = attention_shape(trained)
        skip = trained.model.skip
        skip = trained.model.skip
        model = {
            "graph": base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode(),
            "sha256": hashlib.sha256(raw).hexdigest(),
            "layout": [[name, list(shape)] for name, shape in live.shapes.items()],
            "source_length": spec.source_length,
            "fixed_source": None if skip is None else skip.lengths.source,
            "max_length": trained.model.max_length,
            "layers": layers,
            "heads": heads,
            "config": _page_config(trained),
            **(_symbols_content if has_symbols(trained) else _points_content)(trained),
            "runs": [],
        }
        self._position[key] = len(self.models)
        self.models.append(model)
        return model

    def _describe_limit(self, name: str) -> str:
        """Return the reason for leaving out a run whose parameters exceed the limit of the page."""
        megabytes = MAX_PARAMETER_BYTES // 2**20
        if self._frames:
            return (
                "Only some of the models are in this page, because the parameters of all would take"
                f" more than {megabytes} MB."
            )
        return (
            f"The model of {name} is not in this page, because its parameters take more than"
            f" {megabytes} MB."
        )

    def _add_reason(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


def has_symbols(trained: LoadedModel) -> bool:
    """Return whether the targets of a model are symbols."""
    return isinstance(trained.spec.target, Tokens)


def _reachable_path(path: Path) -> str | None:
    """Return the path of a run below the working directory; None if it lies elsewhere, because an
    absolute path may reveal the user's folders."""
    is_below = not path.is_absolute() or path.is_relative_to(Path.cwd())
    return shown_path(path) if is_below else None


def _points_content(trained: LoadedModel) -> dict[str, Any]:
    """Return what a page needs of a model whose steps are vectors."""
    spec = trained.spec
    return {
        "steps": spec.target_length,
        "features": list(spec.source_features),
        "target_features": list(spec.target_features),
        "scaling": spec.scaling_as_plain(),
        "loss_scale": spec.target.scale.tolist(),
        "input": input_form(trained),
    }


def _symbols_content(trained: LoadedModel) -> dict[str, Any]:
    """Return what a page needs of a model whose steps are symbols."""
    source, target = (
        {key: space.as_plain()[key] for key in ("symbols", "unit", "lowercase")}
        for space in trained.spec.tokens
    )
    return {
        "steps": longest_output(trained), "source_vocabulary": source, "target_vocabulary": target,
    }  # fmt: skip


def tour_content(
    start: Mapping[str, int] | None,
    need: Need | None,
    conclusion: Sequence[str],
    commands: Commands,
    record: Commands,
    outside: str = "",
) -> dict[str, Any]:
    """Return the data that the tour of a page shows.

    Args:
        start: the sequence, layer and head with which the tour starts; None if no weights are
            known.
        need: sentences about the test losses with replaced weights; None if these losses are
            unknown.
        conclusion: sentences for the last step of the tour, with the answer first.
        commands: the commands for a comparison with another model.
        record: the command that records the parameters of a run.
        outside: a sentence about sources that the training data lack; "" for no sentence.
    """
    return {
        "start": None if start is None else dict(start),
        "average": "" if need is None else need.average,
        "conclusion": list(conclusion),
        "commands": commands,
        "record": record,
        "outside": outside,
    }


def _check_kinds(trained: LoadedModel) -> None:
    """Check that source and target are of the same kind.

    Raises:
        UsageError: if they are not.
    """
    if isinstance(trained.spec.source, Tokens) != isinstance(trained.spec.target, Tokens):
        raise UsageError("A page cannot show symbols on one side and vectors on the other.")


def check_sources_observed(trained: LoadedModel) -> None:
    """Check that the graph normalizes the test sources in the same way as the model.

    With `data.normalize: instance`, the mean and the standard deviation of a source leave out the
    cells that `data.missing: interpolate` filled. The graph, however, includes these cells.

    Raises:
        UsageError: if a test source has filled cells, or if the data cannot be read.
    """
    if has_symbols(trained) or not (
        trained.spec.vectors[0].scaling.instance and trained.fills_missing
    ):
        return
    cause = (
        "With data.normalize: instance, the mean and standard deviation of a source leave out the"
        " cells that data.missing: interpolate filled"
    )
    try:
        has_filled_cells = load_splits(trained).test.has_masked_sources
    except DataError as error:
        raise UsageError(
            f"{cause}. Only the data tell which cells these are, and they cannot be read: {error}"
        ) from error
    if has_filled_cells:
        raise UsageError(
            f"{cause}, and some test sequences have such cells. The graph of a page does not know"
            " which cells these are, so its forecasts would be wrong."
        )


def _page_config(trained: LoadedModel) -> dict[str, Any]:
    """Return the section `model`, from which the page shows the arithmetic of the weights.

    For a normalizer that is not part of seqattn, the page shows the weights without arithmetic. If
    a plugin registered the location, the name of the location replaces the name of the normalizer.
    Otherwise, the page would show arithmetic that ignores the location.
    """
    plain: dict[str, Any] = as_plain(trained.config)["model"]
    attention, section = plain.get("attention"), getattr(trained.config.model, "attention", None)
    if isinstance(attention, dict) and isinstance(section, ScoreConfig):
        attention["normalizer"] = name_of(section.normalizer)
        if type(section.location) in OWNERS:
            attention["normalizer"] = attention["location"]["kind"]
    return plain


def _describe_import(name: str, error: ImportError) -> str:
    """Return a sentence that says that the page lacks a model because an import failed."""
    if error.name is not None and error.name.partition(".")[0] in EXPORT_MODULES:
        return NEEDS_EXPORT
    return f"The model of {name} is not in this page, because an import failed: {error}."


def _read_sequences(folder: RunFolder, folders: Sequence[RunFolder]) -> dict[str, Any]:
    """Return the test sequences of a run with which readers of a page can start.

    Args:
        folder: the run folder.
        folders: all run folders of the page.
    """
    summary, source = folder.read_summary(), folder.read_predictions()["source"]
    attended = (each for each in folders if each.attention.exists() and _has_sources(each, source))
    content = examples_content(
        folder, [], 1.0, summary.get("units", {}), MAX_START_SEQUENCES, next(attended, None)
    )
    return {key: content[key] for key in ("examples", "alignment", "start")}


def _has_sources(folder: RunFolder, source: NDArray[np.floating]) -> bool:
    """Return whether the test sequences of a run have the given sources (N, S, F)."""
    try:
        return np.array_equal(folder.read_predictions()["source"], source, equal_nan=True)
    except CheckpointError:
        return False


def _recorded_parameters(
    folder: RunFolder | None, trained: LoadedModel, model: dict[str, Any]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the best epoch and the recorded epochs (E,), with their parameters (E, P).

    Args:
        folder: the run folder; None to leave out the recorded epochs.
        trained: the model at its best epoch.
        model: the content of the model's graph.

    Raises:
        CheckpointError: if the recorded parameters cannot be read, or belong to another model.
    """
    from seqattn.export.live import flatten_parameters
    from seqattn.training.histories import check_same_shapes

    shapes = {name: tuple(shape) for name, shape in model["layout"]}
    best = flatten_parameters(dict(trained.model.named_parameters()), shapes).numpy()
    frames = {trained.epoch: best}
    if folder is not None and folder.parameter_history.exists():
        arrays = folder.read_parameter_history()
        check_same_shapes(folder.parameter_history, arrays, shapes)
        for epoch, parameters in zip(arrays["epochs"], arrays["parameters"], strict=True):
            frames.setdefault(int(epoch), parameters)
    epochs = sorted(frames)
    return np.array(epochs), np.stack([frames[epoch] for epoch in epochs])


def _thin_frames(count: int, share: float, best: int) -> list[int]:
    """Return the indices of about `share` of `count` epochs: evenly spaced epochs, and `best`."""
    kept = count if share >= 1 else max(1, int(count * share) - 1)
    return sorted({best, *(int(k) for k in np.linspace(0, count - 1, kept).round())})
