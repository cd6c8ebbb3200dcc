"""A Python package and command-line tool for attention in sequence-to-sequence models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqattn.analysis.doctor import register_check as register_check
    from seqattn.analysis.evaluation import register_metric as register_metric
    from seqattn.config import CellConfig as CellConfig
    from seqattn.config import Generated as TaskConfig
    from seqattn.config import LocationConfig as LocationConfig
    from seqattn.config import ModelConfig as ModelConfig
    from seqattn.config import NormalizerConfig as NormalizerConfig
    from seqattn.config import ScoreConfig as ScoreConfig
    from seqattn.config import load_plugin as load_plugin
    from seqattn.data import Sequences as Sequences
    from seqattn.data import register_task as register_task
    from seqattn.experiments.api import Comparison as Comparison
    from seqattn.experiments.api import DataNote as DataNote
    from seqattn.experiments.api import LabelledArray as LabelledArray
    from seqattn.experiments.api import Run as Run
    from seqattn.experiments.api import Seeds as Seeds
    from seqattn.experiments.api import compare as compare
    from seqattn.experiments.api import load as load
    from seqattn.experiments.api import train as train
    from seqattn.experiments.api import train_seeds as train_seeds
    from seqattn.models import AttentionMap as AttentionMap
    from seqattn.models import ModelOutput as ModelOutput
    from seqattn.models import Seq2SeqModel as Seq2SeqModel
    from seqattn.models.attention import Location as Location
    from seqattn.models.attention import Normalizer as Normalizer
    from seqattn.models.attention import Score as Score
    from seqattn.models.attention.location_based import valid_lengths as valid_lengths
    from seqattn.models.attention.normalizers import NormalizerOutput as NormalizerOutput
    from seqattn.models.attention.normalizers import mask_scores as mask_scores
    from seqattn.models.cells import Cell as Cell
    from seqattn.models.cells import axis_of_features as axis_of_features
    from seqattn.models.cells import last_valid as last_valid
    from seqattn.models.cells import recurrent_term as recurrent_term
    from seqattn.models.layers import LearnedVector as LearnedVector
    from seqattn.models.layers import Linear as Linear
    from seqattn.models.registration import register_cell as register_cell
    from seqattn.models.registration import register_location as register_location
    from seqattn.models.registration import register_model as register_model
    from seqattn.models.registration import register_normalizer as register_normalizer
    from seqattn.models.registration import register_score as register_score

    __version__: str

_ADDRESSES = {
    "AttentionMap": "seqattn.models.AttentionMap",
    "Cell": "seqattn.models.cells.Cell",
    "CellConfig": "seqattn.config.CellConfig",
    "Comparison": "seqattn.experiments.api.Comparison",
    "DataNote": "seqattn.experiments.api.DataNote",
    "LabelledArray": "seqattn.experiments.api.LabelledArray",
    "LearnedVector": "seqattn.models.layers.LearnedVector",
    "Linear": "seqattn.models.layers.Linear",
    "Location": "seqattn.models.attention.Location",
    "LocationConfig": "seqattn.config.LocationConfig",
    "ModelConfig": "seqattn.config.ModelConfig",
    "ModelOutput": "seqattn.models.ModelOutput",
    "Normalizer": "seqattn.models.attention.Normalizer",
    "NormalizerConfig": "seqattn.config.NormalizerConfig",
    "NormalizerOutput": "seqattn.models.attention.normalizers.NormalizerOutput",
    "Run": "seqattn.experiments.api.Run",
    "Score": "seqattn.models.attention.Score",
    "ScoreConfig": "seqattn.config.ScoreConfig",
    "Seeds": "seqattn.experiments.api.Seeds",
    "Seq2SeqModel": "seqattn.models.Seq2SeqModel",
    "Sequences": "seqattn.data.Sequences",
    "TaskConfig": "seqattn.config.Generated",
    "axis_of_features": "seqattn.models.cells.axis_of_features",
    "compare": "seqattn.experiments.api.compare",
    "last_valid": "seqattn.models.cells.last_valid",
    "load": "seqattn.experiments.api.load",
    "load_plugin": "seqattn.config.load_plugin",
    "mask_scores": "seqattn.models.attention.normalizers.mask_scores",
    "recurrent_term": "seqattn.models.cells.recurrent_term",
    "register_cell": "seqattn.models.registration.register_cell",
    "register_check": "seqattn.analysis.doctor.register_check",
    "register_location": "seqattn.models.registration.register_location",
    "register_metric": "seqattn.analysis.evaluation.register_metric",
    "register_model": "seqattn.models.registration.register_model",
    "register_normalizer": "seqattn.models.registration.register_normalizer",
    "register_score": "seqattn.models.registration.register_score",
    "register_task": "seqattn.data.register_task",
    "train": "seqattn.experiments.api.train",
    "train_seeds": "seqattn.experiments.api.train_seeds",
    "valid_lengths": "seqattn.models.attention.location_based.valid_lengths",
}
"""The module and the name of each public object."""

__all__ = [
    "AttentionMap", "Cell", "CellConfig", "Comparison", "DataNote", "LabelledArray",
    "LearnedVector", "Linear", "Location", "LocationConfig", "ModelConfig", "ModelOutput",
    "Normalizer", "NormalizerConfig", "NormalizerOutput", "Run", "Score", "ScoreConfig", "Seeds",
    "Seq2SeqModel", "Sequences", "TaskConfig", "__version__", "axis_of_features", "compare",
    "last_valid", "load", "load_plugin", "mask_scores", "recurrent_term", "register_cell",
    "register_check", "register_location", "register_metric", "register_model",
    "register_normalizer", "register_score", "register_task", "train", "train_seeds",
    "valid_lengths",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name of the Python API only when it is used, so that `import seqattn` does not
    import torch."""
    if name in _ADDRESSES:
        module, _, attribute = _ADDRESSES[name].rpartition(".")
        return getattr(import_module(module), attribute)
    if name != "__version__":
        raise AttributeError(f"module 'seqattn' has no attribute {name!r}")
    from importlib.metadata import version

    return version("seqattn")
