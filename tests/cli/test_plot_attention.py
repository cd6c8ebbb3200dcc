"""`seqattn plot-attention`: pictures and their formats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import seqattn as seqattn_package
from tests.cli.small import MY_CSV
from tests.conftest import Ended, train_small, tree

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


def test_rollout_and_flow_of_a_transformer(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    run = train_small(
        tmp_path, "former", "model.hidden_dim=null", "data.variable_length=true",
        "model={kind: transformer, model_dim: 8, heads: 2, layers: 2}",
        "training.teacher_forcing.probability=1",
    )  # fmt: skip
    shown = []
    for method in ("rollout", "flow"):
        done = seqattn("plot-attention", run, "--show", method)
        assert done.code == 0, done.err
        assert (run / f"attention-{method}.png").exists()
        done = seqattn("plot-attention", run, "--show", method, "--terminal", "--examples", "2")
        shown.append(done.out)
        assert f"Attention {method} (Abnar and Zuidema 2020)" in " ".join(done.out.split())
        assert "layer" not in done.out.split("Attention")[0]  # all layers in one heatmap
        assert "all 12 sequences" not in done.out
        figure = seqattn_package.load(run).plot_attention(0, show=method)  # type: ignore[arg-type]
        assert (
            figure.axes[-1]
            .get_ylabel()
            .startswith("attention rollout" if method == "rollout" else "share of attention flow")
        )
    assert shown[0] != shown[1]
    done = seqattn("plot-attention", attention_run, "--show", "rollout", "--output", "a.png")
    assert done.code == 2
    assert "--show rollout: needs the self-attention of a Transformer" in done.err
    for words in (["--kind", "encoder_self"], ["--layer", "1"], ["--head", "2"], ["--grid"]):
        done = seqattn("plot-attention", run, "--show", "flow", *words)
        assert done.code == 2
        assert f"--show flow: combines all layers and heads; leave out {words[0]}" in done.err


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
