"""Conversion of times to text."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqattn.data.files.chunk import DATES


def step_text(step: Any) -> str:
    """Return a time as text for a file: a date in ISO 8601 format, or a number."""
    if isinstance(step, np.datetime64):
        text = str(step.astype(DATES)).removesuffix(".000000")
        return text.removesuffix("T00:00:00")
    number = float(step)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
