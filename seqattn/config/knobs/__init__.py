"""Every knob: its name, default, bounds and sentence, stated once.

The models are frozen and strict: a text is not a number, `true` is not 1, an unknown key
is an error. A section that comes in variants is a union told apart by one key (`score`,
`schedule`, `kind`), so that no variant can be given another's knob.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from seqattn.config.knobs.data import (
    Copy,
    Data,
    Generated,
    Lag,
    OwnFile,
    Paths,
    Polygons,
    Recall,
    Reverse,
    Sort,
    Split,
    Squares,
    Window,
)
from seqattn.config.knobs.model import (
    AdditiveAttention,
    Attention,
    AttentionKnobs,
    CosineAttention,
    DotAttention,
    FastWeights,
    GeneralAttention,
    LocalWindow,
    Location,
    LocationShift,
    Model,
    Recurrent,
    ScaledDotAttention,
    Transformer,
    UniformAttention,
)
from seqattn.config.knobs.section import NAME_PATTERN, Section, VariantName, contradiction
from seqattn.config.knobs.training import (
    ConstantForcing,
    ConstantRate,
    CosineRate,
    EarlyStopping,
    ExponentialForcing,
    InverseSigmoidForcing,
    LearningRateSchedule,
    LinearForcing,
    PlateauRate,
    StepRate,
    TeacherForcing,
    TeacherForcingKnobs,
    Training,
)


class Logging(Section):
    """What is written beside metrics.csv, which is always there."""

    tensorboard: bool = False
    """Write scalars, pictures and hyperparameters for TensorBoard, too, into the run folder's
    `tensorboard`. Needs the extra seqattn[tensorboard]."""


class Config(Section):
    """One training, wholly described."""

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)] = "squares"
    """The run folder's name: letters, digits, '.', '_' and '-', not starting with '.' or '-'."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 23
    """Seed of the initial weights, the batch order and the coins; the data have their own."""
    data: Data = Squares()
    """What to learn from."""
    model: Model = Recurrent()
    """What learns."""
    training: Training = Training()
    """How it learns."""
    logging: Logging = Logging()
    """Who else is told."""

    @model_validator(mode="after")
    def _steps_to_compile(self) -> Self:
        if self.training.compile != "off" and not isinstance(self.model, Recurrent):
            raise contradiction(
                "training",
                f"has compile: {self.training.compile}, which compiles the step of a recurrent"
                f" cell; model.kind {self.model.kind} has none. Set training.compile=off",
            )
        return self

    @model_validator(mode="after")
    def _all_at_once_needs_the_truth(self) -> Self:
        forcing = self.training.teacher_forcing
        always = isinstance(forcing, ConstantForcing) and forcing.probability == 1
        if isinstance(self.model, Transformer) and not always:
            said = (f"probability: {forcing.probability:g}" if isinstance(forcing, ConstantForcing)
                    else f"schedule: {forcing.schedule}")  # fmt: skip
            raise contradiction(
                "training",
                f"has teacher_forcing with {said}, but a transformer learns all steps of a target"
                " at once, from the true ones before them; a word of its own comes too late. Set"
                " training.teacher_forcing.probability=1 (schedule: constant)",
            )
        return self


class Compare(Section):
    """Many seeds of each of several variants of the config, for `seqattn compare`."""

    seeds: Annotated[int, Field(ge=2, le=100_000)] = 16
    """Seeds of each variant, from the config's seed on. Fewer than 6 can show no difference."""
    vary: dict[str, list[Any]] = Field(default_factory=dict)
    """Dotted key -> list of values; every combination of them is a variant."""
    variants: dict[VariantName, dict[str, Any]] = Field(default_factory=dict)
    """Name -> dotted keys and values of its own; instead of `vary`."""

    along: dict[str, list[float | int]] = Field(default_factory=dict)
    """One dotted key -> numbers: every variant is trained with each of them, compared with the
    others at the same number, and drawn over it in along.png."""
    resample_data: bool = True
    """Draw new generated data for each seed, the same for all variants, so that what is found holds
    for more than one training set and test set. false: the same data for all seeds, from
    data.train_seed, validation_seed and test_seed. Your own files are the same either way."""

    @model_validator(mode="after")
    def _one_way_of_saying_it(self) -> Self:
        if self.vary and self.variants:
            raise contradiction("vary", "and variants cannot both be meant; give one of them")
        if len(self.along) > 1:
            raise contradiction("along", f"has {len(self.along)} keys; a picture has one axis")
        return self


class ComparisonFile(Config):
    """A config file that may hold a comparison as well."""

    compare: Compare | None = None
    """What `seqattn compare` compares; null describes a single training."""


__all__ = [
    "NAME_PATTERN", "AdditiveAttention", "Attention", "AttentionKnobs", "Compare",
    "ComparisonFile", "Config", "ConstantForcing", "ConstantRate", "Copy", "CosineAttention",
    "CosineRate", "Data", "DotAttention", "EarlyStopping", "ExponentialForcing", "FastWeights",
    "GeneralAttention", "Generated", "InverseSigmoidForcing", "Lag", "LearningRateSchedule",
    "LinearForcing", "LocalWindow", "Location", "LocationShift", "Model", "OwnFile", "Paths",
    "PlateauRate", "Polygons", "Recall", "Recurrent", "Reverse", "ScaledDotAttention", "Section",
    "Sort", "Split", "Squares", "StepRate", "TeacherForcing", "TeacherForcingKnobs", "Training",
    "Transformer", "UniformAttention", "Window"
]  # fmt: skip
