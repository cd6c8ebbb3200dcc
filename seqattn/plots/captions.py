"""The sentence below every picture of attention weights."""

from __future__ import annotations

WEIGHTS_CAPTION = (
    "Weights show where this model read encoder states, which also carry their neighbours; they"
    " are not an alignment and not by themselves an explanation."
)
STRENGTHS_CAPTION = (
    "Strengths show how much this model read its earlier states, which also carry the states"
    " before them; they are not an alignment and not by themselves an explanation."
)
SELF_ATTENTION_CAPTION = (
    "Weights show where this layer read states of its own sequence, which also carry other steps;"
    " they are not an alignment and not by themselves an explanation."
)


def weights_caption(kind: str = "cross", *, signed: bool = False) -> str:
    """Return the sentence for a kind of attention.

    Args:
        kind: "cross", "relative", "encoder_self" or "decoder_self"; see `attention_figure`.
        signed: whether the weights are the read strengths of fast weights.
    """
    if signed:
        return STRENGTHS_CAPTION
    return WEIGHTS_CAPTION if kind in ("cross", "relative") else SELF_ATTENTION_CAPTION
