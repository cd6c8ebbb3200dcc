"""A run folder and a checkpoint never make a command import code."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqattn.config import load_plugin, read_stored
from seqattn.config.plugins import SOURCES, require_plugins
from seqattn.errors import PluginError
from tests.plugins.sources import BILINEAR_TANH

Command = Callable[..., Any]
COMMANDS = [
    ["evaluate"], ["doctor"], ["explain"], ["inspect"], ["plot-attention"], ["report"],
    ["predict", "--output", "p.csv"], ["export", "--output", "exported"],
]  # fmt: skip


@pytest.fixture
def copied(bilinear_run: Path, plugin_file: Path, tmp_path: Path) -> Path:
    """A run folder from someone else: it names a plugin that lies in it."""
    run = shutil.copytree(bilinear_run, tmp_path / "downloaded")
    evil = run / "my_attention.py"
    evil.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n{BILINEAR_TANH}")
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(str(plugin_file), str(evil)))
    return run


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_refuses_a_run_whose_plugin_is_not_loaded(
    seqattn: Command, copied: Path, words: list[str], tmp_path: Path
) -> None:
    done = seqattn(words[0], copied, *words[1:])
    assert done.code == 2
    assert "needs the plugin " in done.err and "my_attention.py (SHA-256 " in done.err
    assert "and give --plugin " in done.err
    assert not (tmp_path / "executed").exists()
    assert not SOURCES


@pytest.mark.usefixtures("untraced_graphs")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_with_the_plugin(
    seqattn: Command, bilinear_run: Path, plugin_file: Path, words: list[str], tmp_path: Path
) -> None:
    run = shutil.copytree(bilinear_run, tmp_path / "run")
    done = seqattn(words[0], run, *words[1:], "--plugin", plugin_file)
    assert done.code == 0, done.err
    assert "SHA-256" not in done.err


def test_the_config_of_a_run_folder_is_not_trusted_by_train(
    seqattn: Command, copied: Path, plugin_file: Path, tmp_path: Path
) -> None:
    done = seqattn("train", copied / "config.yaml", "--name", "again")
    assert done.code == 2
    assert "needs the plugin " in done.err
    assert not (tmp_path / "executed").exists()
    done = seqattn("config", "check", copied / "config.yaml", "--plugin", plugin_file)
    assert done.code == 0, done.err


def test_reading_in_python_names_the_function_to_call(bilinear_run: Path) -> None:
    with pytest.raises(PluginError, match=r"call seqattn.load_plugin first"):
        read_stored(bilinear_run / "config.yaml")


def test_a_checkpoint_keeps_the_file_name_and_the_digest(
    seqattn: Command, bilinear_run: Path, plugin_file: Path
) -> None:
    source = load_plugin(plugin_file)
    done = seqattn("inspect", bilinear_run, "--json")
    import json

    plugins = json.loads(done.out)["config"]["plugins"]
    assert plugins == [{"path": "my_attention.py", "sha256": source.sha256}]


@pytest.mark.filterwarnings("always::seqattn.config.PluginChangedWarning")
def test_a_changed_plugin_is_a_note_once(
    seqattn: Command, bilinear_run: Path, write: Callable[..., Path], plugin_file: Path
) -> None:
    changed = write("my_attention.py", BILINEAR_TANH.replace(".tanh()", ".sigmoid()"))
    before = load_digest(plugin_file)
    done = seqattn("evaluate", bilinear_run, "--plugin", changed)
    assert done.code == 0, done.err
    assert done.err == (
        f"plugin my_attention.py: the run was trained with SHA-256 {before}, and the loaded"
        f" my_attention.py has SHA-256 {load_digest(changed)}.\n"
    )


def load_digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_all_plugins_that_are_not_loaded_are_named() -> None:
    """Which of them the config needs is not known, because no code of the run folder is imported."""
    entries = [{"path": "a.py", "sha256": "0" * 64}, "b.py"]
    with pytest.raises(PluginError) as caught:
        require_plugins({"plugins": entries}, "run")
    message = str(caught.value)
    assert "needs at least one of these plugins, which are not loaded: " in message
    assert "give --plugin a.py --plugin b.py if you trust it" in message
