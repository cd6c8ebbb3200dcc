"""What learns."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from seqattn.config.knobs.section import (
    Count,
    Section,
    Width,
    contradiction,
    discriminator,
    require_key,
)


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

    model_config = require_key("kind")
    kind: Literal["local"] = "local"
    """How places, besides contents, decide."""
    window: Annotated[int, Field(ge=1, le=100_000)] = 2
    """D: source points further than this from the predicted place get no weight; the Gaussian's
    standard deviation is D / 2."""


Location = Annotated[
    Annotated[LocationShift, Tag("location_shift")] | Annotated[LocalWindow, Tag("local")],
    discriminator("kind", "location_shift"),
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

    model_config = require_key("score")
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

    model_config = require_key("score")
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

    model_config = require_key("score")
    score: Literal["general"] = "general"
    """How well a key suits a query."""


class AdditiveAttention(AttentionKnobs):
    """v . tanh(W query + U key + b) (Bahdanau et al. 2015, plus the bias b)."""

    model_config = require_key("score")
    score: Literal["additive"] = "additive"
    """How well a key suits a query."""
    key_dim: Width | None = None
    """K, the width in which queries meet keys; null means hidden_dim."""


class CosineAttention(AttentionKnobs):
    """cos(query, key) / temperature, with a learned temperature (Graves et al. 2014, eq. 5, 6)."""

    model_config = require_key("score")
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
    discriminator("score", "scaled_dot"),
]


class ModelKnobs(Section):
    """What every kind of model shares."""

    skip: Literal["none", "linear"] = "none"
    """What makes the forecast besides the network: `none`; `linear`, one linear map from the whole
    source to the whole target is added to the network's output, which starts at zero. All sources
    must have one length, and all targets."""
    skip_map: Literal["frozen", "finetuned", "learned"] = "frozen"
    """Where the map of skip: linear comes from: `frozen`, the ridge regression of the training
    sequences, whose penalty the validation part chooses, stays as it is; `finetuned`, it starts
    there and is trained with the network; `learned`, it starts at zero and is trained."""

    @model_validator(mode="after")
    def _map_needs_a_skip(self) -> Self:
        if self.skip == "none" and self.skip_map != "frozen":
            raise contradiction(
                "skip_map",
                f"is {self.skip_map}, but with skip: none there is no map. Set"
                " model.skip_map=frozen, its default, or model.skip=linear",
            )
        return self


class Recurrent(ModelKnobs):
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
    readout: Literal["linear", "tanh"] = "linear"
    """How context c and state h make the output with context: output: `linear`, W [c; h] + b;
    `tanh`, W a + b of the attentional vector a = tanh(W_a [c; h] + b_a) (Luong et al. 2015, eq. 5),
    which input_feeding always has."""
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
    def _readout_needs_a_context(self) -> Self:
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


class FastWeights(ModelKnobs):
    """A recurrent net that reads its recent past from fast weights (Ba et al. 2016)."""

    model_config = require_key("kind")
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


class Transformer(ModelKnobs):
    """Encoder and decoder of self-attention, and cross-attention between them (Vaswani et al.
    2017)."""

    model_config = require_key("kind")
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
    discriminator("kind", "recurrent"),
]
