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
# # Attention in ten minutes
#
# This notebook trains a small sequence-to-sequence model, first without attention and then with attention. The task is
# to complete a square: the model gets two of the four corners, with some noise, and predicts the other two corners. The
# given corners are the *source*, and the corners to predict are the *target*. The model has a state of **two numbers**.

# %%
# %matplotlib inline
import numpy as np

import seqattn

# %% [markdown]
# A config is a dict with the content of a YAML file. A key that is missing has its default value.

# %%
config = {
    "seed": 1,
    "data": {"kind": "squares", "n_train": 128, "n_test": 128},
    "model": {"kind": "recurrent", "hidden_dim": 2},
    "training": {
        "epochs": 100,
        "batch_size": 16,
        "learning_rate": 0.01,
        "teacher_forcing": {"schedule": "constant", "probability": 0.5, "coin": "step"},
    },
}

# %% [markdown]
# ## 1. A model without attention
#
# An *encoder* reads the source points one by one and updates its state after each point. A *decoder* starts from the
# last state of the encoder and predicts the target points. Two underscores in the name of an argument separate the keys
# of a config: `model__attention` is the key `model.attention`.

# %%
plain = seqattn.train(config, name="plain", model__attention=None, overwrite=True)
plain

# %% [markdown]
# The table has the mean squared error on test squares, which were not used in training. The *noise floor* is the
# error of a forecast that knows the true corners; no model has a reliably smaller error. The *baselines* are simple forecasts without a model. The rule "each target
# corner is opposite one of the source corners" needs no training, and it is better than this model: two numbers are too
# few to describe two corners.

# %% [markdown]
# ## 2. A model with attention
#
# With *attention*, the decoder can also read the states that the encoder had after each source point. At each step, the
# decoder computes a *weight* for each source point, and reads the weighted mean of the encoder states.

# %%
run = seqattn.train(config, name="attention", model__attention__score="scaled_dot", overwrite=True)
run

# %%
for name, trained in {"without attention": plain, "with attention": run}.items():
    print(f"{name}: test loss {trained.summary['test_loss']:.4f}")

# %% [markdown]
# ## 3. The weights
#
# The weights of all test sequences are an array with named axes. With the package xarray, the array is an
# `xarray.DataArray`; without it, the array is a named tuple with the same fields `values`, `dims` and `coords`.

# %%
weights = run.attention_weights()
print(dict(zip(weights.dims, weights.values.shape, strict=True)))

# %% [markdown]
# Each row of a heatmap is a target point, and each column is a source point. The weights of a row sum to 1.

# %%
run.plot_attention([0, 1, 2])

# %%
assert np.allclose(weights.values.sum(axis=-1), 1, atol=1e-5)
mean_weights = weights.values.mean(axis=(0, 1, 2))
for step, row in enumerate(mean_weights, start=1):
    print(f"target step {step}: mean weights of the source steps {row.round(2)}")

# %% [markdown]
# ## 4. Do the weights matter?
#
# A heatmap does not show whether the forecast depends on the weights. To test this, replace the weights of the model
# with equal weights, and measure the error again.

# %%
test = run.data.test
own = run.predict(test.source)
uniform = run.predict(test.source, attention_override="uniform")
for name, forecast in {"own weights": own, "equal weights": uniform}.items():
    print(f"{name}: mean squared error {np.mean((forecast - test.target) ** 2):.4f}")

# %% [markdown]
# ## 5. Many seeds
#
# One training run is not enough for a conclusion, because another seed gives another model. `seqattn.train_seeds` trains
# many seeds together, in little more time than one seed needs.

# %%
seeds = seqattn.train_seeds(
    config, 8, name="many", model__attention__score="scaled_dot", overwrite=True
)
seeds

# %%
seeds.to_dataframe("seeds")

# %% [markdown]
# The notebook `compare_two_mechanisms` compares two mechanisms over many seeds, with a statistical test. The notebook
# `own_data` trains a model on a table.
