# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train a model on your own data
#
# This notebook trains a model on a table with one row for each day and place, and forecasts the next week of each place.
# To use your own table, replace the cell that makes the CSV file.

# %%
# %matplotlib inline
from pathlib import Path

import numpy as np
import pandas as pd

import seqattn

# %% [markdown]
# ## 1. A table
#
# The table contains the visitors of three places. The number of visitors depends on the day of the week and has noise.

# %%
days = pd.date_range("2024-01-01", periods=280)
random = np.random.default_rng(1)
by_weekday = np.array([20, 22, 25, 24, 40, 90, 75])
table = pd.concat(
    pd.DataFrame(
        {
            "place": place,
            "day": days,
            "visitors": size * by_weekday[days.day_of_week] + random.normal(0, 5, len(days)),
        }
    )
    for place, size in {"museum": 1.0, "park": 1.5, "zoo": 0.8}.items()
)
table.to_csv("visitors.csv", index=False)
frame = pd.read_csv("visitors.csv", parse_dates=["day"])
frame.head()

# %% [markdown]
# ## 2. Training
#
# seqattn finds the roles of the columns: the time, the series and the features. `data.window` is the number of days that
# the model reads and the number of days that it forecasts. With `data.split.by: time`, the last days of each series are
# the test part.

# %%
config = {
    "name": "visitors",
    "data": {
        "kind": "file",
        "window": {"source": 14, "target": 7},
        "split": {"by": "time"},
        "scaling": "standard",
    },
    "model": {"kind": "recurrent", "hidden_dim": 16, "attention": {"score": "scaled_dot"}},
    "training": {"epochs": 30, "batch_size": 16, "learning_rate": 0.02},
}
run = seqattn.train(config, frame, overwrite=True)
run

# %% [markdown]
# The losses are in scaled units. The baselines are forecasts without a model, such as the value of the day before.

# %%
run.to_dataframe("metrics").tail()

# %% [markdown]
# ## 3. Forecasts
#
# The forecasts of the test part are in the units of the table.

# %%
predictions = run.to_dataframe("predictions")
predictions["error"] = (predictions["forecast"] - predictions["target"]).abs()
predictions.groupby("step")["error"].mean()

# %%
run.plot_predictions(3)

# %% [markdown]
# `predict_frame` continues each series of a table. The model reads the last 14 days of each place.

# %%
last_days = frame.groupby("place").tail(14)
following = run.predict_frame(last_days)
following.head(7)

# %% [markdown]
# ## 4. Where the model attends
#
# The axis `source_step` counts the 14 days that the model reads. The mean over all test sequences shows the days with
# large weights for each day of the forecast.

# %%
weights = run.attention_weights()
mean_weights = pd.DataFrame(
    weights.values.mean(axis=(0, 1, 2)),
    index=pd.Index(weights.coords["target_step"], name="target step"),
    columns=pd.Index(weights.coords["source_step"], name="source step"),
)
mean_weights.round(2)

# %%
best = run.evaluate()
print(f"test loss {best.loss:.4f}, best baseline {min(best.references.baselines.values()):.4f}")
Path("visitors.csv").unlink()
