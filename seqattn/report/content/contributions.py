"""The part of a page that shows what the outputs of a run depend on: contributions of source steps
beside the attention weights."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from seqattn.analysis.attributed_run import embed_sequence, names_of_steps
from seqattn.analysis.attribution import FEW_NODES, attribute, shares_of_rows
from seqattn.data import Sequences
from seqattn.data.tokens import Tokens
from seqattn.errors import SeqattnError
from seqattn.training import LoadedModel
from seqattn.training.threads import one_thread

MAX_ATTRIBUTED = 5
"""Maximum number of test sequences whose contributions a page shows."""
MAX_SECONDS = 1.5
"""After so many seconds of computing, no other sequence is added."""
MAX_CELLS, MAX_DERIVATIVES = 2**12, 2**16
"""The largest T * S and T * G * S * E of a sequence that is shown. With more cells, a heatmap of
the page is not legible. With more derivatives, one sequence can take more than ten seconds."""
DECIMALS = 4


def contributions_content(trained: LoadedModel, part: Sequences) -> dict[str, Any] | None:
    """Return the attention weights and the contributions for the first sequences of a part, as
    shares of their rows.

    Returns:
        `of_symbols`: whether an output step is a symbol. `is_signed`: whether contributions have
        signs. `sequences`: for each sequence its index, name, symbols of source and output (empty
        for vectors), `maps` (T, S) by method, and the error of the integrated gradients, as
        `Attribution.error`. The result is None if the model has no gradient, or if the first
        sequences are too long.
    """
    found = list[dict[str, Any]]()
    began = time.process_time()  # another process on the machine changes no page
    try:
        with one_thread():
            for k in range(min(MAX_ATTRIBUTED, len(part))):
                if found and time.process_time() - began > MAX_SECONDS:
                    break
                if sequence := _attribute_for_page(trained, part, k):
                    found.append(sequence)
    except (SeqattnError, RuntimeError):
        # autograd raises a RuntimeError for a plugin that detaches its output from the source, and
        # torch for one that computes in single precision only. The rest of the page needs neither.
        return None
    if not found:
        return None
    of_symbols = isinstance(trained.spec.target, Tokens)
    return {
        "of_symbols": of_symbols,
        "is_signed": of_symbols or len(trained.spec.target_features) == 1,
        "sequences": found,
    }


def _attribute_for_page(trained: LoadedModel, part: Sequences, k: int) -> dict[str, Any] | None:
    """Return what the page shows of sequence k; None if it is too long, or if a derivative is not
    finite."""
    embedded = embed_sequence(trained, part, k)
    (T, G), (S, E) = embedded.own.shape, embedded.embedded.shape
    if T * S > MAX_CELLS or T * G * S * E > MAX_DERIVATIVES:
        return None
    found = attribute(embedded, FEW_NODES)
    if not np.isfinite([found.error, found.gradient.sum()]).all():  # JSON has no NaN
        return None
    source, output = names_of_steps(trained, embedded)
    name = part.labels[k] if part.labels else ""
    if isinstance(trained.spec.source, Tokens):
        name = trained.spec.source.text(embedded.source.numpy())
    return {
        "example": k,
        "name": f"{part.ids[k]}: {name}" if name else part.ids[k],
        "source": source,
        "output": output,
        "maps": {method: (np.round(shares, DECIMALS) + 0.0).tolist()  # no -0.0
                 for method, shares in shares_of_rows(found).items()},
        "error": float(f"{max(found.error, 1e-15):.1g}"),  # no smaller than rounding errors
    }  # fmt: skip
