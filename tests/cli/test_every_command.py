"""What holds for every command: errors, kinds of models, locales."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.runs.storage import read_arrays
from tests.cli.small import MY_CSV, small_config
from tests.conftest import Ended, tree

Command = Callable[..., Ended]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["train", "none.yaml"], 2, "none.yaml: no such file"),
        (["train", "my.yaml", "--set", "model.hidden=3"], 2, "Did you mean model.hidden_dim?"),
        (["train", "my.yaml", "--name", "a/b"], 2, "name: may have up to 100 letters"),
        (["train", "my.yaml", "--device", "cuda"], 2, "torch finds no GPU here"),
        (["train", "my.yaml", "--output-dir", "my.yaml"], 5, "my.yaml"),
        (["train"], 2, "CONFIG"),
        (["trian"], 2, "train"),
        (["predict", "my.yaml"], 4, "my.yaml: is a truncated or corrupt checkpoint"),
        (["predict", "."], 4, "is not a run folder"),
    ],
)
def test_what_cannot_be_done_says_why_and_changes_nothing(
    seqattn: Command, tmp_path: Path, words: list[str], code: int, message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    small_config(tmp_path)
    before = tree(tmp_path)
    done = seqattn(*words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err
    assert tree(tmp_path) == before
    assert len(done.err.splitlines()) <= 6


KINDS = {
    "fast_weights": "model={kind: fast_weights}",
    "transformer": "model={kind: transformer, model_dim: 8, heads: 2}",
    "hard": "model.attention={normalizer: hard, estimator: reinforce, heads: 2}",
}


@pytest.mark.parametrize("name", KINDS)
def test_every_verb_knows_every_kind(seqattn: Command, tmp_path: Path, name: str) -> None:
    """Train, stop and go on, predict, evaluate, plot, explain: on sources of unequal length."""
    sets = ["--set", KINDS[name], "--set", "data.n_train=16", "--set", "data.variable_length=true",
            "--set", "data.n_validation=8", "--set", "data.n_test=12",
            "--set", "training.teacher_forcing.probability=1", "--name", name]  # fmt: skip
    (tmp_path / "c.yaml").write_text("training: {epochs: 2}\n")
    (tmp_path / "my.csv").write_text(MY_CSV)
    done = seqattn("train", "c.yaml", *sets, "--name", "alone")
    assert done.code == 0, done.err
    assert (tmp_path / "outputs/alone/attention.png").exists()
    assert "seqattn plot-attention outputs/alone" in done.out
    done = seqattn("train", "c.yaml", *sets, "--seeds", "2", "--plots", "none")
    assert done.code == 0, done.err
    run = tmp_path / "outputs" / name / "seed-23"
    arrays = read_arrays(run / "attention.npz")
    layers, heads = {"fast_weights": (1, 1), "transformer": (2, 2), "hard": (1, 2)}[name]
    assert arrays["weights"].shape[1:3] == (layers, heads)
    assert np.isnan(arrays["weights"]).any()
    assert str(arrays["meaning"]) == ("strength" if name == "fast_weights" else "distribution")
    if name == "transformer":
        self_attention = arrays["decoder_self"]
        T = self_attention.shape[-1]
        assert np.isnan(self_attention[..., ~np.tri(T, dtype=bool)]).all()
        lengths = arrays["source_lengths"]
        for k, row in enumerate(arrays["encoder_self"]):
            real = np.isfinite(row[0, 0])
            assert real.sum() == lengths[k] ** 2
            np.testing.assert_allclose(np.nansum(row, axis=-1)[..., : lengths[k]], 1, atol=1e-5)
    for words in (
        ["train", "c.yaml", *sets, "--seeds", "2", "--set", "training.epochs=3", "--resume",
         "--plots", "none"],
        ["predict", run, "--input", "my.csv", "--attention", "w.npz"],
        ["evaluate", run],
        ["plot-attention", run, "--examples", "3"],
        ["plot-attention", run, "--input", "my.csv", "--steps", "4", "--layer", "1"],
        ["explain", run, "--example", "1"],
    ):  # fmt: skip
        done = seqattn(*words)
        assert done.code == 0, (words, done.err)
    for words, message in (
        (["--layer", "7"], "--layer 7: this model has"),
        (["--head", "7"], "--head 7: this model has"),
        (["--kind", "decoder_self"], "--kind decoder_self: this model has cross"),
    ):
        done = seqattn("plot-attention", run, *words)
        expected = 0 if name == "transformer" and "--kind" in words else 2
        assert done.code == expected
        assert expected == 0 or message in done.err
    assert (run / "attention-decoder_self.png").exists() == (name == "transformer")
    before = (run / "attention.png").read_bytes()
    done = seqattn("plot-attention", run, "--layer", "1", "--head", "1")
    assert done.code == 0
    assert (run / "attention-layer1-head1.png").exists()
    assert (run / "attention.png").read_bytes() == before
    done = seqattn("plot-attention", run, "--examples", "100")
    cut = {"transformer": "The first 5 sequences of 12. --layer and --head draw all sequences",
           "hard": "The first 10 sequences of 12. --head draws all sequences"}.get(name, "")  # fmt: skip
    assert cut in done.err
    assert ("--head" in done.err) == bool(cut)


def test_version(seqattn: Command) -> None:
    import seqattn as package

    assert seqattn("--version").out == f"seqattn {package.__version__}\n"


def test_works_without_a_home_and_in_any_locale(attention_run: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "LANG", "LC_ALL")}
    done = subprocess.run(
        [sys.executable, "-m", "seqattn", "evaluate", str(attention_run)], cwd=tmp_path,
        capture_output=True, env={**environment, "LC_ALL": "C"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
