"""The live part of a page: models that the page evaluates in the browser.

Letters: E epochs with recorded parameters, P number of parameters of a model.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation.load_run import open_run
from seqattn.config import as_plain
from seqattn.errors import CheckpointError, UsageError
from seqattn.report.content.examples import examples_content, pack_points
from seqattn.report.content.live_input import input_form
from seqattn.runs import RunFolder

if TYPE_CHECKING:
    from seqattn.training import LoadedModel

MAX_PARAMETER_BYTES = 20 * 2**20
"""Maximum size of the recorded parameters of all runs of a page, before their compression."""
MAX_START_SEQUENCES = 50
MAX_GRAPHS = 12
"""Maximum number of different graphs in a page; each takes some seconds to trace."""
NEEDS_EXPORT = (
    "The model is not in this page. Putting it there needs onnx and onnxscript:"
    ' pip install "seqattn[export]"'
)


@dataclass
class LiveModels:
    """The models of a page. Runs that differ only in their parameters share one graph.

    Attributes:
        models: the content of each graph, in the order in which they were added.
        reasons: why runs are not live, as sentences.
    """

    models: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _size: int = 0
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
            whether the run is live; if it is not, `reasons` says why.
        """
        try:
            _, trained = open_run(folder.path)
            model = self._find_model(trained, name)
            if model is None:
                return False
            history = folder if with_history else None
            epochs, parameters = _recorded_parameters(history, trained, model)
        except ImportError:
            self._add_reason(NEEDS_EXPORT)
            return False
        except (CheckpointError, UsageError) as error:
            self._add_reason(f"The model of {name} is not in this page. {error}")
            return False
        self._size += parameters[:1].nbytes
        if self._size > MAX_PARAMETER_BYTES:
            megabytes = MAX_PARAMETER_BYTES // 2**20
            self._add_reason(
                f"Only some of the models are in this page: {megabytes} MB of parameters."
            )
            return False
        run = {"name": name, "seed": trained.config.seed, "best_epoch": trained.epoch}
        model["runs"].append(run)
        self._frames.append((run, epochs, parameters))
        return True

    def content(self, notices: list[str]) -> dict[str, Any] | None:
        """The content for the page; None without a model.

        Args:
            notices: a sentence is appended if recorded epochs are left out.
        """
        if not self._frames:
            return None
        total = sum(parameters.nbytes for _, _, parameters in self._frames)
        for run, epochs, parameters in self._frames:
            best = epochs.tolist().index(run["best_epoch"])
            kept = _thin_frames(len(epochs), min(1.0, MAX_PARAMETER_BYTES / total), best)
            run["epochs"] = epochs[kept].tolist()
            run["parameters"] = pack_points(parameters[kept])
        shown, recorded = (sum(counts) for counts in zip(
            *((len(run["epochs"]), len(epochs)) for run, epochs, _ in self._frames), strict=True
        ))  # fmt: skip
        if shown < recorded:
            notices.append(
                f"The page has the parameters of {shown} of {recorded} recorded epochs; those of"
                f" all would take more than {MAX_PARAMETER_BYTES // 2**20} MB."
            )
        return {"models": [model for model in self.models if model["runs"]]}

    def _find_model(self, trained: LoadedModel, name: str) -> dict[str, Any] | None:
        """Return the content of a run's graph, which is traced for the first run of its kind; None
        if the run cannot be shown beside the others."""
        from seqattn.export.live import attention_shape, trace_live

        spec, plain = trained.spec, as_plain(trained.config)["model"]
        data = {key: value for key, value in spec.as_plain().items() if key != "digests"}
        key = json.dumps([plain, data], sort_keys=True, default=str)
        if key in self._position:
            return self.models[self._position[key]]
        features = [list(spec.source_features), list(spec.target_features)]
        first = self.models[0] if self.models else None
        if first and features != [first["features"], first["target_features"]]:
            self._add_reason(f"The model of {name} is not in this page: its features are others.")
            return None
        if len(self.models) == MAX_GRAPHS:
            self._add_reason(f"The page has the models of the first {MAX_GRAPHS} variants only.")
            return None
        live = trace_live(trained)
        raw = live.graph.SerializeToString(deterministic=True)
        layers, heads = attention_shape(trained)
        skip = trained.model.skip
        model = {
            "graph": base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode(),
            "sha256": hashlib.sha256(raw).hexdigest(),
            "layout": [[name, list(shape)] for name, shape in live.shapes.items()],
            "steps": spec.target_length,
            "source_length": spec.source_length,
            "fixed_source": None if skip is None else skip.lengths.source,
            "max_length": trained.model.max_length,
            "layers": layers,
            "heads": heads,
            "config": plain,
            "features": list(spec.source_features),
            "target_features": list(spec.target_features),
            "scaling": spec.scaling.as_plain(),
            "loss_scale": np.broadcast_to(
                spec.scaling.target.scale, len(spec.target_features)
            ).tolist(),
            "input": input_form(trained),
            "runs": [],
        }
        self._position[key] = len(self.models)
        self.models.append(model)
        return model

    def _add_reason(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


def runs_content(folders: Sequence[RunFolder]) -> dict[str, Any]:
    """Return the content of a page that shows several runs side by side on one input.

    Args:
        folders: the run folders.

    Raises:
        CheckpointError: if a folder is not a finished run.
        UsageError: if the runs do not share their features, or a model cannot be in a page.
    """
    models, rows, notices = LiveModels(), [], list[str]()
    paths = [folder.path for folder in folders]
    names = [path.name if [p.name for p in paths].count(path.name) == 1 else str(path)
             for path in paths]  # fmt: skip
    for folder, name in zip(folders, names, strict=True):
        if not folder.summary.exists():
            raise CheckpointError(
                f"{folder.path}: is not a finished run (no {folder.summary.name})."
            )
        summary = folder.read_summary()
        if not models.add(folder, name):
            raise UsageError(models.reasons[-1])
        rows.append(
            [name, f"{summary['test_loss']:.4g}", f"{summary['test_loss_teacher_forced']:.4g}",
             str(summary["best_epoch"]), f"{summary['parameters']:,}"]
        )  # fmt: skip
    live = models.content(notices) or {}
    return {
        "kind": "runs",
        "name": ", ".join(names),
        "unit": "",
        "notices": notices,
        "live": live | start_sequences(folders[0]) | {"side_by_side": True},
        "headings": ["run", "test loss", "teacher-forced", "best epoch", "parameters"],
        "rows": rows,
    }


def start_sequences(folder: RunFolder) -> dict[str, Any]:
    """Return test sequences of a run, from which readers of a page can start."""
    summary = folder.read_summary()
    content = examples_content(folder, [], 1.0, summary.get("units", {}), MAX_START_SEQUENCES)
    return {"examples": content["examples"], "alignment": content["alignment"]}


def _recorded_parameters(
    folder: RunFolder | None, trained: LoadedModel, model: dict[str, Any]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return epochs (E,) and their parameters (E, P): the best epoch and the recorded ones.

    Args:
        folder: the run folder; None to leave out the recorded epochs.
        trained: the model at its best epoch.
        model: the content of its graph.

    Raises:
        CheckpointError: if the recorded parameters cannot be read, or are of another model.
    """
    from seqattn.export.live import flatten_parameters
    from seqattn.training.parameter_history import check_same_shapes

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
    """Return indices of about `share` of `count` frames, evenly spaced, with the frame `best`."""
    kept = count if share >= 1 else max(1, int(count * share) - 1)
    return sorted({best, *(int(k) for k in np.linspace(0, count - 1, kept).round())})
