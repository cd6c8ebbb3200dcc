"""`seqattn inspect`, and checkpoints that no command reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.runs import RunFolder
from tests.cli.small import small_config
from tests.conftest import Ended, tree

Command = Callable[..., Ended]


def test_broken_checkpoints_end_with_4(seqattn: Command, copied: RunFolder, tmp_path: Path) -> None:
    import pickle

    whole = copied.best.read_bytes()
    for content, words in (
        (whole[:-5], "is a truncated or corrupt checkpoint"),
        (b"", "is a truncated or corrupt checkpoint"),
        (pickle.dumps({"a": 1}), "pickle files are never opened"),
    ):
        copied.best.write_bytes(content)
        before = tree(tmp_path)
        for command in ("predict", "evaluate"):
            done = seqattn(command, "run")
            assert done.code == 4
            assert words in done.err
            assert "Traceback" not in done.err
        assert tree(tmp_path) == before


def test_a_checkpoint_of_other_shapes_ends_with_4(
    seqattn: Command, copied: RunFolder, tmp_path: Path
) -> None:
    text = copied.config.read_text()
    copied.config.write_text(text.replace("hidden_dim: 5", "hidden_dim: 6"))
    done = seqattn("predict", "run")
    assert done.code == 4
    assert "contains a model that differs from the config of its folder" in done.err
    assert "model.hidden_dim: config.yaml has 6, checkpoint has 5" in done.err
    copied.config.write_text("name: [")
    done = seqattn("predict", "run")
    assert done.code == 4
    assert "its config cannot be read" in done.err


def test_inspect_shows_a_checkpoint_without_a_model(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqattn.training.checkpoints.build_model", None)
    last = attention_run / "checkpoints" / "last.safetensors"
    done = seqattn("inspect", last)
    assert done.code == 0, done.err
    for words in (f"last.safetensors: valid, {last.stat().st_size:,} bytes", "kind: training",
                  "version: 3", "model.hidden_dim: 5", "optimizer.output.bias.exp_avg_sq",
                  "trained on: x, y (at most 2 steps) -> x, y (at most 2 steps)"):  # fmt: skip
        assert words in done.out
    assert not re.search("^ *name:", done.out, re.MULTILINE), "no checkpoint has one"
    described = json.loads(seqattn("inspect", attention_run, "--json").out)
    assert described["kind"] == "model"
    assert described["layout"]["source"]["names"] == ["x", "y"]
    sizes = {row["name"]: row["shape"] for row in described["tensors"]}
    assert sizes["output.weight"] == [2, 10]
    done = seqattn("inspect", small_config(Path.cwd()))
    assert done.code == 4
