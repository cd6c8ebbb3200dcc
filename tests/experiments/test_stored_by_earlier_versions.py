"""Folders that an earlier version wrote: comparisons and searches go on, and are read back."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ended

TINY = (
    "data: {n_train: 8, n_validation: 4, n_test: 4}\ntraining: {epochs: 1}\n"
    "model: {hidden_dim: 2, skip: SKIP}\n"
)


def without_new_keys(content: Any) -> Any:
    """Stored plain data without keys that came later."""
    if isinstance(content, dict):
        return {key: without_new_keys(value) for key, value in content.items()
                if not key.endswith(("skip_map", "digest"))}  # fmt: skip
    return [without_new_keys(value) for value in content] if isinstance(content, list) else content


def made_older(folder: Path) -> None:
    for file in folder.rglob("*.json"):
        file.write_text(json.dumps(without_new_keys(json.loads(file.read_text()))))
    for file in folder.rglob("config.yaml"):
        file.write_text(re.sub(r"(?m)^ *skip_map:.*\n", "", file.read_text()))


@pytest.mark.parametrize("skip", ["none", "linear, skip_map: learned"])
def test_a_comparison_goes_on_and_is_read_back(seqattn: Callable[..., Ended], skip: str) -> None:
    content = "name: cm\n" + TINY.replace("SKIP", skip)
    content += "compare: {seeds: 2, variants: {a: {}, b: {model.hidden_dim: 3}}}\n"
    Path("c.yaml").write_text(content)
    assert seqattn("compare", "c.yaml").code == 0
    before = Path("outputs/cm/seeds.csv").read_bytes()
    made_older(Path("outputs/cm"))
    done = seqattn("compare", "c.yaml")
    assert done.code == 0, done.err
    assert Path("outputs/cm/seeds.csv").read_bytes() == before
    done = seqattn("report", "outputs/cm", "--no-live")
    assert done.code == 0, done.err


def test_another_comparison_is_still_refused(seqattn: Callable[..., Ended]) -> None:
    content = "name: cm\n" + TINY.replace("SKIP", "linear, skip_map: learned")
    content += "compare: {seeds: 2, variants: {a: {}, b: {model.hidden_dim: 3}}}\n"
    Path("c.yaml").write_text(content)
    assert seqattn("compare", "c.yaml").code == 0
    made_older(Path("outputs/cm"))
    Path("c.yaml").write_text(content.replace("learned", "frozen"))
    done = seqattn("compare", "c.yaml")
    assert done.code == 2 and "the config of a, b differs" in done.err


def test_a_search_goes_on(seqattn: Callable[..., Ended]) -> None:
    Path("c.yaml").write_text("name: tu\n" + TINY.replace("SKIP", "none"))
    words = ("tune", "c.yaml", "--search", "training.learning_rate=log(1e-3,1e-1)", "--trials")
    assert seqattn(*words, "1").code == 0
    made_older(Path("outputs/tu"))
    (database,) = Path("outputs/tu").glob("*.db")
    with contextlib.closing(sqlite3.connect(database)) as study, study:
        ((stored,),) = study.execute(
            "SELECT value_json FROM study_user_attributes WHERE value_json LIKE '%skip_map%'"
        )
        older = json.dumps(without_new_keys(json.loads(stored)))
        study.execute(
            "UPDATE study_user_attributes SET value_json = ? WHERE value_json = ?", (older, stored)
        )
    assert "skip_map" not in older
    done = seqattn(*words, "2")
    assert done.code == 0, done.err
    assert Path("outputs/tu/trial-1").exists()
