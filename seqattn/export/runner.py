"""Forecast sequences with the graph in this folder. This script needs numpy and onnxruntime, but
not torch.

python run.py sources.npy forecast.npz   sources (N, S, F), NaN beyond the end of shorter sources
python run.py known.npz forecast.npz     the array `source` of an NPZ file, and `source_observed`
                                         (False where a value was filled) if it has this mask
python run.py                            forecasts example.npz and prints the differences from it

If the model was trained with data.missing: interpolate, NaN before the end of a source is a missing
cell, which is interpolated.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # otherwise, ONNX Runtime uses the network

import onnxruntime

HERE = Path(__file__).parent


def forecast(
    source: np.ndarray, graph: str = "free_running.onnx", observed: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return the outputs of the graph, by name. The file card.json lists their names and shapes."""
    card = json.loads((HERE / "card.json").read_text(encoding="utf-8"))
    N, S, F = source.shape
    known = np.isfinite(source)
    lengths = (known.any(axis=2) * np.arange(1, S + 1)).max(axis=1).astype("int64")
    valid = np.arange(S) < lengths[:, None]
    observed = known if observed is None else known & observed
    if (
        np.isinf(source).any()
        or not lengths.all()
        or (card["missing"] is None and (observed.all(axis=2) != valid).any())
    ):
        sys.exit("A source is empty or has a gap; NaN is allowed only after its end.")
    if not observed.any(axis=1).all():
        sys.exit("A source has no observed value of a feature, so it cannot be interpolated.")
    if card["model"].get("skip") == "linear" and (lengths != card["source_length"]).any():
        sys.exit(f"model.skip: linear takes sources of {card['source_length']} points only.")
    source = source.astype("float64")
    for k, f in np.ndindex(N, F):
        gaps, seen = np.flatnonzero(valid[k] & ~known[k, :, f]), np.flatnonzero(observed[k, :, f])
        source[k, gaps, f] = np.interp(gaps, seen, source[k, seen, f])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(HERE / graph), options)
    inputs = {"source": source, "source_lengths": lengths, "source_observed": observed}
    taken = {one.name: inputs[one.name] for one in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, taken), strict=True))


if __name__ == "__main__" and len(sys.argv) == 3:
    given = np.load(sys.argv[1])
    is_array = isinstance(given, np.ndarray)
    source, observed = (
        (given, None) if is_array else (given["source"], given.get("source_observed"))
    )
    np.savez(sys.argv[2], allow_pickle=False, **forecast(source, observed=observed))
elif __name__ == "__main__" and len(sys.argv) > 1:
    sys.exit(__doc__)
elif __name__ == "__main__":
    example = np.load(HERE / "example.npz")
    observed = example.get("source_observed")
    for name, result in forecast(example["source"], observed=observed).items():
        difference = np.abs(result - example[name]).max()
        print(f"{name}: {result.shape}, {difference:.1e} from the example")
