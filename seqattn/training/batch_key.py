"""The key that must be equal for all runs that are trained side by side.

The loop trains one model with a leading axis of runs. Each run has its own seed, weights, sequences
and `PER_RUN` settings. The loop reads everything else from the first run.
"""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.config import Training, as_plain
from seqattn.models import FeatureSpec
from seqattn.training.batches import BatchShape

PER_RUN = frozenset({
    "epochs", "learning_rate", "learning_rate_schedule", "clip_norm", "early_stopping",
    "teacher_forcing",
})  # fmt: skip
"""Keys of the section `training` that the loop reads from the config of each run.

All runs must still have the same `teacher_forcing.coin`, which determines the shape of the
teacher-forcing masks.
"""


def batch_key(features: FeatureSpec, config: Training, parts: Sequence[BatchShape]) -> str:
    """Return a text that must be equal for two runs that are trained side by side.

    The runs must also have equal `model` sections.

    Args:
        features: source and target features of the model. Together with the `model` section and
            the lengths, the features determine everything about a model except its weights.
        config: the section `training`.
        parts: shapes and masks of the training part and of the validation part.
    """
    shared = {key: value for key, value in as_plain(config).items() if key not in PER_RUN}
    return repr((features, shared, config.teacher_forcing.coin, *parts))
