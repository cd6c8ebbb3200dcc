"""What is refused for its size, before training takes any memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqattn import models
from seqattn.config import resolve
from seqattn.errors import UsageError
from seqattn.experiments import memory_estimate, train_one


def test_own_files_are_held_against_the_memory_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"{k},{t},{k + t}\n" for k in range(30) for t in range(4))
    (tmp_path / "a.csv").write_text("sequence,step,x\n" + rows)
    sets = ["data.kind=file", f"data.path={tmp_path / 'a.csv'}", "data.source_length=2"]
    config = resolve(None, [*sets, "name=own"]).config
    monkeypatch.setattr(memory_estimate, "physical_memory", lambda: 2**16)
    with pytest.raises(UsageError, match=r"would need about .* GiB for the parameters"):
        train_one(config, tmp_path / "outputs", plots=False)
    assert not (tmp_path / "outputs").exists()


def test_the_needed_and_the_present_memory_differ_in_the_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = resolve(None, ["data.n_train=10000000"]).config
    shape = memory_estimate.fixed_shape(config.data)  # type: ignore[arg-type]
    assert shape is not None
    counts = memory_estimate.generated_counts(config.data)  # type: ignore[arg-type]
    needed = sum(memory_estimate.estimate_training_memory(config, *shape, counts).values())
    monkeypatch.setattr(memory_estimate, "physical_memory", lambda: needed - 2**20)
    with pytest.raises(UsageError) as caught:
        memory_estimate.check_memory(config)
    there = f"{(needed - 2**20) / 2**30:.2f}"
    assert f"{needed / 2**30:.1f}" == f"{(needed - 2**20) / 2**30:.1f}"
    assert f"but the machine has {there} GiB." in str(caught.value)
    assert f"would need about {needed / 2**30:.2f} GiB" in str(caught.value)


def test_a_transformer_of_long_sequences_needs_no_room_for_pairs_of_points() -> None:
    """Fused attention keeps none, so what a step keeps grows as the length does."""
    sets = ["model.kind=transformer", "training.teacher_forcing.probability=1"]
    model = resolve(None, sets).config.model
    short, long = (models.activations_per_sequence(model, L, L) for L in (1024, 4096))
    assert long == 4 * short


def test_runs_that_differ_only_in_their_seeds_are_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = []
    monkeypatch.setattr(memory_estimate, "check_memory", checked.append)
    configs = [
        resolve(None, [f"seed={k}", f"data.test_seed={50 + k}", f"data.n_train={n}"]).config
        for k in range(3)
        for n in (64, 128)
    ]
    memory_estimate.check_memory_of_runs(configs)
    assert sorted(config.data.n_train for config in checked) == [64, 128]
