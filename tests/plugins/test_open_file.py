"""What a plugin has written is in its file after the command, whatever Python skips at the exit."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import SMALL, fresh_process
from tests.plugins.sources import BILINEAR_TANH

OPEN_FILE = """
LOG = open("plugin.log", "w")
def log(text):
    LOG.write(text)
log("loaded")
"""


def test_a_file_that_a_plugin_leaves_open_is_written(tmp_path: Path) -> None:
    plugin = tmp_path / "my_attention.py"
    plugin.write_text(BILINEAR_TANH + OPEN_FILE)
    sets = [word for key in SMALL for word in ("--set", key)]
    done = fresh_process(["train", "squares", *sets, "--plugin", plugin], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plugin.log").read_text() == "loaded"
