"""The parts of a page that show runs of symbols: the test sequences, and the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.tokens import END, PAD
from seqattn.plots.run_pictures import WEIGHT_KEYS
from seqattn.report.content.examples import choose_start
from seqattn.runs import RunFolder

MAX_SEQUENCES = 200
MAX_WRONG = 20
"""Maximum number of sequences with a wrong output among those that a page shows."""
MEASURE_NAMES = {
    "exact_match": "outputs that are right as a whole",
    "symbol_error_rate": "wrong, missing or extra symbols for each true one",
    "token_accuracy": "right next symbols, after the true ones",
    "perplexity": "perplexity, after the true symbols",
}
SHARES = ("exact_match", "symbol_error_rate", "token_accuracy")
"""The measures that are shown in percent."""


def is_of_symbols(summary: Mapping[str, Any]) -> bool:
    """Return whether the targets of a run with this summary are symbols."""
    return "token_accuracy" in summary["measures"]


def symbols_content(folder: RunFolder) -> dict[str, Any]:
    """Return the test sequences of symbols that a page shows, some wrong ones among them.

    Args:
        folder: the folder of a finished run.

    Raises:
        CheckpointError: if a file of the run cannot be read.
    """
    predictions = folder.read_predictions()
    attention = folder.read_attention() if folder.attention.exists() else {}
    source, target, forecast = (
        np.nan_to_num(predictions[name][..., 0]).astype(np.int64)
        for name in ("source", "target", "forecast")
    )
    wrong = np.flatnonzero(_ended(target, forecast.shape[1]) != _ended(forecast, forecast.shape[1]))
    selected = _select(len(source), np.unique(wrong))
    lengths = predictions["source_lengths"], predictions["target_lengths"]
    weights, links = attention.get(WEIGHT_KEYS["cross"]), attention.get("links")
    start = None
    if weights is not None and weights.size:
        losses = np.isin(selected, wrong).astype(np.float64)
        start = choose_start(weights[selected], losses)
    return {
        "words": {
            "total": len(source),
            "ids": [str(predictions["ids"][k]) for k in selected],
            "sources": [source[k, : lengths[0][k]].tolist() for k in selected],
            "targets": [target[k, : lengths[1][k]].tolist() for k in selected],
            "links": None if links is None
            else [links[links[:, 0] == k, 1:].tolist() for k in selected],
        },
        "start": start,
    }  # fmt: skip


def _ended(symbols: NDArray[np.int64], steps: int) -> NDArray[np.str_]:
    """Return one text for each sequence (N, T), which has the symbols before its end."""
    found = []
    for row in symbols[:, :steps].tolist():
        ends = [k for k, symbol in enumerate(row) if symbol in (END, PAD)]
        found.append(" ".join(map(str, row[: ends[0]] if ends else row)))
    return np.array(found)


def _select(count: int, wrong: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the sequences that a page shows, in their order."""
    kept = wrong[:MAX_WRONG]
    others = np.setdiff1d(np.arange(count), kept)[: MAX_SEQUENCES - len(kept)]
    return np.sort(np.concatenate([kept, others]))


def summary_of_symbols(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures of a run and of its baselines as rows, and sentences about them.

    Args:
        summary: the content of `summary.json`.
    """
    measures, baselines = summary["measures"], summary["baseline_measures"]
    shown = [name for name in MEASURE_NAMES if name in measures]
    rows = [["this model", *(_format(name, measures.get(name)) for name in shown)]]
    rows += [
        [baseline, *(_format(name, found.get(name)) for name in shown)]
        for baseline, found in baselines.items()
    ]
    return {
        "headings": ["output", *(MEASURE_NAMES[name] for name in shown)],
        "rows": rows,
        "sentences": _describe_alignment(summary),
        **{key: summary[key] for key in ("best_epoch", "epochs", "parameters", "seconds")},
    }


def _format(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{100 * value:.2f}%" if name in SHARES else f"{value:.4g}"


def _describe_alignment(summary: Mapping[str, Any]) -> list[str]:
    """Return sentences that compare the weights with known links; none if no links are known."""
    found = summary.get("alignment")
    if not found:
        return []
    shift = found["best_shift"]
    where = "" if shift == 0 else f", at a shift of {shift:+d} steps"
    key = f"{shift:+d}" if shift else "0"
    hit, aer = (100 * found[name][key] for name in ("hit", "aer"))
    return [
        f"The largest weight of a step lies on a linked source symbol in {hit:.1f}% of"
        f" {found['steps']:,} steps{where}; the alignment error rate is {aer:.1f}%."
    ]
