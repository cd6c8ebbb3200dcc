"""Unpack arrays of a report page."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def unpack_points(packed: Mapping[str, Any]) -> NDArray[np.floating]:
    """Return the array that `pack_points` of seqattn/report/content/examples.py packed."""
    size = packed["bits"] // 8
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8)
    joined = np.ascontiguousarray(planes.reshape(size, -1).T)
    values: NDArray[np.floating] = joined.view(f"<f{size}").reshape(packed["shape"])
    return values
