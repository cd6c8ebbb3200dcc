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
# # Compare two mechanisms
#
# This notebook compares two attention mechanisms over several seeds, tests whether their losses differ, and writes a
# table for a paper.

# %%
# %matplotlib inline
from pathlib import Path

import seqattn

# %% [markdown]
# ## 1. The variants
#
# `vary` contains the values of a key. Each value is a variant, and each variant is trained with the same seeds.
# `uniform` gives each source point the same weight, so it shows what the learned weights contribute.

# %%
config = {
    "name": "mechanisms",
    "seed": 1,
    "data": {"kind": "squares", "n_train": 128, "n_test": 256},
    "model": {"kind": "recurrent", "hidden_dim": 2},
    "training": {"epochs": 60, "batch_size": 16, "learning_rate": 0.01},
}
comparison = seqattn.compare(
    config, vary={"model.attention.score": ["scaled_dot", "uniform"]}, seeds=8
)
comparison

# %% [markdown]
# ## 2. The conclusions
#
# Each seed is a pair of runs with the same data. Wilcoxon's signed-rank test compares the losses of the pairs.

# %%
for sentence in comparison.conclusions:
    print("-", sentence)

# %%
comparison.to_dataframe("pairs").T

# %% [markdown]
# ## 3. The losses of the seeds

# %%
losses = comparison.to_dataframe("seeds").pivot(index="seed", columns="variant", values="test_loss")
losses

# %%
losses.describe()

# %% [markdown]
# ## 4. The table
#
# The LaTeX table has the numbers of the comparison, the noise floor and the baselines. It needs `\usepackage{booktabs}`.

# %%
table = comparison.table("latex")
Path("mechanisms.tex").write_text(table)
print(table)

# %% [markdown]
# `rows="pairs"` selects the table of the tests:

# %%
print(comparison.table("markdown", rows="pairs"))

# %% [markdown]
# ## 5. One run
#
# Each run of the comparison can be opened, for example the best one of a variant.

# %%
comparison["scaled_dot"].best.plot_attention([0, 1])
