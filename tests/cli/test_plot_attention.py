"""`seqattn plot-attention`: pictures and their formats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.small import MY_CSV
from tests.conftest import Ended, tree

Command = Callable[..., Ended]


def test_a_picture_is_drawn_again_without_torch(attention_run: Path, tmp_path: Path) -> None:
    before = (attention_run / "attention.png").read_bytes()
    (attention_run / "attention.png").unlink()
    code = (
        "import sys\nsys.argv = ['seqattn', 'plot-attention', sys.argv[1]]\n"
        "from seqattn.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'matplotlib' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(attention_run)], check=True, cwd=tmp_path)
    assert (attention_run / "attention.png").read_bytes() == before


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_of_my_own_sequences(
    seqattn: Command, attention_run: Path, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    done = seqattn("plot-attention", attention_run, "--input", "my.csv", "--examples", "2",
                   "--steps", "4", "--output", f"where.{ending}")  # fmt: skip
    assert done.code == 0, done.err
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert (tmp_path / f"where.{ending}").read_bytes().startswith(starts[ending])


def test_pictures_that_cannot_be_drawn(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    before = tree(attention_run)
    for words, message in (
        (["--output", "a.gif"], "End the file name in .png, .svg, .pdf"),
        (["--output", "a"], "the format of the picture is unknown"),
        (["--steps", "3"], "--steps needs --input"),
        (["--examples", "0"], "--examples"),
    ):
        done = seqattn("plot-attention", attention_run, *words)
        assert done.code == 2
        assert message in done.err
    assert tree(attention_run) == before
    assert not tree(tmp_path)
