"""The keys of earlier versions. Each old key still works for one release, but causes a warning."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

from seqattn.config.reading import KeyPath

RENAMED: dict[KeyPath, tuple[KeyPath, str]] = {
    ("data", "sequence"): (("data", "series"), "sequence"),
    ("data", "order"): (("data", "time"), "step"),
}
"""A mapping from each old key to the new key and the old default value. The value `auto` replaces
the old default value."""


STREAM_SPLIT = {"validation": 0.01, "test": 0.01}
"""The default shares of the validation and test parts for the former `kind: stream`."""


def apply_old_defaults(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a stored config. If the config has `model.skip: linear` but no
    `model.skip_map`, the copy has `model.skip_map: learned`, because earlier versions always
    learned a linear skip connection."""
    model = content.get("model")
    if isinstance(model, dict) and model.get("skip") == "linear" and "skip_map" not in model:
        return {**content, "model": {**model, "skip_map": "learned"}}
    return dict(content)


class RenamedKeyWarning(FutureWarning):
    """A warning that a config contains a key of an earlier version."""


def rename_keys(
    content: Mapping[str, Any], places: Mapping[KeyPath, str], *, warn: bool
) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    """Replace config keys of earlier versions with the current keys.

    If a config has both the old and the new key, the function does not replace the old key.
    Validation then reports the old key as unknown.

    Args:
        content: the plain data.
        places: for each key, the file and line or the override that set the key.
        warn: whether to emit a warning for each replaced key.

    Returns:
        the plain data and the places with the new keys.
    """
    found, moved = _replace_stream(content, dict(places), warn=warn), dict(places)
    for old, (new, default) in RENAMED.items():
        section = found.get(old[0])
        if not isinstance(section, dict) or section.get("kind") != "file":
            continue
        if old[-1] not in section or new[-1] in section:
            continue
        value = section[old[-1]]
        found[old[0]] = {
            (new[-1] if key == old[-1] else key): "auto" if key == old[-1] and entry == default
            else entry
            for key, entry in section.items()
        }  # fmt: skip
        if old in moved:
            moved[new] = moved.pop(old)
        if warn:
            place = f"{moved[new]}: " if new in moved else ""
            warnings.warn(
                f"{place}{'.'.join(old)} is now called {'.'.join(new)}; the old name stops working"
                " in the next version. Write"
                f" {new[-1]}: {'auto' if value == default else json.dumps(value)}",
                RenamedKeyWarning, stacklevel=2,
            )  # fmt: skip
    return found, moved


def _replace_stream(
    content: Mapping[str, Any], places: Mapping[KeyPath, str], *, warn: bool
) -> dict[str, Any]:
    """Replace the former `data.kind: stream` with `kind: file`, which reads files of any size."""
    section = content.get("data")
    if not isinstance(section, dict) or section.get("kind") != "stream":
        return dict(content)
    split = section.get("split")
    data = {key: value for key, value in section.items() if key not in ("buffer", "shards")}
    data |= {"kind": "file", "cache": "always",
             "split": {**STREAM_SPLIT, **(split if isinstance(split, dict) else {})}}  # fmt: skip
    if warn:
        place = f"{places[('data', 'kind')]}: " if ("data", "kind") in places else ""
        warnings.warn(
            f"{place}data.kind: stream is now kind: file with data.cache: always; the old name"
            " stops working in the next version. data.buffer and data.shards have no use any"
            " more; give data.split, whose shares were 0.01 each",
            RenamedKeyWarning, stacklevel=3,
        )  # fmt: skip
    return {**content, "data": data}
