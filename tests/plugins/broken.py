"""Plugins with one mistake each: the file of an example, or a short file, with one changed line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.conftest import ROOT
from tests.plugins.sources import MEAN_MODEL

SCORE = (ROOT / "examples/plugins/bilinear_tanh.py").read_text().replace("exportable = True", "")
CELL = (ROOT / "examples/plugins/minimal_gated.py").read_text().replace("exportable = True", "")
TASK = (ROOT / "examples/plugins/neighbour_sum.py").read_text()
QUIET_TASK = re.sub(r"    noise: Annotated.*\n    \"\"\".*\n", "", TASK).replace(
    "task.noise", "0.1"
)
"""A task without a key `noise`, which adds noise nevertheless."""
SCORE_RESULT = "return (products / math.sqrt(keys.shape[-1])).tanh()"

NORMALIZER = """
import seqattn
import torch
from seqattn.models.attention.normalizers import NormalizerOutput, mask_scores


@seqattn.register_normalizer("own_softmax")
class OwnSoftmax(seqattn.Normalizer):
    def normalize(self, scores, keep, u):
        return NormalizerOutput(mask_scores(scores, keep).softmax(-1))
"""
NORMALIZER_RESULT = "mask_scores(scores, keep).softmax(-1)"

LOCATION = '''
import torch
import seqattn


class RecencyConfig(seqattn.LocationConfig):
    """A preference for the last steps."""


@seqattn.register_location("recency", RecencyConfig)
class Recency(seqattn.Location):
    @classmethod
    def from_config(cls, config, hidden, heads):
        return cls()

    def attention_weights(self, normalizer, queries, scores, keep, previous):
        bias = 0.1 * torch.arange(scores.shape[-1])
        return normalizer.normalize(scores + bias, keep, None).weights, None
'''

COPY_TASK = '''
import numpy as np
import seqattn


class NoisyCopyConfig(seqattn.TaskConfig):
    """The target is the source plus noise."""


@seqattn.register_task("noisy_copy", NoisyCopyConfig)
def generate(task, n, seed):
    draws = [np.random.default_rng([seed, purpose]) for purpose in range(2)]
    source = draws[0].standard_normal((n, 9, 2))
    lengths, steps = np.full(n, 9), np.tile(np.arange(9), (n, 1))
    return seqattn.Sequences(
        source=source, source_lengths=lengths, target_lengths=lengths,
        target=source + 0.1 * draws[1].standard_normal(source.shape), ideal=source,
        features=("x", "y"), ids=tuple(map(str, range(n))), alignment=steps,
    )
'''

ONE_DRAW_TASK = COPY_TASK.replace(
    "    source = draws[0].standard_normal((n, 9, 2))",
    "    drawn = draws[0].standard_normal((n, 9, 6))\n    source = drawn[..., :2]",
).replace("draws[1].standard_normal(source.shape)", "drawn[..., 2:4]")
"""A task that draws the source and the noise in one call."""

METRIC = """
import numpy as np
import seqattn


@seqattn.register_metric("median_error")
def median_error(forecast, target):
    return np.nanmedian(np.abs(forecast - target))
"""

DOCTOR_CHECK = """
import seqattn


@seqattn.register_check("large loss")
def large_loss(evidence):
    if evidence.loss < 0.1:
        return "fine", f"loss {evidence.loss:.2g}"
    return "found", f"loss {evidence.loss:.2g}", "The loss is large.", "train longer"
"""


@dataclass(frozen=True)
class Mistake:
    """A plugin with one mistake.

    Attributes:
        source: the correct plugin.
        old, new: the text to replace, and the mistake.
        check: the check that finds the mistake.
        words: words of its message.
        state: the state of this check.
        combinations: the number of combinations in which the plugin is checked.
    """

    source: str
    old: str
    new: str
    check: str
    words: tuple[str, ...]
    state: str = "failed"
    combinations: int = 1

    @property
    def content(self) -> str:
        assert self.source.count(self.old) == 1, self.old
        return self.source.replace(self.old, self.new)


MISTAKES = {
    # the eight mistakes of scores and normalizers that the documentation promises to name
    "padding leak": Mistake(
        SCORE, SCORE_RESULT, "return products.tanh().softmax(-1)", "padding",
        ("Padding changes the forecast by up to 0.", "`scores` changes by 0.",
         "combines source steps, padding included", "A score gets no mask"),
    ),
    "no mask": Mistake(
        NORMALIZER, NORMALIZER_RESULT, "scores.softmax(-1)", "weights",
        ("A source step of padding gets the weight 0.", "the mask is missing", "mask_scores"),
    ),
    "temperature of masked scores": Mistake(
        NORMALIZER,
        "    def normalize(self, scores, keep, u):\n        return NormalizerOutput("
        + NORMALIZER_RESULT + ")",
        "    def __init__(self):\n        super().__init__()\n"
        "        self.factor = seqattn.LearnedVector(1.0)\n\n"
        "    def normalize(self, scores, keep, u):\n"
        "        scores = mask_scores(scores, keep)\n"
        "        scores = scores * self.factor.broadcast_to(scores)\n"
        "        return NormalizerOutput(scores.softmax(-1))", "gradients",
        ("is NaN. The likely mistake is an operation on scores of -inf", "put -inf back after it"),
    ),
    "mask without the axis of steps": Mistake(
        NORMALIZER, NORMALIZER_RESULT, "scores.masked_fill(~keep, float('-inf')).softmax(-1)",
        "shapes", ("must match the size of tensor",),
    ),
    "wrong scale": Mistake(
        SCORE, SCORE_RESULT, "return products", "scale",
        ("The scale of the scores is wrong", "width: 256", "the softmax saturates",
         "missing division by sqrt(K)"), state="warning",
    ),
    "non-differentiable step": Mistake(
        SCORE, SCORE_RESULT, "return (10 * products).round()", "gradients",
        ("the step is not differentiable", "the gradient is exactly 0", "round"),
    ),
    "state kept on the module": Mistake(
        SCORE, SCORE_RESULT, "self.last = products\n        return products.tanh()", "state",
        ("the module keeps state", "`attention.score.last`"),
    ),
    "batch-dependent": Mistake(
        SCORE, SCORE_RESULT,
        "return (products - products.mean(-4 if self.heads > 1 else -3, keepdim=True)).tanh()",
        "batch",
        ("The forecast of a sequence depends on its batch", "The mechanism combines sequences",
         "axis N"),
    ),
    "wrong shape": Mistake(
        SCORE, SCORE_RESULT, "return products.tanh().mT", "shapes",
        ("`scores` returns the shape (3, 7, 5)", "the contract is (3, 5, 7)",
         "two axes are exchanged"),
    ),
    "non-finite": Mistake(
        SCORE, SCORE_RESULT, "return products.exp()", "finite",
        ("not finite for large (times 1000) inputs in float32", "exp of a large number"),
    ),
    # mistakes that only long sources or long targets show
    "another sign for long sources": Mistake(
        SCORE, SCORE_RESULT,
        "return (products if products.shape[-1] <= 12 else -products).tanh()", "long",
        ("With sources of up to 29 steps and targets of 19 steps: Padding changes the forecast",
         "their number has. The mechanism reads the length of the array"),
    ),
    # mistakes that only one of the modes of a module shows
    "another normalizer in training": Mistake(
        NORMALIZER, NORMALIZER_RESULT,
        "(mask_scores(scores, keep) * (0.5 if self.training else 1)).softmax(-1)", "modes",
        ("In train mode, forecasts differ from eval mode by up to 0.",
         "Validation, tests, predictions and exports use eval mode",
         "do not read `self.training`"), state="warning",
    ),
    "runs combined in training": Mistake(
        SCORE, SCORE_RESULT,
        "runs = self.training and products.dim() > 3 + (self.heads > 1)\n"
        "        return (products - products.mean(0) if runs else products).tanh()", "runs",
        ("of 2 stacked runs is", "the mechanism combines runs"),
    ),
    # other forms of these mistakes, and mistakes of other kinds of mechanisms
    "division by zero": Mistake(
        SCORE, SCORE_RESULT, "return products / keys.norm(dim=-1).unsqueeze(-2)", "finite",
        ("not finite for zero inputs", "division by a norm"),
    ),
    "detached query": Mistake(
        SCORE, "self.split(self.query(queries)) @", "self.split(self.query(queries.detach())) @",
        "gradients", ("queries along a random direction is 0, but", "no gradient reaches it", "detach()"),
    ),
    "state that is used": Mistake(
        SCORE, SCORE_RESULT,
        "before = getattr(self, 'before', 0.0)\n"
        "        self.before = float(products.detach().mean())\n"
        "        return (products + 1000 * before).tanh()",
        "state", ("The same source gives another forecast", "the module keeps state",
                  "`attention.score.before`"),
    ),
    "random numbers": Mistake(
        SCORE, SCORE_RESULT, "import torch\n        return torch.rand_like(products)", "state",
        ("The same source gives another forecast", "draws random numbers of its own"),
    ),
    "mixed queries": Mistake(
        SCORE, SCORE_RESULT, "return products.tanh().softmax(-2)", "steps",
        ("differ from free running by 0.", "combines decoder steps", "axis T"),
    ),
    "parameter without an axis of runs": Mistake(
        SCORE, "self.split(self.query(queries))", "self.split(queries @ self.query.weight.mT)",
        "runs", ("A training step of 2 stacked runs raises", "one after another",
                 "leading axis of runs"), state="warning",
    ),
    "tensor that is not a parameter": Mistake(
        SCORE.replace("products / math", "products * getattr(self, 'gain', 1.0) / math"),
        "self.key = seqattn.Linear(hidden, width, bias=False)",
        "self.key = seqattn.Linear(hidden, width, bias=False)\n"
        "        import torch\n        self.gain = torch.rand(())", "checkpoint",
        ("Two models with the same parameters forecast different values", "BilinearTanh.gain",
         "nn.Parameter"),
    ),
    "no initial values": Mistake(
        SCORE, "self.query = seqattn.Linear(hidden, width, bias=False)",
        "from torch import nn\n        self.query = nn.Linear(hidden, width, bias=False)", "build",
        ("attention.score.query.weight: the class Linear has no initial distribution",
         "Use seqattn.Linear"),
    ),
    "parameter without use": Mistake(
        SCORE, "self.key = seqattn.Linear(hidden, width, bias=False)",
        "self.key = seqattn.Linear(hidden, width, bias=False)\n"
        "        self.spare = seqattn.Linear(hidden, width)",
        "gradients", ("attention.score.spare.weight never gets a gradient",),
    ),
    "exception": Mistake(
        SCORE, SCORE_RESULT, "return products.tanh() / self.missing", "shapes",
        ("Line ", "self.missing", "AttributeError"),
    ),
    "tensor instead of the output of a normalizer": Mistake(
        NORMALIZER, f"NormalizerOutput({NORMALIZER_RESULT})", NORMALIZER_RESULT, "shapes",
        ("OwnSoftmax.normalize: must return seqattn.NormalizerOutput(weights), where the weights"
         " have the shape of the scores; got Tensor.",),
    ),
    "tensor instead of the output of a location": Mistake(
        LOCATION, ".weights, None", ".weights", "shapes",
        ("Recency.attention_weights: must return (weights, previous)", "got Tensor."),
    ),
    "tensor instead of the output of a model": Mistake(
        MEAN_MODEL, "return ModelOutput(values, (AttentionMap(weights),) if with_attention else ())",
        "return values", "shapes",
        ("Mean.forecast: must return seqattn.ModelOutput(values)", "got Tensor."),
    ),
    "mask after the normalization": Mistake(
        NORMALIZER, NORMALIZER_RESULT,
        "scores.softmax(-1) if keep is None else scores.softmax(-1) * keep.unsqueeze(-2)",
        "weights", ("sum to 0.", "the mask is applied after the normalization"),
    ),
    "weights that sum to a little more than 1": Mistake(
        NORMALIZER, NORMALIZER_RESULT, "1.000001 * mask_scores(scores, keep).softmax(-1)",
        "weights", ("sum to 1.00000", "instead of 1 ("),
    ),
    "temperature from padding": Mistake(
        NORMALIZER, NORMALIZER_RESULT,
        "mask_scores(scores / (1 + scores.abs().amax(-1, keepdim=True)), keep).softmax(-1)",
        "padding", ("`normalize` changes by 0.", "Scores of padding reach"),
    ),
    "location without a mask": Mistake(
        LOCATION, "scores + bias, keep, None", "scores + bias, None, None", "weights",
        ("A source step of padding gets the weight",),
    ),
    "cell that is stepped over padding": Mistake(
        CELL, "    @staticmethod",
        "    def forward(self, inputs, lengths):\n"
        "        states, last = self.unroll(self.project_steps(inputs))\n"
        "        return states, last\n\n    @staticmethod", "padding",
        ("`forward (last state)` changes by", "The cell is stepped over padding"),
    ),
    "seed without effect": Mistake(
        TASK, "np.random.default_rng([seed, purpose])", "np.random.default_rng([1, purpose])",
        "seeds", ("The seeds 5 and 6 give the same 37 sources",),
    ),
    "global random numbers": Mistake(
        TASK, "draws[1].uniform(", "np.random.uniform(", "seeds",
        ("`source` differs by up to", "global random generator"),
    ),
    "values in the padding": Mistake(
        TASK, "target=np.where(keep, ideal + noise, 0.0)", "target=ideal + noise", "shapes",
        ("The padding of target contains", "instead of 0"),
    ),
    "ideal forecast of another target": Mistake(
        TASK, "ideal=np.where(keep, ideal, 0.0)", "ideal=np.where(keep, ideal / 2, 0.0)", "ideal",
        ("Without noise, `ideal` differs from the target by up to",),
    ),
    "alignment outside of the source": Mistake(
        TASK, "ids=tuple(str(k) for k in range(n)),",
        "ids=tuple(str(k) for k in range(n)), alignment=np.where(keep[..., 0], 99, -1),",
        "alignment", ("The alignment of sequence 1, target step 1 is 99",),
    ),
    "ideal forecast with other noise": Mistake(
        ONE_DRAW_TASK, "ideal=source", "ideal=source + 0.3 * drawn[..., 4:]", "ideal",
        ("A regression of the targets on `ideal` has the slope 0.9", "contains noise"),
    ),
    "ideal forecast times 0.9": Mistake(
        QUIET_TASK, "ideal=np.where(keep, ideal, 0.0)", "ideal=np.where(keep, 0.9 * ideal, 0.0)",
        "ideal",
        ("A regression of the targets on `ideal` has the slope 1.11", "2000 sequences",
         "`ideal` is scaled"),
    ),
    "ideal forecast plus 0.1": Mistake(
        QUIET_TASK, "ideal=np.where(keep, ideal, 0.0)", "ideal=np.where(keep, ideal + 0.1, 0.0)",
        "ideal", ("The targets minus `ideal` have the mean -0.0", "instead of 0"),
    ),
    "ideal forecast without a term": Mistake(
        QUIET_TASK, "ideal=np.where(keep, ideal, 0.0)",
        "ideal=np.where(keep, source[:, :-1], 0.0)", "ideal",
        ("is correlated with the source at step", "leaves out a part of the target"),
    ),
    "alignment of the next step": Mistake(
        COPY_TASK, "alignment=steps", "alignment=np.where(steps < lengths[:, None] - 1, steps + 1, -1)", "alignment",
        ("on the source steps of the alignment -1 has the mean squared error 0.0",
         "The alignment may be off by one"), state="warning",
    ),
    "metric that counts padding as an error of 0": Mistake(
        METRIC, "np.nanmedian(np.abs(forecast - target))",
        "np.abs(np.nan_to_num(forecast) - np.nan_to_num(target)).mean()", "metric",
        ("with 5 more steps of padding: it counts padding",),
    ),
    "metric that reads padding": Mistake(
        METRIC, "np.nanmedian", "np.median", "metric", ("The metric is nan", "it reads padding"),
    ),
    "metric of arrays": Mistake(
        METRIC, "np.nanmedian(np.abs(forecast - target))", "np.abs(forecast - target)", "metric",
        ("returns ndarray instead of a number",),
    ),
    "verdict without a change": Mistake(
        DOCTOR_CHECK, ', "The loss is large.", "train longer"', "", "verdict",
        ("returns 2 fields with 'found' instead of 4",),
    ),
}  # fmt: skip
"""Mistakes by name."""
CORRECT = {
    "normalizer": NORMALIZER, "location": LOCATION, "metric": METRIC, "check": DOCTOR_CHECK,
    "task": TASK, "task without a key": QUIET_TASK, "task with an alignment": COPY_TASK,
}  # fmt: skip
"""Plugins without a mistake by kind; the other kinds are checked from `examples/plugins`."""
