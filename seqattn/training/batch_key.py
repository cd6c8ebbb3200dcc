"""The key that runs must share to be trained side by side.

The loop runs one model with a leading axis of runs, and reads everything from the first run except
seed, weights, the values of the sequences, and the settings in `PER_RUN`.
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
"""Keys of the section `training` that the loop reads from each run's own config. Of
`teacher_forcing` all but `coin`, which decides the shape of the samples."""


def batch_key(features: FeatureSpec, config: Training, parts: Sequence[BatchShape]) -> str:
    """A text that is equal for runs which can be trained side by side, if their `model` sections
    are equal too.

    Args:
        features: of the model's source and target. With the `model` section they determine a model
            but for its weights.
        parts: shapes and masks of the training and the validation part.
    """
    shared = {key: value for key, value in as_plain(config).items() if key not in PER_RUN}
    return repr((features, shared, config.teacher_forcing.coin, *parts))
