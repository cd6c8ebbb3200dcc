"""The keys of the section `training`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seqattn.config.section import (
    Count,
    FileName,
    Probability,
    Section,
    Variants,
    contradiction,
)


class TeacherForcingConfig(Section):
    """The keys that all schedules of teacher forcing have. A random draw decides whether a decoder
    input is the true previous step or the model's own forecast of this step."""

    coin: Literal["step", "sequence", "element"] = "step"
    """What one random draw decides: one step of all sequences in the batch (`step`), all steps of
    one sequence (`sequence`), or one step of one sequence (`element`)."""


class ConstantForcing(TeacherForcingConfig):
    """A probability of teacher forcing that is the same in every epoch."""

    schedule: Literal["constant"] = "constant"
    """How the probability changes from epoch to epoch."""
    probability: Probability = 0.5
    """Probability that the input is the true previous step: 1 means always, and 0 means never. The
    default of a Transformer is 1, and it takes no other value."""


class LinearForcing(TeacherForcingConfig):
    """A probability of teacher forcing that changes linearly from `start` to `end` over
    `over_epochs` epochs (Bengio et al. 2015)."""

    schedule: Literal["linear"] = "linear"
    """How the probability changes from epoch to epoch."""
    start: Probability = 1.0
    """Probability in the first epoch."""
    end: Probability = 0.0
    """Probability in the last epoch of `over_epochs` and in all later epochs. With
    `over_epochs: 1`, the first epoch has the probability `start`, and all later epochs have the
    probability `end`."""
    over_epochs: Count | None = None
    """Number of epochs from `start` to `end`. `null` means all of `training.epochs`."""


class ExponentialForcing(TeacherForcingConfig):
    """A probability of teacher forcing that equals `decay` to the power of the epoch, with epochs
    counted from 0 (Bengio et al. 2015)."""

    schedule: Literal["exponential"] = "exponential"
    """How the probability changes from epoch to epoch."""
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Factor by which the probability is multiplied after each epoch. The probability is 1 in the
    first epoch."""


class InverseSigmoidForcing(TeacherForcingConfig):
    """A probability of teacher forcing that equals k / (k + exp(epoch / k)), with epochs counted
    from 0 (Bengio et al. 2015)."""

    schedule: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    """How the probability changes from epoch to epoch."""
    k: Annotated[float, Field(ge=1, le=1e6)] = 12.0
    """Number of epochs that sets the speed of the decrease. The probability is 1/2 at epoch k log
    k."""


TeacherForcing = Annotated[
    ConstantForcing | LinearForcing | ExponentialForcing | InverseSigmoidForcing,
    Variants("schedule", "constant"),
]


class ConstantRate(Section):
    """A constant learning rate."""

    kind: Literal["none"] = "none"
    """How the learning rate changes from epoch to epoch."""


class CosineRate(Section):
    """A learning rate that follows half a period of a cosine, from `learning_rate` in the first
    epoch to `minimum` after `over_epochs` epochs, as in torch's `CosineAnnealingLR` (Loshchilov and
    Hutter 2017, without restarts)."""

    kind: Literal["cosine"] = "cosine"
    """How the learning rate changes from epoch to epoch."""
    minimum: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Learning rate after `over_epochs` epochs. With 0, later epochs do not change the weights."""
    over_epochs: Count | None = None
    """Number of epochs until the learning rate reaches `minimum`. `null` means all of
    `training.epochs`."""


class StepRate(Section):
    """A learning rate that is multiplied by `factor` at intervals of `every` epochs."""

    kind: Literal["step"] = "step"
    """How the learning rate changes from epoch to epoch."""
    every: Count = 30
    """Number of epochs between two changes."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Factor by which the learning rate is multiplied."""


class PlateauRate(Section):
    """A learning rate that is multiplied by `factor` when the validation loss stops improving."""

    kind: Literal["plateau"] = "plateau"
    """How the learning rate changes from epoch to epoch."""
    patience: Count = 10
    """Number of epochs without a new lowest validation loss before the learning rate changes."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor by which the learning rate is multiplied."""


LearningRateSchedule = Annotated[
    ConstantRate | CosineRate | StepRate | PlateauRate, Variants("kind", "none")
]


BatchType = Literal["sequences", "tokens"]
Monitor = Literal["loss", "exact_match", "symbol_error_rate", "bleu"]


class EarlyStopping(Section):
    """Early stopping based on `training.monitor`."""

    patience: Count = 20
    """Number of epochs without improvement before training stops."""
    min_delta: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """The monitored measure counts as improved if it improves by more than this number."""


class Training(Section):
    """The settings of a training run."""

    start_from: FileName | None = None
    """Run folder or checkpoint file of another run, whose best weights are the initial weights.
    `null` means random weights. The run must have the same `model` section, features and kind of
    scaling. Its fitted scaling is kept, because its weights were trained with it. The optimizer and
    all schedules start anew. If the folder contains runs of many seeds, each seed starts from the
    run with its own seed. A resumed run does not read the other run again."""
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Number of passes over the training sequences."""
    batch_size: Count = 16
    """Number of sequences in a step, or with `batch_type: tokens`, the largest number of tokens.
    The last step of an epoch uses the remaining sequences."""
    batch_type: BatchType = "sequences"
    """What `batch_size` counts: `sequences`, or `tokens` with padding. A batch of `tokens` has as
    many sequences as fit: their number times the longest source or target among them, whichever is
    longer, is at most `batch_size`. fairseq (`--max-tokens`), OpenNMT-py and JoeyNMT (`batch_type`)
    count in the same way. It needs `batch_order: by_length`."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """The optimizer: Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) or SGD."""
    learning_rate: Annotated[float, Field(gt=0, le=100)] = 0.01
    """Learning rate of the first epoch."""
    learning_rate_schedule: LearningRateSchedule = ConstantRate()
    """How the learning rate changes from epoch to epoch."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Momentum of SGD. The other optimizers use their own moments."""
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight decay. `adam` and `sgd` add the decay to the gradient; `adamw` decouples the decay
    from the gradient."""
    clip_norm: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Gradient clipping: the largest norm of the gradient over all parameters. `null` means no
    clipping."""
    teacher_forcing: TeacherForcing = ConstantForcing()
    """How often the decoder input is the true previous step instead of the model's own forecast."""
    monitor: Monitor = "loss"
    """Measure of the validation part that selects the best epoch, stops training early and lowers
    the learning rate at a plateau. `exact_match` (the share of outputs that are right in every
    symbol) and `symbol_error_rate` are measured in free running, and exist for symbols only. `bleu`
    is the BLEU of `evaluate`, for words and subwords, and needs sacrebleu (extra `text`)."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the probability that the target distribution of a symbol gives to all symbols alike
    (Szegedy et al. 2016). It changes the training loss of symbols only."""
    coverage_loss: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Factor of the coverage loss in the training loss, for `score: coverage`. The coverage loss of
    a target step is the sum, over the source steps, of the smaller one of weight and coverage (See
    et al. 2017, eq. 12 and 13). It is large if source steps are read again."""
    feedback: Literal["argmax", "sampled"] = "argmax"
    """Which symbol the decoder reads in training where it does not read the true one: the most
    probable symbol (`argmax`), or one drawn from the probabilities (`sampled`; Bengio et al. 2015).
    Vectors are read as they are."""
    batch_order: Literal["shuffled", "by_length"] = "shuffled"
    """How an epoch groups the sequences into batches. `shuffled` takes them in a random order.
    `by_length` sorts the shuffled sequences by the lengths of source and target and visits the
    batches in a random order, so that a batch has little padding; if `batch_type: sequences` leaves
    a smaller batch, it has the longest sequences and comes last."""
    early_stopping: EarlyStopping | None = None
    """Early stopping based on `monitor`. `null` means that training never stops early."""
    compile: Literal["off", "auto", "on"] = "off"
    """Whether torch.compile compiles one step of the model. With `on`, the step is compiled at the
    start. With `auto`, seqattn measures the time of the steps, compiles the step if the rest of the
    training run would take longer than the compilation, and keeps the compiled step only if it is
    faster; a model with the manual backward pass is not compiled. `on` disables the manual backward
    pass. In a group of runs, torch may leave some shapes uncompiled, with a warning. Compiled steps
    round differently, and `auto` depends on measured times, so only a training run with `off` can
    be repeated bit for bit."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Data type of the matrix products of a training step. With `bfloat16` (torch's autocast), all
    other operations and the validation still use float32. `bfloat16` is meant for wide models on a
    GPU, and disables the manual backward pass."""
    cuda_graphs: bool = True
    """Whether training on a GPU captures the kernels of a step and of a validation chunk as a CUDA
    graph, and replays this graph for each batch of the same shape. Small models are several times
    as fast with graphs. A step that draws random numbers or waits for the GPU is computed without a
    graph, and `train.log` gives the reason. Models with a
    part of a plugin are trained without graphs. The key has no effect on the CPU, and none if
    `compile` is not `off`."""
    checkpoint_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Seconds between two checkpoints. With 0, every step is followed by a checkpoint. Training
    also writes a checkpoint when it ends, and when a signal stops it."""
    record_attention: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of epochs between two records. A record contains the attention weights of a few
    validation sequences and the parameters of the model, for reports, `plot-attention --epochs` and
    `predict --epoch`. `null` means no records. Records do not affect the results of training."""

    def sequences_per_batch(self, longest: int) -> int:
        """Return the number of sequences in a batch of sequences of the length `longest`, the
        largest length of a source or target. Batches of shorter sequences may have more of them."""
        return self.batch_size if self.batch_type == "sequences" else self.batch_size // longest

    def keys_spanning_all_epochs(self) -> list[str]:
        """Return the keys of the schedules that depend on `epochs`."""
        forcing, rate = self.teacher_forcing, self.learning_rate_schedule
        found = []
        if isinstance(forcing, LinearForcing) and forcing.over_epochs is None:
            found.append("training.teacher_forcing")
        if isinstance(rate, CosineRate) and rate.over_epochs is None:
            found.append("training.learning_rate_schedule")
        return found

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        schedule = self.learning_rate_schedule
        if isinstance(schedule, CosineRate) and schedule.minimum > self.learning_rate:
            raise contradiction(
                "learning_rate_schedule",
                f"has minimum {schedule.minimum}, above learning_rate {self.learning_rate}",
            )
        return self

    @model_validator(mode="after")
    def _check_batch_type(self) -> Self:
        if self.batch_type == "tokens" and self.batch_order != "by_length":
            raise contradiction(
                "batch_type", "tokens needs batch_order: by_length, which limits padding"
            )
        return self

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.momentum > 0 and self.optimizer != "sgd":
            raise contradiction(
                "momentum", f"needs optimizer: sgd; {self.optimizer} has moments of its own"
            )
        return self
