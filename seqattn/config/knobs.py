"""Every knob: its name, default, bounds and sentence, stated once.

The models are frozen and strict: a text is not a number, `true` is not 1, an unknown key
is an error. A section that comes in variants is a union told apart by one key (`score`,
`schedule`, `kind`), so that no variant can be given another's knob.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A mapping of the YAML file."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),  # older versions of pydantic keep model_... for themselves
    )


def contradiction(key: str, message: str) -> PydanticCustomError:
    """A rule between two keys that is broken; `key` says which line to point at."""
    return PydanticCustomError("contradiction", "{message}", {"key": key, "message": message})


def told_apart_by(key: str, default: str) -> Discriminator:
    """Pick a union's variant by `key`, or `default` where the file leaves it out."""

    def tag(value: Any) -> str | None:
        if isinstance(value, dict):
            return str(value.get(key, default))
        return str(getattr(value, key)) if isinstance(value, Section) else None

    return Discriminator(tag)


def must_say(key: str) -> ConfigDict:
    """JSON Schema of a variant that is not the default: the key that picks it is required."""
    return ConfigDict(json_schema_extra={"required": [key]})


Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Width = Annotated[int, Field(ge=1, le=8192)]
Probability = Annotated[float, Field(ge=0, le=1)]
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
VariantName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)]


# --- data -------------------------------------------------------------------------------------


class Squares(Section):
    """Noisy squares: the first corners of a square are given, the others are to be said."""

    kind: Literal["squares"] = "squares"
    """What the sequences are."""
    n_train: Count = 256
    """Training sequences."""
    n_validation: Count = 128
    """Validation sequences: they choose the best epoch and never train."""
    n_test: Count = 128
    """Test sequences: touched once, after training."""
    train_seed: Seed = 13
    """Seed of the training sequences."""
    validation_seed: Seed = 17
    """Seed of the validation sequences; differs from the other two, so no point is shared."""
    test_seed: Seed = 19
    """Seed of the test sequences; differs from the other two, so no point is shared."""
    noise: Annotated[float, Field(ge=0, le=10)] = 0.1
    """Standard deviation of the normal noise on every coordinate (corners are at -1 and 1)."""
    source_length: Annotated[int, Field(ge=1, le=3)] = 2
    """Corners given; what remains of the four is the target."""
    variable_length: bool = False
    """Squares of 2, 3 or 4 corners; each keeps at least one corner of source and of target."""

    @model_validator(mode="after")
    def _parts_share_no_seed(self) -> Self:
        seeds: dict[int, str] = {}
        for part in ("train", "validation", "test"):
            seed = getattr(self, f"{part}_seed")
            if seed in seeds:
                raise contradiction(
                    f"{part}_seed",
                    f"is {seed}, and so is data.{seeds[seed]}_seed: the two parts would be the"
                    " same points. Give each part a seed of its own",
                )
            seeds[seed] = part
        return self


# --- model ------------------------------------------------------------------------------------


class LocationShift(Section):
    """Where it looked last, moved by a learned step (Graves, Wayne and Danihelka 2014)."""

    kind: Literal["location_shift"] = "location_shift"
    """How places, besides contents, decide."""
    shift_range: Annotated[int, Field(ge=1, le=63)] = 3
    """How many relative steps there are to choose from, with 0 in their middle: 3 is -1, 0, 1."""

    @model_validator(mode="after")
    def _zero_in_the_middle(self) -> Self:
        n = self.shift_range
        if n % 2 == 0:
            raise contradiction(
                "shift_range",
                f"is {n}, an even number: steps back, steps forward and 0 make an odd one."
                f" Choose {n - 1} or {n + 1}",
            )
        return self


class LocalWindow(Section):
    """A Gaussian window around a place that the query predicts (Luong et al. 2015, local-p)."""

    model_config = must_say("kind")
    kind: Literal["local"] = "local"
    """How places, besides contents, decide."""
    window: Annotated[int, Field(ge=1, le=100_000)] = 2
    """D: source points further than this from the predicted place get no weight; the Gaussian's
    standard deviation is D / 2."""


Location = Annotated[
    Annotated[LocationShift, Tag("location_shift")] | Annotated[LocalWindow, Tag("local")],
    told_apart_by("kind", "location_shift"),
]


class AttentionKnobs(Section):
    """What every score shares."""

    normalizer: Literal["softmax", "sparsemax", "hard"] = "softmax"
    """How scores become weights: `softmax`; `sparsemax`, which can give exact zeros (Martins and
    Astudillo 2016); `hard`, one source point a step (Xu et al. 2015)."""
    estimator: Literal["straight_through", "reinforce"] | None = None
    """How `hard` learns though a choice has no slope: by the slope of the soft weights (Bengio et
    al. 2013), or by reinforcing choices that turned out well (Williams 1992)."""
    heads: Annotated[int, Field(ge=1, le=256)] = 1
    """Attention heads, each on its own share of the width."""
    location: Location | None = None
    """Let places, and not only contents, decide where to look; null: contents alone."""
    project_values: bool = False
    """Average a learned affine map of the encoder states instead of the states themselves."""

    @model_validator(mode="after")
    def _choices_need_an_estimator(self) -> Self:
        if self.normalizer == "hard" and self.estimator is None:
            raise contradiction(
                "normalizer", "is hard, which needs estimator: straight_through or reinforce"
            )
        if self.normalizer != "hard" and self.estimator is not None:
            raise contradiction(
                "estimator",
                f"is {self.estimator}, but normalizer: {self.normalizer} has slopes of its own."
                " Remove it, or set normalizer: hard",
            )
        if self.normalizer == "hard" and self.location is not None:
            raise contradiction(
                "location",
                f"is {self.location.kind}, which spreads weights that normalizer: hard puts on one"
                " point. Choose softmax or sparsemax, or location: null",
            )
        return self


class UniformAttention(AttentionKnobs):
    """No score: every source point weighs the same (what attention must beat)."""

    model_config = must_say("score")
    score: Literal["uniform"] = "uniform"
    """How well a key suits a query."""

    @model_validator(mode="after")
    def _nothing_to_choose_by(self) -> Self:
        if self.normalizer == "hard":
            raise contradiction(
                "normalizer",
                "is hard, but score: uniform has nothing to choose by. Choose another score",
            )
        return self


class DotAttention(AttentionKnobs):
    """query . key (Luong et al. 2015)."""

    model_config = must_say("score")
    score: Literal["dot"] = "dot"
    """How well a key suits a query."""


class ScaledDotAttention(AttentionKnobs):
    """query . key / sqrt(K) (Vaswani et al. 2017)."""

    score: Literal["scaled_dot"] = "scaled_dot"
    """How well a key suits a query."""
    project_query_key: bool = True
    """Compare learned affine maps of query and key instead of the states themselves."""
    key_dim: Width | None = None
    """K, the width in which queries meet keys; null means hidden_dim."""

    @model_validator(mode="after")
    def _width_needs_projections(self) -> Self:
        if self.key_dim is not None and not self.project_query_key:
            raise contradiction(
                "key_dim", "needs project_query_key: true; without it K is hidden_dim"
            )
        return self


class GeneralAttention(AttentionKnobs):
    """query . W key (Luong et al. 2015)."""

    model_config = must_say("score")
    score: Literal["general"] = "general"
    """How well a key suits a query."""


class AdditiveAttention(AttentionKnobs):
    """v . tanh(W query + U key) (Bahdanau et al. 2015)."""

    model_config = must_say("score")
    score: Literal["additive"] = "additive"
    """How well a key suits a query."""
    key_dim: Width | None = None
    """K, the width in which queries meet keys; null means hidden_dim."""


class CosineAttention(AttentionKnobs):
    """cos(query, key) / temperature, with a learned temperature (Graves et al. 2014, eq. 5, 6)."""

    model_config = must_say("score")
    score: Literal["cosine"] = "cosine"
    """How well a key suits a query."""
    project_query_key: bool = True
    """Compare learned affine maps of query and key instead of the states themselves."""
    temperature: Annotated[float, Field(ge=1e-3, le=1e3)] = 0.2
    """Temperature at the start: scores lie within plus and minus 1 / temperature."""


Attention = Annotated[
    Annotated[UniformAttention, Tag("uniform")]
    | Annotated[DotAttention, Tag("dot")]
    | Annotated[ScaledDotAttention, Tag("scaled_dot")]
    | Annotated[GeneralAttention, Tag("general")]
    | Annotated[AdditiveAttention, Tag("additive")]
    | Annotated[CosineAttention, Tag("cosine")],
    told_apart_by("score", "scaled_dot"),
]


class Recurrent(Section):
    """A recurrent encoder-decoder, with attention or (attention: null) without."""

    kind: Literal["recurrent"] = "recurrent"
    """The family of models."""
    cell: Literal["gru", "lstm", "rnn"] = "gru"
    """The recurrent cell of encoder and decoder: GRU (Cho et al. 2014), LSTM (Hochreiter and
    Schmidhuber 1997) or the plain tanh network (Elman 1990)."""
    hidden_dim: Width = 16
    """H, the width of the recurrent state."""
    layers: Annotated[int, Field(ge=1, le=32)] = 1
    """Recurrent layers of encoder and decoder, each."""
    bidirectional: bool = False
    """Read the source from both ends; learned maps bring both readings back to hidden_dim."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Chance of dropping a number between layers and on what makes the point, in training."""
    input_feeding: bool = False
    """Feed the attentional vector, made of context and state, into the next step (Luong et al.
    2015)."""
    context: Literal["output", "input"] = "output"
    """Where the context goes: `output` attends with the new decoder state, and both make the
    output; `input` attends with the previous state, and the context joins the decoder's input."""
    attention: Attention | None = ScaledDotAttention()
    """How the decoder looks at the source; null is the plain encoder-decoder."""

    @model_validator(mode="after")
    def _context_needs_attention(self) -> Self:
        if self.attention is None and self.context == "input":
            raise contradiction(
                "context",
                "is input, but with attention: null there is no context. Remove it, or set"
                " model.context=output as well",
            )
        return self

    @model_validator(mode="after")
    def _feeding_needs_a_context(self) -> Self:
        if self.input_feeding and self.attention is None:
            raise contradiction(
                "input_feeding",
                "is true, but with attention: null there is no attentional vector. Set it to false",
            )
        if self.input_feeding and self.context == "input":
            raise contradiction(
                "input_feeding",
                "is true, but with context: input the context itself joins the input. Set it to"
                " false, or context to output",
            )
        return self

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        attention = self.attention
        if attention is None:
            return self
        widths = {"hidden_dim": self.hidden_dim, "attention.key_dim": None}
        if isinstance(attention, ScaledDotAttention | AdditiveAttention):
            widths["attention.key_dim"] = attention.key_dim
        for name, width in widths.items():
            if width is not None and width % attention.heads:
                divisors = [n for n in range(1, min(width, 256) + 1) if width % n == 0]
                raise contradiction(
                    "attention",
                    f"has heads: {attention.heads}, which does not divide model.{name} = {width}:"
                    f" every head needs an equal share. Choose heads from"
                    f" {', '.join(map(str, divisors))}",
                )
        return self

    @property
    def has_attention(self) -> bool:
        """Whether its forecasts come with attention weights."""
        return self.attention is not None


class FastWeights(Section):
    """A recurrent net that reads its recent past from fast weights (Ba et al. 2016)."""

    model_config = must_say("kind")
    kind: Literal["fast_weights"] = "fast_weights"
    """The family of models."""
    hidden_dim: Width = 16
    """H, the width of the recurrent state."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.95
    """What the memory is multiplied with at every step."""
    rate: Annotated[float, Field(gt=0, le=100)] = 0.5
    """What a new state is written with."""
    inner_steps: Annotated[int, Field(ge=1, le=100)] = 1
    """How often a new state reads the memory before it counts."""
    layer_norm: bool = True
    """Normalize the state before its tanh (Ba, Kiros and Hinton 2016)."""

    @property
    def has_attention(self) -> bool:
        """Whether its forecasts come with attention weights."""
        return True


class Transformer(Section):
    """Encoder and decoder of self-attention, and cross-attention between them (Vaswani et al.
    2017)."""

    model_config = must_say("kind")
    kind: Literal["transformer"] = "transformer"
    """The family of models."""
    model_dim: Width = 32
    """D, the width of every layer."""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """A, attention heads of every layer, each D / A wide."""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """Layers of the encoder, and of the decoder."""
    feedforward_dim: Annotated[int, Field(ge=1, le=32768)] = 64
    """Width of the hidden layer that follows attention."""
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """How a layer knows what comes when; with none, a source is a set."""
    longest: Count | None = None
    """How many positions are learned; sequences may be no longer. Goes with positions: learned."""
    norm: Literal["pre", "post"] = "pre"
    """Normalize before each part (Xiong et al. 2020), or after the sum as in the first paper."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Chance of dropping a number of a part's result, in training."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.model_dim % self.heads:
            divisors = [
                n for n in range(1, min(self.model_dim, 256) + 1) if self.model_dim % n == 0
            ]
            raise contradiction(
                "heads",
                f"is {self.heads}, which does not divide model_dim = {self.model_dim}: every head"
                f" needs an equal share. Choose from {', '.join(map(str, divisors))}",
            )
        return self

    @property
    def has_attention(self) -> bool:
        """Whether its forecasts come with attention weights."""
        return True

    @model_validator(mode="after")
    def _positions_to_learn(self) -> Self:
        if self.positions == "learned" and self.longest is None:
            raise contradiction("longest", "must say how many positions are to be learned")
        if self.positions != "learned" and self.longest is not None:
            raise contradiction(
                "longest", f"goes with positions: learned; {self.positions} has no end"
            )
        return self


Model = Annotated[
    Annotated[Recurrent, Tag("recurrent")]
    | Annotated[FastWeights, Tag("fast_weights")]
    | Annotated[Transformer, Tag("transformer")],
    told_apart_by("kind", "recurrent"),
]


# --- training ---------------------------------------------------------------------------------


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

    model_config = must_say("schedule")
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

    model_config = must_say("schedule")
    schedule: Literal["exponential"] = "exponential"
    """How the probability changes from epoch to epoch."""
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """What the probability is multiplied with after each epoch; the first epoch has 1."""


class InverseSigmoidForcing(TeacherForcingKnobs):
    """k / (k + exp(epoch / k)), counted from 0 (Bengio et al. 2015)."""

    model_config = must_say("schedule")
    schedule: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    """How the probability changes from epoch to epoch."""
    k: Annotated[float, Field(ge=1, le=1e6)] = 12.0
    """Speed: half of the way down is at epoch k log k."""


TeacherForcing = Annotated[
    Annotated[ConstantForcing, Tag("constant")]
    | Annotated[LinearForcing, Tag("linear")]
    | Annotated[ExponentialForcing, Tag("exponential")]
    | Annotated[InverseSigmoidForcing, Tag("inverse_sigmoid")],
    told_apart_by("schedule", "constant"),
]


class ConstantRate(Section):
    """The learning rate stays."""

    kind: Literal["none"] = "none"
    """How the learning rate changes from epoch to epoch."""


class CosineRate(Section):
    """Half a cosine from learning_rate in the first epoch to `minimum` in the last
    (Loshchilov and Hutter 2017, without restarts)."""

    model_config = must_say("kind")
    kind: Literal["cosine"] = "cosine"
    """How the learning rate changes from epoch to epoch."""
    minimum: Annotated[float, Field(ge=0, le=100)] = 0.0
    """The learning rate of the last epoch of `over_epochs`, and after it."""
    over_epochs: Count | None = None
    """Epochs the way down takes; null means all of training.epochs."""


class StepRate(Section):
    """learning_rate times `factor` after every `every` epochs."""

    model_config = must_say("kind")
    kind: Literal["step"] = "step"
    """How the learning rate changes from epoch to epoch."""
    every: Count = 30
    """Epochs between two changes."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """What the learning rate is multiplied with."""


class PlateauRate(Section):
    """learning_rate times `factor` whenever the validation loss stops improving."""

    model_config = must_say("kind")
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
    told_apart_by("kind", "none"),
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
    """What a training step multiplies in. bfloat16 keeps weights, loss and validation in float32
    (torch's autocast); it is meant for wide models on a GPU, and leaves no pass derived by hand."""
    checkpoint_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Seconds between two saves of the training's state; 0 saves after every step. The end, and
    a stop by signal, always save."""

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


# --- everything -------------------------------------------------------------------------------


class Config(Section):
    """One training, wholly described."""

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)] = "squares"
    """The run folder's name: letters, digits, '.', '_' and '-', not starting with '.' or '-'."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 23
    """Seed of the initial weights, the batch order and the coins; the data have their own."""
    data: Squares = Squares()
    """What to learn from."""
    model: Model = Recurrent()
    """What learns."""
    training: Training = Training()
    """How it learns."""

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
    vary: dict[str, list[Any]] = {}
    """Dotted key -> list of values; every combination of them is a variant."""
    variants: dict[VariantName, dict[str, Any]] = {}
    """Name -> dotted keys and values of its own; instead of `vary`."""

    @model_validator(mode="after")
    def _one_way_of_saying_it(self) -> Self:
        if self.vary and self.variants:
            raise contradiction("vary", "and variants cannot both be meant; give one of them")
        return self


class ComparisonFile(Config):
    """A config file that may hold a comparison as well."""

    compare: Compare | None = None
    """What `seqattn compare` compares; null describes a single training."""
