"""Python API: functions that train and open runs, seeds and comparisons.

run = seqattn.train("squares", training__epochs=20)
run = seqattn.load("outputs/squares")
run.predict(source)          # arrays in, arrays out
run.plot_attention(3)        # returns a matplotlib figure
run.to_dataframe("metrics")  # returns a pandas or polars DataFrame
"""

from seqattn.experiments.api.arguments import DataNote
from seqattn.experiments.api.comparison import Comparison, Seeds, load
from seqattn.experiments.api.formats import LabelledArray
from seqattn.experiments.api.run import Run
from seqattn.experiments.api.training import compare, train, train_seeds

__all__ = [
    "Comparison", "DataNote", "LabelledArray", "Run", "Seeds", "compare", "load", "train",
    "train_seeds",
]  # fmt: skip
