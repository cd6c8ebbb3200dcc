"""A run that goes on where numbers are rounded differently says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import read_checkpoint
from seqattn.runs.checksummed import save_checksummed
from tests.conftest import Ended

Command = Callable[..., Ended]
SETS = [word for text in ("data.n_train=8", "data.n_validation=4", "data.n_test=4")
        for word in ("--set", text)]  # fmt: skip


def rewrite(folder: RunFolder, **changes: Any) -> None:
    """Change environment.json, and the environment in the checkpoint."""
    known = json.loads(folder.environment.read_text())
    folder.environment.write_text(json.dumps(known | changes))
    rewrite_checkpoint(folder, **changes)


def rewrite_checkpoint(folder: RunFolder, **changes: Any) -> None:
    found = read_checkpoint(folder.last)
    environment = found.metadata.get("environment", {}) | changes
    save_checksummed(folder.last, found.tensors, {**found.metadata, "environment": environment})


@pytest.fixture
def folder(seqattn: Command, tmp_path: Path) -> RunFolder:
    (tmp_path / "c.yaml").write_text("name: c\n")
    done = seqattn("train", "c.yaml", *SETS, "--set", "training.epochs=1", "--device", "cpu",
                   "--plots", "none")  # fmt: skip
    assert done.code == 0, done.err
    return RunFolder(tmp_path / "outputs/c")


def resumed(seqattn: Command) -> Ended:
    done = seqattn("train", "c.yaml", *SETS, "--set", "training.epochs=2", "--device", "cpu",
                   "--resume", "--plots", "none")  # fmt: skip
    assert done.code == 0, done.err
    return done


def test_another_device_is_named_on_the_terminal_and_in_the_log(
    folder: RunFolder, seqattn: Command
) -> None:
    rewrite(folder, device="cuda", gpu="Some GPU")
    done = resumed(seqattn)
    words = "Changed since the checkpoint was saved: device cuda (Some GPU) -> cpu. This changes the rounding"
    assert words in done.err
    assert words in folder.log.read_text()
    assert folder.read_environment()["device"] == "cpu"


def test_the_environment_of_the_checkpoint_counts(folder: RunFolder, seqattn: Command) -> None:
    """A resume on this device that ended before its first save has written environment.json, but
    the checkpoint is still that of the other device."""
    rewrite_checkpoint(folder, device="cuda", gpu="Some GPU", packages={"torch": "1.0"})
    assert folder.read_environment()["device"] == "cpu"
    words = "Changed since the checkpoint was saved: device cuda (Some GPU) -> cpu, torch 1.0 ->"
    assert words in resumed(seqattn).err
    assert read_checkpoint(folder.last).metadata["environment"]["device"] == "cpu"


@pytest.mark.parametrize("changes", [{}, {"device": None, "gpu": None, "packages": {}}])
def test_no_message_is_logged_where_nothing_changed_or_is_known(
    changes: dict[str, Any], folder: RunFolder, seqattn: Command
) -> None:
    rewrite(folder, **changes)
    done = resumed(seqattn)
    assert "Changed since the checkpoint was saved" not in done.err + folder.log.read_text()
