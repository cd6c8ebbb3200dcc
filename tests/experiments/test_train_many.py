"""What `train_many` keeps, logs and refuses of many jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqattn import experiments
from seqattn.analysis.evaluation import load_run
from seqattn.config import resolve
from seqattn.errors import UsageError
from seqattn.runs import RunFolder
from seqattn.training import load_model

SMALL = ["data.n_train=8", "data.n_validation=4", "data.n_test=4", "training.epochs=3",
         "model.hidden_dim=3", "training.batch_size=4"]  # fmt: skip


def test_a_resume_goes_on_with_the_recorded_attention(tmp_path: Path) -> None:
    sets = [*SMALL, "training.record_attention=1"]
    folder, _ = experiments.train_one(resolve(None, sets).config, tmp_path, plots=False)
    longer = resolve(None, [*sets, "training.epochs=5"]).config
    experiments.train_one(longer, tmp_path, plots=False, resume=True)
    assert folder.read_film()["epochs"].tolist() == [0, 1, 2, 3, 4, 5]


def test_two_runs_of_one_folder_are_refused(tmp_path: Path) -> None:
    config = resolve(None, SMALL).config
    with pytest.raises(UsageError, match="its own folder"):
        experiments.train_many([(config, RunFolder(tmp_path / "a"))] * 2)
    assert not list(tmp_path.iterdir())


def test_units_may_be_given_after_a_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    rows = "\n".join(f"{t},{t % 5}" for t in range(60))
    table.write_text(f"step,a\n{rows}\n")
    sets = ["data.kind=file", f"data.path={table}", "data.window={source: 6, target: 2}",
            "data.time=step", "data.split.by=time", "model.hidden_dim=3", "training.epochs=2"]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, sets).config, tmp_path / "out", plots=False)
    longer = resolve(None, [*sets, "training.epochs=4", "data.units={a: MW}"]).config
    experiments.train_one(longer, tmp_path / "out", plots=False, resume=True)
    for checkpoint in (folder.previous, folder.last, folder.best):
        assert load_run.open_run(checkpoint)[1].epoch > 0
    assert load_model(folder.last).spec.units == {"a": "MW"}
