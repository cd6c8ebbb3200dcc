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
from seqattn.report.content.examples import pack_points
from seqattn.report.content.live_input import input_form
from seqattn.runs import RunFolder

if TYPE_CHECKING:
    from seqattn.training import LoadedModel

MAX_PARAMETER_BYTES = 20 * 2**20
"""Maximum size of the recorded parameters of all runs of a page, before their compression."""
NEEDS_EXPORT = (
    'The model is not in this page, since that needs onnx and onnxscript: pip install "seqattn[export]"'
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
    _position: dict[str, int] = field(default_factory=dict)
    _frames: list[tuple[dict[str, Any], NDArray[np.int64], NDArray[np.float32]]] = field(
        default_factory=list
    )

    def add(self, folder: RunFolder, name: str) -> bool:
        """Add a run, with the parameters of its best epoch and those recorded in its training.

        Args:
            name: name of the run on the page.

        Returns:
            whether the run is live; if not, `reasons` says why.
        """
        try:
            _, trained = open_run(folder.path)
            model = self._model(trained)
        except ImportError:
            self._add_reason(NEEDS_EXPORT)
            return False
        except (CheckpointError, UsageError) as error:
            self._add_reason(f"The model of {name} is not in this page. {error}")
            return False
        epochs, parameters = _recorded_parameters(folder, trained, model)
        run = {"name": name, "seed": trained.config.seed, "best_epoch": trained.epoch}
        model["runs"].append(run)
        self._frames.append((run, epochs, parameters))
        return True

    def content(self, notices: list[str]) -> dict[str, Any] | None:
        """The content for the page; None without a model.

        Args:
            notices: a sentence is appended if recorded epochs are left out.
        """
        if not self.models:
            return None
        total = sum(parameters.nbytes for _, _, parameters in self._frames)
        for run, epochs, parameters in self._frames:
            kept = _thin_frames(len(epochs), min(1.0, MAX_PARAMETER_BYTES / total))
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
        return {"models": self.models}

    def _model(self, trained: LoadedModel) -> dict[str, Any]:
        """The graph for a run, traced when it is the first of its kind."""
        from seqattn.export.live import attention_shape, trace_live

        spec, plain = trained.spec, as_plain(trained.config)["model"]
        data = {key: value for key, value in spec.as_plain().items() if key != "digests"}
        key = json.dumps([plain, data], sort_keys=True, default=str)
        if key in self._position:
            return self.models[self._position[key]]
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


def _recorded_parameters(
    folder: RunFolder, trained: LoadedModel, model: dict[str, Any]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Epochs (E,) and their parameters (E, P): the recorded ones, and the best epoch."""
    from seqattn.export.live import flatten_parameters

    shapes = {name: tuple(shape) for name, shape in model["layout"]}
    best = flatten_parameters(dict(trained.model.named_parameters()), shapes).numpy()
    return np.array([trained.epoch]), best[None]


def _thin_frames(count: int, share: float) -> Sequence[int]:
    """Indices of about `share` of `count` frames, evenly spaced, with the first and the last."""
    kept = max(min(2, count), int(count * share))
    return np.unique(np.linspace(0, count - 1, kept).round().astype(int)).tolist()
