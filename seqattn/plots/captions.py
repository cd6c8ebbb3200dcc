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

ROLLOUT_CAPTION = (
    "Attention rollout (Abnar and Zuidema 2020): the share of an output step that reaches it from a"
    " source step through the weights of all layers, averaged over heads, if each layer passes on"
    " half of its input. Values and feed-forward layers are left out, so this is not by itself an"
    " explanation."
)
FLOW_CAPTION = (
    "Attention flow (Abnar and Zuidema 2020): the maximum flow from a source step to an output step"
    " through the weights of all layers, averaged over heads, divided by the sum of its row. Values"
    " and feed-forward layers are left out, so this is not by itself an explanation."
)
METHOD_CAPTIONS = {"rollout": ROLLOUT_CAPTION, "flow": FLOW_CAPTION}
"""The sentences for what `seqattn.analysis.attention_flow` computes from the weights."""


def weights_caption(kind: str = "cross", *, signed: bool = False) -> str:
    """Return the sentence for a kind of attention.

    Args:
        kind: "cross", "relative", "encoder_self" or "decoder_self"; see `attention_figure`. Also
            "rollout" or "flow", if the panels show these instead of weights.
        signed: whether the weights are the read strengths of fast weights.
    """
    if signed:
        return STRENGTHS_CAPTION
    if kind in METHOD_CAPTIONS:
        return METHOD_CAPTIONS[kind]
    return WEIGHTS_CAPTION if kind in ("cross", "relative") else SELF_ATTENTION_CAPTION
