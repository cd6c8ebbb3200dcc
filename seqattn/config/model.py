"""The keys of the section `model`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from seqattn.config.section import (
    Count,
    Section,
    Variants,
    Width,
    contradiction,
    name_of,
)


class LocationConfig(Section):
    """The base class of the sections of location-based addressing."""


class LocationShift(LocationConfig):
    """Location-based addressing that moves the previous attention weights by learned shifts
    (Graves, Wayne and Danihelka 2014)."""

    kind: Literal["location_shift"] = "location_shift"
    """The kind of location-based addressing."""
    shift_range: Annotated[int, Field(ge=1, le=63)] = 3
    """Number of relative shifts, centered at 0. For example, 3 allows the shifts -1, 0 and 1."""

    @model_validator(mode="after")
    def _check_shift_range(self) -> Self:
        n = self.shift_range
        if n % 2 == 0:
            raise contradiction(
                "shift_range",
                f"is {n}, but must be odd: 0, and as many shifts backward as forward."
                f" Choose {n - 1} or {n + 1}",
            )
        return self


class GaussianWindow(LocationConfig):
    """A Gaussian window around a predicted source position (Luong et al. 2015, local-p)."""

    kind: Literal["local"] = "local"
    """The kind of location-based addressing."""
    window: Annotated[int, Field(ge=1, le=100_000)] = 2
    """D, half the width of the window. Source steps further than D from the predicted position have
    weight 0. The standard deviation of the Gaussian is D / 2."""


class Monotonic(LocationConfig):
    """Hard monotonic attention, which reads one source step and never moves back (Raffel et al.
    2017). It computes the weights from the scores without a normalizer."""

    kind: Literal["monotonic"] = "monotonic"
    """The kind of location-based addressing."""
    offset: Annotated[float, Field(ge=-100, le=100)] = -1.0
    """Initial value of the learned number that is added to each score. With a lower value, the
    attention passes more source steps before it stops."""
    noise: Annotated[float, Field(ge=0, le=100)] = 1.0
    """Standard deviation of the normal noise that is added to each score in training."""


LOCATION = Variants("kind", "location_shift", noun="location", base=LocationConfig)
Location = Annotated[LocationShift | GaussianWindow | Monotonic, LOCATION]


class NormalizerConfig(Section):
    """The base class of the sections of normalizers that a plugin registers."""


class CellConfig(Section):
    """The base class of the sections of cells that a plugin registers."""


def _check_entmax_alpha(given: object) -> Any:
    """Check alpha of entmax. A union of types would give an error for each of its types."""
    if given == "learned":
        return given
    if isinstance(given, str):
        context = {"key": "", "choices": ["learned", "a number from 1.01 to 2"], "given": given}
        raise PydanticCustomError("not_a_choice", "not a choice", context)
    return ENTMAX_ALPHA.validate_python(given, strict=True)


ENTMAX_ALPHA = TypeAdapter[float](Annotated[float, Field(ge=1.01, le=2)])
Alpha = Annotated[
    float | Literal["learned"],
    PlainValidator(_check_entmax_alpha),
    WithJsonSchema({"anyOf": [ENTMAX_ALPHA.json_schema(), {"const": "learned"}]}),
]
NORMALIZER = Variants("name", noun="normalizer", base=NormalizerConfig)
CELL = Variants("name", noun="cell", base=CellConfig)


class ScoreConfig(Section):
    """The keys that all scores have."""

    normalizer: Annotated[Literal["softmax", "sparsemax", "entmax", "hard"], NORMALIZER] = "softmax"
    """How scores become weights. `softmax` gives positive weights. `sparsemax` can give weights of
    exactly zero (Martins and Astudillo 2016). `entmax` lies between the two (Peters et al. 2019).
    `hard` puts all weight on one source step per target step (Xu et al. 2015)."""
    alpha: Alpha | None = None
    """Parameter of `entmax`: 2 is sparsemax, and values near 1 are close to softmax. `learned`
    learns a value for each head (Correia et al. 2019). `null` means 1.5."""
    estimator: Literal["straight_through", "reinforce"] | None = None
    """Gradient estimator of `hard`. `straight_through` uses the gradient of the soft weights
    (Bengio et al. 2013). `reinforce` uses REINFORCE (Williams 1992)."""
    heads: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of attention heads. Each head has an equal share of the width."""
    location: Location | None = None
    """Location-based addressing in addition to scores. With `null`, the weights depend on scores
    only."""
    project_values: bool = False
    """Whether attention averages a learned affine map of the encoder states instead of the states
    themselves."""

    @model_validator(mode="after")
    def _check_alpha(self) -> Self:
        if self.alpha is not None and self.normalizer != "entmax":
            raise contradiction(
                "alpha",
                f"is {self.alpha}, but normalizer: {name_of(self.normalizer)} has no alpha. Remove"
                " it, or set normalizer: entmax",
            )
        return self

    @model_validator(mode="after")
    def _check_weighting(self) -> Self:
        if isinstance(self.location, Monotonic) and self.normalizer != "softmax":
            raise contradiction(
                "normalizer",
                f"is {name_of(self.normalizer)}, but location: monotonic computes the weights from"
                " the scores itself. Choose normalizer: softmax, the default, or another location",
            )
        if self.normalizer == "hard" and self.estimator is None:
            raise contradiction(
                "normalizer", "is hard, which needs estimator: straight_through or reinforce"
            )
        if self.normalizer != "hard" and self.estimator is not None:
            raise contradiction(
                "estimator",
                f"is {self.estimator}, but normalizer: {name_of(self.normalizer)} has gradients of"
                " its own. Remove it, or set normalizer: hard",
            )
        if self.normalizer == "hard" and self.location is not None:
            raise contradiction(
                "location",
                f"is {self.location.kind}, which spreads weights that normalizer: hard puts on one"
                " point. Choose softmax, sparsemax or entmax, or location: null",
            )
        return self


class UniformAttention(ScoreConfig):
    """Equal scores for all source steps, as a baseline for the other scores."""

    score: Literal["uniform"] = "uniform"
    """Score function of query and key."""

    @model_validator(mode="after")
    def _check_normalizer(self) -> Self:
        if self.normalizer == "hard":
            raise contradiction(
                "normalizer",
                "is hard, but score: uniform gives all steps the same score. Choose another score",
            )
        if isinstance(self.location, Monotonic):
            raise contradiction(
                "location",
                "is monotonic, but score: uniform gives all steps the same score. Choose another"
                " score",
            )
        return self


class DotAttention(ScoreConfig):
    """The dot product of query and key (Luong et al. 2015)."""

    score: Literal["dot"] = "dot"
    """Score function of query and key."""


class ScaledDotAttention(ScoreConfig):
    """The dot product of query and key, divided by the square root of their width K (Vaswani et al.
    2017)."""

    score: Literal["scaled_dot"] = "scaled_dot"
    """Score function of query and key."""
    project_query_key: bool = True
    """Whether query and key are learned affine maps of the states instead of the states
    themselves."""
    key_dim: Width | None = None
    """K, the width of queries and keys. `null` means `hidden_dim`."""

    @model_validator(mode="after")
    def _check_key_dim(self) -> Self:
        if self.key_dim is not None and not self.project_query_key:
            raise contradiction(
                "key_dim", "needs project_query_key: true; without it K is hidden_dim"
            )
        return self


class GeneralAttention(ScoreConfig):
    """The score `query . (W key)`, where W is a learned matrix (Luong et al. 2015)."""

    score: Literal["general"] = "general"
    """Score function of query and key."""


class AdditiveAttention(ScoreConfig):
    """The score `v . tanh(W query + U key + b)`, where v, W, U and b are learned (Bahdanau et al.
    2015, with the bias b added)."""

    score: Literal["additive"] = "additive"
    """Score function of query and key."""
    key_dim: Width | None = None
    """K, the width of queries and keys. `null` means `hidden_dim`."""


class CoverageAttention(ScoreConfig):
    """The additive score with coverage, the sum of the weights that a source step has had so far:
    `v . tanh(W query + U key + w coverage + b)` (Tu et al. 2016; See et al. 2017, eq. 11)."""

    score: Literal["coverage"] = "coverage"
    """Score function of query, key and past weights."""
    key_dim: Width | None = None
    """K, the width of queries and keys. `null` means `hidden_dim`."""

    @model_validator(mode="after")
    def _check_location(self) -> Self:
        if self.location is not None:
            raise contradiction(
                "location",
                f"is {self.location.kind}, but score: coverage already depends on the past weights."
                " Choose location: null, or score: additive",
            )
        return self


class CosineAttention(ScoreConfig):
    """The cosine of the angle between query and key, divided by a learned temperature (Graves et
    al. 2014, eq. 5, 6)."""

    score: Literal["cosine"] = "cosine"
    """Score function of query and key."""
    project_query_key: bool = True
    """Whether query and key are learned affine maps of the states instead of the states
    themselves."""
    temperature: Annotated[float, Field(ge=1e-3, le=1e3)] = 0.2
    """Initial temperature. Scores are between -1 / temperature and 1 / temperature."""


class LinearAttention(ScoreConfig):
    """The logarithm of a product of positive vectors, `log(phi(query) . phi(key))` with `phi(x) =
    elu(x) + 1`. With softmax, this is linear attention, whose context can be read from fast
    weights (Katharopoulos et al. 2020; Schlag et al. 2021)."""

    score: Literal["linear"] = "linear"
    """Score function of query and key."""
    project_query_key: bool = True
    """Whether query and key are learned affine maps of the states instead of the states
    themselves."""


SCORE = Variants("score", "scaled_dot", noun="score", base=ScoreConfig)
Attention = Annotated[
    UniformAttention
    | DotAttention
    | ScaledDotAttention
    | GeneralAttention
    | AdditiveAttention
    | CoverageAttention
    | CosineAttention
    | LinearAttention,
    SCORE,
]


class ModelConfig(Section):
    """The keys that all kinds of models have."""

    skip: Literal["none", "linear"] = "none"
    """Skip connection from source to forecast. With `linear`, the forecast is the sum of the output
    of the network, which is zero at first, and the output of a linear map from the whole source to
    the whole target. All sources must then have one length, and all targets must have one length.
    `none` means no skip connection."""
    skip_map: Literal["frozen", "finetuned", "learned"] = "frozen"
    """The map of `skip: linear`. A `frozen` map is the result of ridge regression on the training
    sequences, with the penalty that is best on the validation part. A `finetuned` map starts as the
    result of ridge regression and is trained with the network. A `learned` map starts at zero and
    is trained with the network."""

    @property
    def has_attention(self) -> bool:
        """Whether the model's forecasts have attention weights."""
        return True

    def activations_per_sequence(self, S: int, T: int) -> int:
        """Estimate how many numbers the forward and the backward pass store for one sequence.

        The result is 0 unless a plugin overrides this method. seqattn does not call the method for
        its own models.

        Args:
            S, T: the length of the source and the length of the target.
        """
        return 0

    def attention_weights_per_sequence(self, S: int, T: int) -> int:
        """Count the attention weights of one sequence. See `activations_per_sequence` for the
        arguments.

        The result is correct for one layer with one head. A plugin with more layers or heads must
        override this method.
        """
        return T * S if self.has_attention else 0

    @model_validator(mode="after")
    def _check_skip_map(self) -> Self:
        if self.skip == "none" and self.skip_map != "frozen":
            raise contradiction(
                "skip_map",
                f"is {self.skip_map}, but with skip: none there is no map. Set"
                " model.skip_map=frozen, its default, or model.skip=linear",
            )
        return self


class EmbeddingConfig(Section):
    """Learned vectors of symbols, for data whose steps are symbols."""

    dim: Width | None = None
    """E, the width of the vectors. `null` means `hidden_dim` or `model_dim`."""
    tied: bool = False
    """Whether the output layer uses the vectors of the target symbols as its weights (Press and
    Wolf 2017)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability of dropout of the numbers of a vector in training. For a recurrent model only; a
    Transformer applies `model.dropout` to its inputs."""
    word_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability in training that the network reads the unknown symbol instead of a symbol of the
    source or of the true target (Bowman et al. 2016)."""


class Recurrent(ModelConfig):
    """A recurrent encoder-decoder. `attention: null` removes the attention."""

    kind: Literal["recurrent"] = "recurrent"
    """Kind of the model."""
    cell: Annotated[Literal["gru", "lstm", "rnn"], CELL] = "gru"
    """Recurrent cell of encoder and decoder: GRU (Cho et al. 2014), LSTM (Hochreiter and
    Schmidhuber 1997) or the plain tanh network (`rnn`, Elman 1990)."""
    hidden_dim: Width = 16
    """H, the width of the recurrent state."""
    layers: Annotated[int, Field(ge=1, le=32)] = 1
    """Number of recurrent layers in the encoder. The decoder has the same number of layers."""
    bidirectional: bool = False
    """Whether the encoder reads the source in both directions. Learned maps project the two states
    to `hidden_dim`."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability of dropout in training, between layers and before the output."""
    input_feeding: bool = False
    """Whether the attentional vector, computed from context and state, is an input of the next step
    (Luong et al. 2015)."""
    context: Literal["output", "input"] = "output"
    """Where the context is used. With `output`, the new decoder state is the query, and state and
    context together give the output. With `input`, the previous decoder state is the query, and the
    context is part of the decoder's input."""
    readout: Literal["linear", "tanh"] = "linear"
    """How context c and state h give the output, with `context: output`. `linear` is W [c; h] + b.
    `tanh` is W a + b with the attentional vector a = tanh(W_a [c; h] + b_a) (Luong et al. 2015, eq.
    5). `input_feeding` always uses the attentional vector."""
    attention: Attention | None = ScaledDotAttention()
    """Attention of the decoder. `null` means an encoder-decoder without attention."""
    embedding: EmbeddingConfig | None = None
    """Embedding of symbols, for data whose steps are symbols. `null` means the defaults."""
    copying: bool = False
    """Whether an output can be copied from the source symbol to which the attention points, with a
    learned probability, instead of generated from the vocabulary (See et al. 2017). Source and
    target must be symbols, and the attention must have one head."""

    @model_validator(mode="after")
    def _check_context(self) -> Self:
        if self.attention is None and self.context == "input":
            raise contradiction(
                "context",
                "is input, but with attention: null there is no context. Remove it, or set"
                " model.context=output as well",
            )
        return self

    @model_validator(mode="after")
    def _check_input_feeding(self) -> Self:
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
    def _check_readout(self) -> Self:
        if self.readout == "linear":
            return self
        if self.attention is None:
            raise contradiction(
                "readout",
                "is tanh, but with attention: null there is no context to combine. Set it to"
                " linear",
            )
        if self.context == "input":
            raise contradiction(
                "readout",
                "is tanh, but with context: input the output is made from the state alone. Set it"
                " to linear, or context to output",
            )
        return self

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        attention = self.attention
        if self.copying and (attention is None or attention.heads > 1):
            raise contradiction(
                "copying",
                "is true, which needs attention with one head to point to a source symbol. Set it"
                " to false, or choose an attention with heads: 1",
            )
        if attention is None:
            return self
        widths = {"hidden_dim": self.hidden_dim, "attention.key_dim": None}
        if isinstance(attention, ScaledDotAttention | AdditiveAttention | CoverageAttention):
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
        """Whether the model's forecasts have attention weights."""
        return self.attention is not None


class FastWeights(ModelConfig):
    """A recurrent network that attends to its recent states through fast weights (Ba et al.
    2016)."""

    kind: Literal["fast_weights"] = "fast_weights"
    """Kind of the model."""
    hidden_dim: Width = 16
    """H, the width of the recurrent state."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Factor by which the memory decays at every step."""
    rate: Annotated[float, Field(gt=0, le=100)] = 0.5
    """Learning rate at which a state is written to the memory."""
    inner_steps: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of inner steps in which a new state reads the memory."""
    layer_norm: bool = True
    """Whether layer normalization is applied before tanh (Ba, Kiros and Hinton 2016)."""
    embedding: EmbeddingConfig | None = None
    """Embedding of symbols, for data whose steps are symbols. `null` means the defaults."""

    @property
    def has_attention(self) -> bool:
        """Whether the model's forecasts have attention weights."""
        return True


class Transformer(ModelConfig):
    """An encoder and a decoder with self-attention. The decoder also has cross-attention over the
    output of the encoder (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    """Kind of the model."""
    model_dim: Width = 32
    """D, the width of every layer."""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """A, the number of attention heads of every layer. Each head has the width D / A."""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """Number of layers in the encoder. The decoder has the same number of layers."""
    feedforward_dim: Annotated[int, Field(ge=1, le=32768)] = 64
    """Width of the hidden layer in each feed-forward sublayer."""
    positions: Literal["sinusoidal", "learned", "relative", "alibi", "rotary", "none"] = (
        "sinusoidal"
    )
    """Positions of steps. `sinusoidal` and `learned` are added to the inputs. `relative` (Shaw et
    al. 2018), `alibi` (Press et al. 2022) and `rotary` (Su et al. 2021) act inside self-attention
    through the difference of two positions. With `none`, the order of source steps has no
    effect."""
    max_distance: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Largest distance of `positions: relative`; steps that are further apart count as this far
    apart. `null` means 16."""
    longest: Count | None = None
    """Number of learned positions, which limits the length of sequences. The key requires
    `positions: learned`."""
    norm: Literal["pre", "post"] = "pre"
    """Position of layer normalization: before each sublayer (`pre`, Xiong et al. 2020) or after the
    residual sum (`post`)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability of dropout in training, on the output of each sublayer and on the inputs of
    encoder and decoder."""
    embedding: EmbeddingConfig | None = None
    """Embedding of symbols, for data whose steps are symbols. `null` means the defaults."""

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
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
        """Whether the model's forecasts have attention weights."""
        return True

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        head = self.model_dim // self.heads
        if self.positions == "rotary" and head % 2:
            raise contradiction(
                "positions",
                f"is rotary, which rotates pairs of numbers, but each head has the odd width {head}"
                " (model_dim / heads). Choose an even width",
            )
        if self.positions != "relative" and self.max_distance is not None:
            raise contradiction(
                "max_distance",
                f"requires positions: relative; positions: {self.positions} has no such distance",
            )
        if self.positions == "learned" and self.longest is None:
            raise contradiction("longest", "must be the number of learned positions")
        if self.positions != "learned" and self.longest is not None:
            raise contradiction(
                "longest", f"requires positions: learned; positions: {self.positions} has no limit"
            )
        return self


MODEL = Variants("kind", "recurrent", noun="model", base=ModelConfig)
Model = Annotated[Recurrent | FastWeights | Transformer, MODEL]
