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
# # Translate words
#
# This notebook trains a model that translates English sentences into an artificial language: the verb is last, an
# adjective follows its noun, and articles are dropped. It shows which source words the model reads, and tests whether
# the translation depends on the weights.

# %%
# %matplotlib inline
import numpy as np

import seqattn

# %% [markdown]
# The task `grammar` draws sentences, with known links between source and target words. The config is small, so that the
# training takes a few seconds. `seqattn train grammar` trains a larger model, which translates every test sentence.

# %%
config = {
    "seed": 23,
    "data": {"kind": "grammar", "n_train": 1500, "n_validation": 60, "n_test": 80},
    "model": {
        "kind": "recurrent",
        "hidden_dim": 24,
        "bidirectional": True,
        "attention": {"score": "dot"},
    },
    "training": {
        "epochs": 4,
        "batch_size": 30,
        "learning_rate": 0.02,
        "teacher_forcing": {"schedule": "constant", "probability": 1},
    },
}
run = seqattn.train(config, name="words", overwrite=True)
run

# %% [markdown]
# ## Translate
#
# `predict` takes a text or a list of texts. `translate` also returns scores, symbols and attention weights; with
# `beam` and `n_best`, it returns several translations, the best first.

# %%
sentence = "a man saw the old ship"
print(run.predict(sentence))
for output in run.translate(sentence, beam=5, n_best=3):
    print(f"{output.score:.2f}  {output.text}")

# %% [markdown]
# ## Where the model reads
#
# Each row is an output word, and each column is a source word. The weights of a row sum to 1.

# %%
run.plot_attention(sentence)

# %%
(best,) = run.translate(sentence)
for symbol, row in zip(best.target, best.weights, strict=True):
    print(f"{symbol:6} reads {best.source[row.argmax()]:6} with weight {row.max():.2f}")

# %% [markdown]
# The weights show where the model read encoder states, which also carry their neighbours. The links of this task are
# known, so the alignment error rate (AER) says how far the largest weights are from them. 0 is best.

# %%
print(f"alignment error rate: {run.summary['alignment']['aer']['0']:.3f}")

# %% [markdown]
# ## Do the weights matter?
#
# Replace the weights of the model with equal weights, and count how many translations are right.

# %%
test = run.data.test
texts = [
    test.source_space.text(source[:length])
    for source, length in zip(test.source, test.source_lengths, strict=True)
]
truth = [test.target_space.text(target) for target in test.target]
for name, override in {"own weights": None, "equal weights": "uniform"}.items():
    outputs = run.predict(texts, steps=test.target_steps, attention_override=override)
    print(f"{name}: exact match {np.mean(np.array(outputs) == np.array(truth)):.0%}")
