"""Forecast sequences with the graph in this folder. This script needs numpy and onnxruntime, but
not torch.

python run.py sources.npy forecast.npz   sources (N, S, F), NaN beyond the end of shorter sources
python run.py                            forecasts example.npz and prints the differences from it
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # otherwise, ONNX Runtime uses the network

import onnxruntime

HERE = Path(__file__).parent


def forecast(source: np.ndarray, graph: str = "free_running.onnx") -> dict[str, np.ndarray]:
    """Return the outputs of the graph, by name. The file card.json lists their names and shapes."""
    valid = np.isfinite(source).all(axis=2)
    lengths = valid.sum(axis=1).astype("int64")
    if not lengths.all() or (valid != (np.arange(valid.shape[1]) < lengths[:, None])).any():
        sys.exit("A source is empty or has a gap; NaN is allowed only after its end.")
    card = json.loads((HERE / "card.json").read_text(encoding="utf-8"))
    if card["model"].get("skip") == "linear" and (lengths != card["source_length"]).any():
        sys.exit(f"model.skip: linear takes sources of {card['source_length']} points only.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(HERE / graph), options)
    inputs = {"source": source.astype("float64"), "source_lengths": lengths}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


if __name__ == "__main__" and len(sys.argv) == 3:
    np.savez(sys.argv[2], allow_pickle=False, **forecast(np.load(sys.argv[1])))
elif __name__ == "__main__" and len(sys.argv) > 1:
    sys.exit(__doc__)
elif __name__ == "__main__":
    example = np.load(HERE / "example.npz")
    for name, result in forecast(example["source"]).items():
        difference = np.abs(result - example[name]).max()
        print(f"{name}: {result.shape}, {difference:.1e} from the example")
