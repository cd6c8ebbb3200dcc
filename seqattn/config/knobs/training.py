"""How it learns."""

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
    """What every schedule of teacher forcing shares."""

    coin: Literal["step", "sequence", "element"] = "step"
    """What one toss decides: a `step` of the whole batch, a whole `sequence`, or one step of one
    sequence (`element`). Heads: the decoder is fed the true previous point; tails: its own."""


class ConstantForcing(TeacherForcingKnobs):
    """The same probability in every epoch."""

    schedule: Literal["constant"] = "constant"
    """How the probability changes from epoch to epoch."""
    probability: Probability = 0.5
    """Chance of heads: 1 always feeds the truth, 0 never does."""


class LinearForcing(TeacherForcingKnobs):
    """From `start` in the first epoch to `end` in the last (Bengio et al. 2015)."""

    model_config = require_key("schedule")
    schedule: Literal["linear"] = "linear"
    """How the probability changes from epoch to epoch."""
    start: Probability = 1.0
    """Chance of heads in the first epoch."""
    end: Probability = 0.0
    """Chance of heads from the last epoch of `over_epochs` on."""
    over_epochs: Count | None = None
    """Epochs the way from start to end takes; null means all of training.epochs."""


class ExponentialForcing(TeacherForcingKnobs):
    """decay ** epoch, counted from 0 (Bengio et al. 2015)."""

    model_config = require_key("schedule")
    schedule: Literal["exponential"] = "exponential"
    """How the probability changes from epoch to epoch."""
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """What the probability is multiplied with after each epoch; the first epoch has 1."""


class InverseSigmoidForcing(TeacherForcingKnobs):
    """k / (k + exp(epoch / k)), counted from 0 (Bengio et al. 2015)."""

    model_config = require_key("schedule")
    schedule: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    """How the probability changes from epoch to epoch."""
    k: Annotated[float, Field(ge=1, le=1e6)] = 12.0
    """Speed: half of the way down is at epoch k log k."""


TeacherForcing = Annotated[
    Annotated[ConstantForcing, Tag("constant")]
    | Annotated[LinearForcing, Tag("linear")]
    | Annotated[ExponentialForcing, Tag("exponential")]
    | Annotated[InverseSigmoidForcing, Tag("inverse_sigmoid")],
    discriminator("schedule", "constant"),
]


class ConstantRate(Section):
    """The learning rate stays."""

    kind: Literal["none"] = "none"
    """How the learning rate changes from epoch to epoch."""


class CosineRate(Section):
    """Half a cosine from learning_rate in the first epoch towards `minimum`, which it reaches after
    the last, as torch's CosineAnnealingLR does (Loshchilov and Hutter 2017, without restarts)."""

    model_config = require_key("kind")
    kind: Literal["cosine"] = "cosine"
    """How the learning rate changes from epoch to epoch."""
    minimum: Annotated[float, Field(ge=0, le=100)] = 0.0
    """The learning rate of every epoch after `over_epochs`: at 0 they change no weight."""
    over_epochs: Count | None = None
    """Epochs the way down takes; null means all of training.epochs."""


class StepRate(Section):
    """learning_rate times `factor` after every `every` epochs."""

    model_config = require_key("kind")
    kind: Literal["step"] = "step"
    """How the learning rate changes from epoch to epoch."""
    every: Count = 30
    """Epochs between two changes."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """What the learning rate is multiplied with."""


class PlateauRate(Section):
    """learning_rate times `factor` whenever the validation loss stops improving."""

    model_config = require_key("kind")
    kind: Literal["plateau"] = "plateau"
    """How the learning rate changes from epoch to epoch."""
    patience: Count = 10
    """Epochs without a new lowest validation loss before a change."""
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
    """Stop when the validation loss no longer improves."""

    patience: Count = 20
    """Epochs without an improvement before training stops."""
    min_delta: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """How much lower the loss must be to count as an improvement."""


class Training(Section):
    """How the model learns."""

    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Times through the training sequences."""
    batch_size: Count = 16
    """Sequences in a step; the last step of an epoch takes what is left."""
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
    """Longest gradient over all parameters; a longer one is shortened to it. null: never."""
    teacher_forcing: TeacherForcing = ConstantForcing()
    """How often the decoder is fed the true previous point instead of its own."""
    early_stopping: EarlyStopping | None = None
    """Stop before the last epoch when the validation loss no longer improves; null: never."""
    compile: Literal["off", "auto", "on"] = "off"
    """Compile one step of the model with torch.compile: `on` from the start, `auto` once the
    training that is left was measured to be longer than a compile, and only if it is faster then.
    Compiled steps round otherwise, and `auto` goes by the clock: `off` repeats bit for bit."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """The type of the matrix products of a training step. bfloat16 (by torch's autocast) leaves
    all else in float32, validation too; it is meant for wide models on a GPU, and leaves no pass
    derived by hand."""
    checkpoint_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Seconds between two saves of the training's state; 0 saves after every step. The end, and
    a stop by signal, always save."""
    record_attention: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Every how many epochs to record where the model looks in a few validation sequences: the film
    in reports and of `plot-attention --epochs`. null: never. Changes nothing that is learned."""

    @model_validator(mode="after")
    def _cosine_goes_down(self) -> Self:
        schedule = self.learning_rate_schedule
        if isinstance(schedule, CosineRate) and schedule.minimum > self.learning_rate:
            raise contradiction(
                "learning_rate_schedule",
                f"has minimum {schedule.minimum:g}, above learning_rate {self.learning_rate:g}",
            )
        return self

    @model_validator(mode="after")
    def _momentum_is_for_sgd(self) -> Self:
        if self.momentum > 0 and self.optimizer != "sgd":
            raise contradiction(
                "momentum", f"needs optimizer: sgd; {self.optimizer} has moments of its own"
            )
        return self
