"""Keys of the training."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from seqattn.config.knobs.section import (
    Count,
    Probability,
    Section,
    contradiction,
    discriminator,
    require_key,
)


class TeacherForcingKnobs(Section):
    """Keys of all schedules of teacher forcing."""

    coin: Literal["step", "sequence", "element"] = "step"
    """What one draw decides: a `step` of the whole batch, a whole `sequence`, or one step of one
    sequence (`element`). The decoder input is the true previous step or its own forecast."""


class ConstantForcing(TeacherForcingKnobs):
    """The same probability in every epoch."""

    schedule: Literal["constant"] = "constant"
    """How the probability changes from epoch to epoch."""
    probability: Probability = 0.5
    """Probability of the true previous step as input: 1 always, 0 never."""


class LinearForcing(TeacherForcingKnobs):
    """From `start` in the first epoch to `end` in the last (Bengio et al. 2015)."""

    model_config = require_key("schedule")
    schedule: Literal["linear"] = "linear"
    """How the probability changes from epoch to epoch."""
    start: Probability = 1.0
    """Probability in the first epoch."""
    end: Probability = 0.0
    """Probability from the last epoch of `over_epochs` on."""
    over_epochs: Count | None = None
    """Number of epochs from start to end; null: all of training.epochs."""


class ExponentialForcing(TeacherForcingKnobs):
    """decay ** epoch, counted from 0 (Bengio et al. 2015)."""

    model_config = require_key("schedule")
    schedule: Literal["exponential"] = "exponential"
    """How the probability changes from epoch to epoch."""
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Factor of the probability after each epoch; the first epoch has 1."""


class InverseSigmoidForcing(TeacherForcingKnobs):
    """k / (k + exp(epoch / k)), counted from 0 (Bengio et al. 2015)."""

    model_config = require_key("schedule")
    schedule: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    """How the probability changes from epoch to epoch."""
    k: Annotated[float, Field(ge=1, le=1e6)] = 12.0
    """Speed: the probability is 1/2 at epoch k log k."""


TeacherForcing = Annotated[
    Annotated[ConstantForcing, Tag("constant")]
    | Annotated[LinearForcing, Tag("linear")]
    | Annotated[ExponentialForcing, Tag("exponential")]
    | Annotated[InverseSigmoidForcing, Tag("inverse_sigmoid")],
    discriminator("schedule", "constant"),
]


class ConstantRate(Section):
    """A constant learning rate."""

    kind: Literal["none"] = "none"
    """How the learning rate changes from epoch to epoch."""


class CosineRate(Section):
    """Half a cosine from learning_rate in the first epoch to `minimum` after the last, as in
    torch's CosineAnnealingLR (Loshchilov and Hutter 2017, without restarts)."""

    model_config = require_key("kind")
    kind: Literal["cosine"] = "cosine"
    """How the learning rate changes from epoch to epoch."""
    minimum: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Learning rate after `over_epochs`; with 0 these epochs change no weight."""
    over_epochs: Count | None = None
    """Number of epochs to `minimum`; null: all of training.epochs."""


class StepRate(Section):
    """learning_rate times `factor` after every `every` epochs."""

    model_config = require_key("kind")
    kind: Literal["step"] = "step"
    """How the learning rate changes from epoch to epoch."""
    every: Count = 30
    """Number of epochs between two changes."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """What the learning rate is multiplied with."""


class PlateauRate(Section):
    """learning_rate times `factor` when the validation loss stops improving."""

    model_config = require_key("kind")
    kind: Literal["plateau"] = "plateau"
    """How the learning rate changes from epoch to epoch."""
    patience: Count = 10
    """Number of epochs without a new lowest validation loss before a change."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """What the learning rate is multiplied with."""


LearningRateSchedule = Annotated[
    Annotated[ConstantRate, Tag("none")]
    | Annotated[CosineRate, Tag("cosine")]
    | Annotated[StepRate, Tag("step")]
    | Annotated[PlateauRate, Tag("plateau")],
    discriminator("kind", "none"),
]


class EarlyStopping(Section):
    """Early stopping by the validation loss."""

    patience: Count = 20
    """Number of epochs without improvement before training stops."""
    min_delta: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Smallest decrease of the loss that counts as an improvement."""


class Training(Section):
    """The training of the model."""

    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Number of passes over the training sequences."""
    batch_size: Count = 16
    """Number of sequences of a step; the last step of an epoch takes the rest."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) or SGD."""
    learning_rate: Annotated[float, Field(gt=0, le=100)] = 0.01
    """Learning rate of the first epoch."""
    learning_rate_schedule: LearningRateSchedule = ConstantRate()
    """How the learning rate changes from epoch to epoch."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Momentum of SGD; the other optimizers have moments of their own."""
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight decay: added to the gradient by adam and sgd, decoupled in adamw."""
    clip_norm: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Gradient clipping: largest norm of the gradient over all parameters. null: no clipping."""
    teacher_forcing: TeacherForcing = ConstantForcing()
    """How often the decoder input is the true previous step instead of its own forecast."""
    early_stopping: EarlyStopping | None = None
    """Stop training when the validation loss no longer improves; null: never."""
    compile: Literal["off", "auto", "on"] = "off"
    """Compile one step of the model with torch.compile: `on` from the start; `auto` once the rest
    of the training is measured to take longer than compiling, and only if it is then faster.
    Compiled steps round differently, and `auto` depends on time: only `off` repeats bit for bit."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Type of the matrix products of a training step. bfloat16 (torch's autocast) keeps everything
    else and validation in float32; it is meant for wide models on a GPU, and turns the manual
    backward pass off."""
    checkpoint_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Seconds between two checkpoints; 0: after every step. The end of training and signals always
    write a checkpoint."""
    record_attention: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of epochs between two records of the attention weights of a few validation sequences,
    and of the model's parameters, for reports, `plot-attention --epochs` and `predict --epoch`.
    null: none. Does not affect training."""

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        schedule = self.learning_rate_schedule
        if isinstance(schedule, CosineRate) and schedule.minimum > self.learning_rate:
            raise contradiction(
                "learning_rate_schedule",
                f"has minimum {schedule.minimum:g}, above learning_rate {self.learning_rate:g}",
            )
        return self

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.momentum > 0 and self.optimizer != "sgd":
            raise contradiction(
                "momentum", f"needs optimizer: sgd; {self.optimizer} has moments of its own"
            )
        return self
