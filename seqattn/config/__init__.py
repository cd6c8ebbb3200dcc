"""The config of a run. The function `resolve` combines a YAML file and overrides into one frozen
`Config`:

    resolved = resolve(Path("configs/squares.yaml"), ["training.epochs=10"])
    resolved.config.training.epochs            # 10
    resolved.origins["training.epochs"]        # "--set training.epochs=10"

The function `to_yaml` converts a config to YAML.
"""

from __future__ import annotations

from seqattn.config import schema
from seqattn.config.draft import (
    DEFAULT,
    PATH_KEYS,
    UNKNOWN_PATH,
    ConfigSource,
    Draft,
    Override,
    Resolved,
    as_plain,
    as_value,
    config_differences,
    from_plain,
    leaves,
    read_stored,
    resolve,
    to_yaml,
    without_paths,
)
from seqattn.config.keys import all_keys, json_schema
from seqattn.config.mistakes import nearest
from seqattn.config.plugins import PluginChangedWarning, load_plugin
from seqattn.config.schema import *  # noqa: F403

__all__ = [
    "DEFAULT", "PATH_KEYS", "UNKNOWN_PATH", "ConfigSource", "Draft", "Override",
    "PluginChangedWarning", "Resolved", "all_keys", "as_plain", "as_value",
    "config_differences", "from_plain", "json_schema", "leaves", "load_plugin", "nearest",
    "read_stored", "resolve", "to_yaml", "without_paths",
]  # fmt: skip
__all__ += schema.__all__
