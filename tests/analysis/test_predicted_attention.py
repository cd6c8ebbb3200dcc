"""`predict --attention`: the weights of many sequences go to the file as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.evaluation import attention_file, npz
from seqattn.data import json_lines as lines
from seqattn.models import Seq2SeqModel
from seqattn.runs.storage import read_arrays
from tests.conftest import Ended

Command = Callable[..., Ended]
TEXT = """
name: r
data: {kind: copy, length: 5, n_train: 6, n_validation: 3, n_test: 3}
model: {kind: transformer, model_dim: 8, heads: 2, layers: 2}
training: {epochs: 1, teacher_forcing: {probability: 1}}
"""
LENGTHS = (2, 5, 3, 1, 4, 5, 2)


@pytest.fixture
def run(seqattn: Command, tmp_path: Path) -> Path:
    (tmp_path / "r.yaml").write_text(TEXT)
    done = seqattn("train", "r.yaml", "-q", "--plots", "none")
    assert done.code == 0, done.err
    numbers = np.random.default_rng(3)
    with (tmp_path / "in.jsonl").open("w") as file:
        for length in LENGTHS:
            points = numbers.normal(size=(length, 2)).round(3).tolist()
            file.write(json.dumps({"source": points}) + "\n")
    return tmp_path / "outputs/r"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sequences each forecast was of, from which no weights were kept."""
    from seqattn.analysis import evaluation

    found, plain = list[int](), evaluation.free_run

    def watched(model: Seq2SeqModel, part: Any, *args: Any, **options: Any) -> Any:
        found.append(len(part))
        result = plain(model, part, *args, **options)
        assert not result.maps
        return result

    monkeypatch.setattr(evaluation, "free_run", watched)
    monkeypatch.setattr("seqattn.cli.inputs.free_run", watched)
    return found


def same(one: Path, other: Path) -> None:
    found, wanted = read_arrays(one), read_arrays(other)
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(found[key], array, atol=1e-6)
        else:
            assert np.array_equal(found[key], array), key


def test_weights_of_several_pieces_are_those_of_one(
    run: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch, calls: list[int], tmp_path: Path
) -> None:
    words = ["predict", run, "--input", "in.jsonl", "--steps", "4", "--output", "o.csv"]
    assert seqattn(*words, "--attention", "whole.npz").code == 0
    assert calls == [7]
    calls.clear()
    monkeypatch.setattr(lines, "MAX_CHUNK_VALUES", 4)
    monkeypatch.setattr(attention_file, "MAX_MEMORY_BYTES", 100)
    monkeypatch.setattr(npz, "MIN_COMPRESSED_BYTES", 100)
    assert seqattn(*words, "--attention", "pieces.npz").code == 0
    assert len(calls) > 2
    same(tmp_path / "pieces.npz", tmp_path / "whole.npz")
    arrays = read_arrays(tmp_path / "pieces.npz")
    assert arrays["weights"].shape == (7, 2, 2, 4, 5)
    assert arrays["encoder_self"].shape == (7, 2, 2, 5, 5)
    assert arrays["decoder_self"].shape == (7, 2, 2, 4, 4)
    assert "alignment" not in arrays
    assert arrays["ids"].tolist() == [str(k) for k in range(1, 8)]
    real = np.isfinite(arrays["weights"])
    assert real[:, 0, 0, 0].sum(axis=-1).tolist() == list(LENGTHS)
    np.testing.assert_allclose(np.nansum(arrays["weights"], axis=-1), 1, rtol=1e-5)
    assert not list(tmp_path.glob("*.part"))


def test_weights_of_the_test_sequences_keep_none_in_memory(
    run: Path, seqattn: Command, calls: list[int], tmp_path: Path
) -> None:
    words = ["--attention", "w.npz", "--output", "o.csv", "--attention-override", "uniform"]
    assert seqattn("predict", run, *words).code == 0
    assert calls == [3, 3]  # the second by the model's own weights, for its loss
    weights = read_arrays(tmp_path / "w.npz")["weights"]
    assert weights.shape == (3, 2, 2, 5, 5)
    np.testing.assert_allclose(weights, 0.2, rtol=1e-6)
