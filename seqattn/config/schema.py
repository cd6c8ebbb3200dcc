"""All keys of a config, with their defaults, bounds and descriptions.

The pydantic models are frozen and strict: a string is not a number, `true` is not 1, and an unknown
key is an error. A section with variants is a union that is discriminated by one key, such as
`kind`, so each variant accepts only its own keys.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from seqattn.config.data import (
    Copy,
    Data,
    Dates,
    Drawn,
    FromFiles,
    Generated,
    Grammar,
    Lag,
    Numbers,
    OwnFile,
    Paths,
    Polygons,
    Recall,
    Reverse,
    Sort,
    Split,
    Squares,
    Text,
    TextSide,
    Window,
)
from seqattn.config.model import (
    AdditiveAttention,
    Attention,
    CellConfig,
    CosineAttention,
    CoverageAttention,
    DotAttention,
    EmbeddingConfig,
    FastWeights,
    GaussianWindow,
    GeneralAttention,
    LinearAttention,
    Location,
    LocationConfig,
    LocationShift,
    Model,
    ModelConfig,
    Monotonic,
    NormalizerConfig,
    Recurrent,
    ScaledDotAttention,
    ScoreConfig,
    Transformer,
    UniformAttention,
)
from seqattn.config.section import (
    NAME_PATTERN,
    FileName,
    Section,
    VariantName,
    contradiction,
    name_of,
)
from seqattn.config.training import (
    ConstantForcing,
    ConstantRate,
    CosineRate,
    EarlyStopping,
    ExponentialForcing,
    InverseSigmoidForcing,
    LearningRateSchedule,
    LinearForcing,
    Monitor,
    PlateauRate,
    StepRate,
    TeacherForcing,
    TeacherForcingConfig,
    Training,
)


class Plugin(Section):
    """A file or a module that registers additional mechanisms."""

    path: FileName | None = None
    """Path of a Python file, relative to the folder of the config."""
    module: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """Name of an importable module, instead of `path`."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 digest of the source file."""

    @property
    def short_name(self) -> str:
        """The module, or the name of the file without its folder."""
        return self.module or PurePath(str(self.path)).name

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.path is None) == (self.module is None):
            raise contradiction("path", "or module is required, but not both")
        return self

    @model_serializer
    def _without_nulls(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value is not None}


def is_file_name(text: str) -> bool:
    """Return whether the name of a plugin is the path of a file instead of the name of a module."""
    return text.endswith(".py") or "/" in text or "\\" in text


def expand_plugin(given: Any) -> Any:
    """Convert the name of a plugin to a mapping with the key `path` or `module`. Return any other
    value unchanged."""
    if isinstance(given, str):
        return {"path" if is_file_name(given) else "module": given}
    return given


Plugins = Annotated[list[Annotated[Plugin, BeforeValidator(expand_plugin)]], Field(max_length=100)]
"""A list of plugins. The text `my.py` is short for `{path: my.py}`, and the text `my.module` is
short for `{module: my.module}`."""


class Logging(Section):
    """Logs in addition to `metrics.csv`, which every run writes."""

    tensorboard: bool = False
    """Whether scalars, pictures and hyperparameters for TensorBoard are written to the folder
    `tensorboard` of the run. TensorBoard requires the extra `seqattn[tensorboard]`."""
    mlflow: bool = False
    """Whether the config, the epochs, the results and the pictures are written to an MLflow
    tracking store. MLflow requires the extra `seqattn[mlflow]`."""
    mlflow_uri: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """Address of the MLflow tracking store, such as `http://127.0.0.1:5000`. With `null`, the
    store is the file `mlflow.db` in the folder of all outputs, and nothing is sent."""
    wandb: bool = False
    """Whether the config, the epochs, the results and the pictures are recorded for Weights &
    Biases. This key requires the extra `seqattn[wandb]`."""
    wandb_mode: Literal["offline", "online"] = "offline"
    """Whether Weights & Biases only writes files to the folder `wandb` of the run (`offline`), or
    also sends the record to its server (`online`)."""
    wandb_project: Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)] = "seqattn"
    """Project of Weights & Biases."""


class Config(Section):
    """The config of one run."""

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)] = "squares"
    """Name of the run folder; by default, the kind of the data set. The name consists of letters,
    digits, '.', '_' and '-', and does not start with '.' or '-'."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 23
    """Seed of initial weights, batch order, teacher forcing, dropout and hard attention. The data
    have their own seeds."""
    data: Data = Squares()
    """The data set."""
    model: Model = Recurrent()
    """The model."""
    training: Training = Training()
    """The settings of training."""
    logging: Logging = Logging()
    """Additional logs."""
    plugins: Plugins = Field(default_factory=list)
    """Python files and modules with your own mechanisms, such as `[my_attention.py]`, which seqattn
    imports. The paths of files are relative to the folder of the config."""

    @model_validator(mode="before")
    @classmethod
    def _name_after_data(cls, given: Any) -> Any:
        """Add the kind of the data set as the name, if the config gives no name."""
        match given:
            case {"data": {"kind": str(kind)}} if "name" not in given:
                return {**given, "name": kind}
        return given

    @model_validator(mode="before")
    @classmethod
    def _fill_in_forcing(cls, given: Any) -> Any:
        """Add the probability of teacher forcing of a Transformer, which has no choice, if the
        config gives none."""
        match given:
            case {"model": {"kind": "transformer"}, "training": dict(training)}:
                pass
            case {"model": {"kind": "transformer"}} if "training" not in given:
                training = {}
            case _:
                return given
        forcing = training.get("teacher_forcing", {})
        is_constant = (
            isinstance(forcing, dict) and forcing.get("schedule", "constant") == "constant"
        )
        if not is_constant or "probability" in forcing:
            return given
        forcing = {**forcing, "probability": 1.0}
        return {**given, "training": {**training, "teacher_forcing": forcing}}

    @model_validator(mode="after")
    def _check_training_of_model(self) -> Self:
        attention = self.model.attention if isinstance(self.model, Recurrent) else None
        if self.training.coverage_loss > 0 and not isinstance(attention, CoverageAttention):
            raise contradiction(
                "training",
                f"has coverage_loss: {self.training.coverage_loss:g}, but only attention with"
                " score: coverage sums its past weights. Set training.coverage_loss=0, or"
                " model.attention.score=coverage",
            )
        if self.training.compile != "off" and not isinstance(self.model, Recurrent):
            raise contradiction(
                "training",
                f"has compile: {self.training.compile}, which compiles the step of a recurrent"
                f" cell; model.kind {self.model.kind} has none. Set training.compile=off",
            )
        return self

    @model_validator(mode="after")
    def _check_transformer_forcing(self) -> Self:
        forcing = self.training.teacher_forcing
        always = isinstance(forcing, ConstantForcing) and forcing.probability == 1
        if isinstance(self.model, Transformer) and not always:
            value = (f"probability: {forcing.probability:g}"
                     if isinstance(forcing, ConstantForcing)
                     else f"schedule: {forcing.schedule}")  # fmt: skip
            raise contradiction(
                "training",
                f"has teacher_forcing with {value}, but a transformer is trained on all target"
                " steps at once, with the true previous steps as input. Set"
                " training.teacher_forcing.probability=1 (schedule: constant)",
            )
        return self


ComparedMeasure = Literal[
    "loss", "sequence_error_rate", "symbol_error_rate", "alignment_error_rate"
]

LOSS: list[ComparedMeasure] = ["loss"]


class Compare(Section):
    """A comparison of several variants of the config, for `seqattn compare`."""

    seeds: Annotated[int, Field(ge=2, le=100_000)] = 16
    """Number of seeds of each variant, starting with the seed of the config. With fewer than 6
    seeds, the test cannot show a difference."""
    vary: dict[str, list[Any]] = Field(default_factory=dict)
    """Lists of values by dotted key. Every combination of values is a variant."""
    variants: dict[VariantName, dict[str, Any]] = Field(default_factory=dict)
    """Variants by name, with their values by dotted key. Named variants replace `vary`."""

    along: dict[str, list[float | int]] = Field(default_factory=dict)
    """A dotted key with a list of numbers. Every variant is trained with each number, and compared
    with the other variants at the same number. The picture along.png plots the losses against the
    numbers."""
    resample_data: bool = True
    """Whether each seed has its own generated data, which all variants share, so that results do
    not depend on a single data set. With `false`, all seeds use the data of `data.train_seed`,
    `data.validation_seed` and `data.test_seed`. This key has no effect on data files."""
    measures: Annotated[list[ComparedMeasure], Field(min_length=1)] = LOSS
    """The measures of the test part in which the variants are tested against each other: the test
    loss, and for symbols the share of outputs with a wrong symbol (`sequence_error_rate`), the
    `symbol_error_rate` and the `alignment_error_rate` (AER). Pictures show the first of them."""
    variance: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Number of data sets of a crossed design: every variant is trained with each combination of a
    data set and a seed. The result says how much of the variance of the measures comes from the
    data and how much from the seed, and does not test the variants against each other."""
    margin: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """A difference that does not matter, in the units of the measures. If it is set, each pair of
    variants is also tested for equality within this margin."""
    power: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """A difference that matters, in the units of the measures. If it is set, the result says how
    many seeds would show this difference with a probability of 80%."""

    @model_validator(mode="after")
    def _check_variants(self) -> Self:
        if self.vary and self.variants:
            raise contradiction("vary", "and variants cannot both be set; remove one of them")
        if len(self.along) > 1:
            raise contradiction("along", f"has {len(self.along)} keys; a picture has one axis")
        if self.variance is not None and self.along:
            raise contradiction(
                "variance", "and along cannot both be set: the axis is the data set. Remove one"
            )
        if self.variance is not None and not self.resample_data:
            raise contradiction(
                "variance",
                "needs data sets of its own, but resample_data is false (or --fixed-data is given)",
            )
        if len(set(self.measures)) < len(self.measures):
            raise contradiction("measures", "has a measure twice; remove one of them")
        return self


class ComparisonFile(Config):
    """A config file that may contain a comparison."""

    compare: Compare | None = None
    """Comparison for `seqattn compare`. `null` means that the config has no comparison."""


__all__ = [
    "NAME_PATTERN",
    "AdditiveAttention",
    "Attention",
    "CellConfig",
    "Compare",
    "ComparedMeasure",
    "ComparisonFile",
    "Config",
    "ConstantForcing",
    "ConstantRate",
    "Copy",
    "CosineAttention",
    "CosineRate",
    "CoverageAttention",
    "Data",
    "Dates",
    "DotAttention",
    "Drawn",
    "EarlyStopping",
    "EmbeddingConfig",
    "ExponentialForcing",
    "FastWeights",
    "FromFiles",
    "GaussianWindow",
    "GeneralAttention",
    "Generated",
    "Grammar",
    "InverseSigmoidForcing",
    "Lag",
    "LearningRateSchedule",
    "LinearAttention",
    "LinearForcing",
    "Location",
    "LocationConfig",
    "LocationShift",
    "Logging",
    "Model",
    "ModelConfig",
    "Monitor",
    "Monotonic",
    "NormalizerConfig",
    "Numbers",
    "OwnFile",
    "Paths",
    "PlateauRate",
    "Plugin",
    "Polygons",
    "Recall",
    "Recurrent",
    "Reverse",
    "ScaledDotAttention",
    "ScoreConfig",
    "Section",
    "Sort",
    "Split",
    "Squares",
    "StepRate",
    "TeacherForcing",
    "TeacherForcingConfig",
    "Text",
    "TextSide",
    "Training",
    "Transformer",
    "UniformAttention",
    "Window",
    "name_of",
]  # fmt: skip
