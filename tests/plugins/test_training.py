"""Training, comparison, search and resumption with plugins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from seqattn.analysis.evaluation.load_run import open_run
from seqattn.config import resolve
from seqattn.errors import UsageError
from tests.conftest import SMALL, train_small
from tests.plugins.broken import LOCATION, MISTAKES
from tests.plugins.conftest import forget_plugins
from tests.plugins.sources import BILINEAR_TANH, MEAN_MODEL, PARTS, TORCH_LINEAR

Command = Callable[..., Any]
Write = Callable[..., Path]
CONFIG = """
name: mine
plugins: [my_attention.py]
data: {n_train: 16, n_validation: 8, n_test: 8}
training: {epochs: 1, checkpoint_seconds: 0}
model: {hidden_dim: 5, attention: {score: bilinear_tanh, width: 4}}
"""


@pytest.fixture
def config(write: Write) -> Path:
    write("my_attention.py", BILINEAR_TANH)
    return write("my.yaml", CONFIG)


def weights(run: Path) -> dict[str, Any]:
    return dict(load_file(run / "checkpoints/best.safetensors"))


def test_train_and_resume_without_an_option(
    seqattn: Command, config: Path, no_pictures: None
) -> None:
    done = seqattn("train", config, "--quiet")
    assert done.code == 0, done.err
    stored = resolve(config).config.plugins
    assert json.dumps(stored[0].model_dump()) in Path("outputs/mine/config.yaml").read_text()
    forget_plugins()
    done = seqattn("train", config, "--resume", "--set", "training.epochs=2", "--quiet")
    assert done.code == 0, done.err
    assert "SHA-256" not in Path("outputs/mine/train.log").read_text()


@pytest.mark.filterwarnings("always::seqattn.config.PluginChangedWarning")
def test_a_resume_with_a_changed_plugin_is_written_to_the_log(
    seqattn: Command, config: Path, write: Write, no_pictures: None
) -> None:
    assert seqattn("train", config, "--quiet").code == 0
    forget_plugins()
    write("my_attention.py", f"{BILINEAR_TANH}\n# a comment\n")
    done = seqattn("train", config, "--resume", "--set", "training.epochs=2", "--quiet")
    assert done.code == 0, done.err
    assert done.err.count("plugin my_attention.py: the run was trained with SHA-256") == 1
    log = Path("outputs/mine/train.log").read_text()
    assert log.count("plugin my_attention.py: the run was trained with SHA-256") == 1
    forget_plugins()
    done = seqattn("train", config, "--resume", "--set", "training.epochs=3", "--quiet")
    assert (done.code, done.err) == (0, "")


def test_a_comparison_trains_the_seeds_side_by_side(
    seqattn: Command, config: Path, no_pictures: None
) -> None:
    words = ("compare", config, "--vary", "model.attention.score=bilinear_tanh,dot")
    config.write_text(CONFIG.replace(", width: 4", ""))
    done = seqattn(*words, "--seeds", "3", "--quiet", "--fixed-data", "--name", "pair")
    assert done.code == 0, done.err
    run = Path("outputs/pair/bilinear_tanh/seed-24")
    assert "batched with 2 other runs" in (run / "train.log").read_text()
    alone = ("train", config, "--quiet", "--set", "seed=24", "--name", "alone")
    assert seqattn(*alone).code == 0
    for name, values in weights(Path("outputs/alone")).items():
        np.testing.assert_allclose(weights(run)[name], values, atol=1e-5, err_msg=name)
    forget_plugins()
    done = seqattn("evaluate", run)
    assert done.code == 2
    config.parent.joinpath("my_attention.py").rename("moved.py")
    config.write_text(config.read_text().replace("my_attention.py", "moved.py"))
    done = seqattn(*words, "--seeds", "4", "--quiet", "--fixed-data", "--name", "pair")
    assert done.code == 0, done.err


def test_a_search(seqattn: Command, config: Path, no_pictures: None) -> None:
    pytest.importorskip("optuna")
    done = seqattn("tune", config, "--search", "model.attention.width=2,3", "--trials", "2",
                   "--quiet", "--name", "widths")  # fmt: skip
    assert done.code == 0, done.err
    forget_plugins()
    done = seqattn("config", "check", "outputs/widths/best.yaml")
    assert done.code == 0, done.err


def test_modules_without_an_axis_of_runs_are_trained_one_after_another(
    seqattn: Command, write: Write, no_pictures: None
) -> None:
    write("plain.py", TORCH_LINEAR)
    text = CONFIG.replace("my_attention", "plain").replace(
        "bilinear_tanh, width: 4", "torch_linear"
    )
    config = write("my.yaml", text)
    done = seqattn("train", config, "--seeds", "2", "--quiet")
    assert done.code == 0, done.err
    assert "batched" not in Path("outputs/mine/seed-23/train.log").read_text()
    assert seqattn("train", config, "--quiet", "--name", "alone").code == 0
    for name, values in weights(Path("outputs/alone")).items():
        np.testing.assert_array_equal(weights(Path("outputs/mine/seed-23"))[name], values)


@pytest.mark.parametrize(
    ("mistake", "model", "words"),
    [
        ("tensor instead of the output of a normalizer", "{attention: {normalizer: own_softmax}}",
         "seqattn: OwnSoftmax.normalize: must return seqattn.NormalizerOutput(weights)"),
        ("tensor instead of the output of a location", "{attention: {location: {kind: recency}}}",
         "seqattn: Recency.attention_weights: must return (weights, previous)"),
        ("tensor instead of the output of a model", "{kind: mean}",
         "seqattn: Mean.forward: must return seqattn.ModelOutput(values)"),
        ("exception", "{attention: {score: bilinear_tanh}}",
         "broken.py:46: a forecast of the model raises AttributeError: 'BilinearTanh' object has no"
         " attribute 'missing'"),
        ("exception of a constructor", "{attention: {location: {kind: recency}}}",
         "broken.py:14: the model's constructor raises TypeError: "),
    ],
)  # fmt: skip
def test_a_mistake_of_a_plugin_ends_the_training_with_a_message(
    mistake: str, model: str, words: str, seqattn: Command, write: Write, tmp_path: Path
) -> None:
    content = MISTAKES[mistake].content if mistake in MISTAKES else LOCATION.replace(
        "return cls()", "return cls(heads)"
    )  # fmt: skip
    path = write("broken.py", content)
    options = [each for word in SMALL if "hidden" not in word for each in ("--set", word)]
    base = write("base.yaml", f"name: broken\nmodel: {model}\n")
    done = seqattn("train", base, "--plugin", path, *options, "--quiet")
    assert done.code == 2
    assert words in done.err
    assert not (tmp_path / "outputs").exists()


PARTS_CONFIG = [
    "model.attention.normalizer={name: warm, temperature: 3}", "model.cell=leaky",
    "model.attention.location={kind: every, every: 3}", "data={kind: plus_one, n_train: 16}",
]  # fmt: skip


def test_every_other_kind(
    seqattn: Command, write: Write, tmp_path: Path, no_pictures: None
) -> None:
    path = write("parts.py", PARTS)
    tiny = [word for word in SMALL if not word.startswith("data.")]
    options = [each for word in (*tiny, *PARTS_CONFIG) for each in ("--set", word)]
    base = write("base.yaml", "name: parts\n")
    done = seqattn("train", base, "--plugin", path, *options, "--quiet")
    assert done.code == 0, done.err
    run = tmp_path / "outputs/parts"
    assert "name: warm" in (run / "config.yaml").read_text()
    forget_plugins()
    done = seqattn("evaluate", run, "--json", "--plugin", path)
    scored = json.loads(done.out)
    assert scored["plugin_metrics"]["largest_error"] > 0
    assert scored["baselines"]["first point"] > 0
    assert scored["noise_floor"] == 0
    assert "largest_error" in seqattn("evaluate", run, "--plugin", path).out
    done = seqattn("doctor", run, "--plugin", path)
    assert "loss above zero" in done.out and "Every run has it." in done.out
    assert "warm is not softmax" in done.out
    done = seqattn("report", run, "--no-live", "--output", "page.html", "--plugin", path)
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    assert "The task is plus_one, which a plugin defines." in page
    assert "Does the run have this problem: loss above zero?" in page
    assert "yes: a problem" in page
    with np.load(run / "attention.npz") as stored:
        found = stored["weights"]
    assert (found[..., 1] == 0).all() and (found[..., 3] > 0).all()


def test_a_model(seqattn: Command, write: Write, tmp_path: Path, no_pictures: None) -> None:
    path = write("mean.py", MEAN_MODEL)
    base = write("base.yaml", "name: mean\nmodel: {kind: mean}\n")
    options = [each for word in SMALL if "hidden" not in word for each in ("--set", word)]
    done = seqattn("train", base, "--plugin", path, *options, "--seeds", "3", "--quiet")
    assert done.code == 0, done.err
    run = tmp_path / "outputs/mean/seed-23"
    _, trained = open_run(run)
    with pytest.raises(UsageError, match="no attention weights that can be replaced"):
        trained.model.attention_shape()
    assert "batched with 2 other runs" in (run / "train.log").read_text()
    for words in (["evaluate"], ["doctor"], ["report"]):
        done = seqattn(*words, run, "--plugin", path)
        assert done.code == 0, done.err
    done = seqattn("export", run, "--output", "exported", "--plugin", path)
    assert done.code == 2
    assert "Mean is a model of a plugin, which cannot be exported as ONNX" in done.err
    done = seqattn("explain", run, "--plugin", path)
    assert "by Mean, which does not explain its arithmetic" in done.out, done.err


def test_the_page_shows_the_scores_of_a_plugin_without_arithmetic(
    bilinear_run: Path, plugin_file: Path, write: Write, tmp_path: Path
) -> None:
    from seqattn.config import load_plugin
    from seqattn.report.content import runs_content
    from seqattn.runs import RunFolder

    path = write("parts.py", PARTS)
    load_plugin(plugin_file)
    parts = train_small(tmp_path, "parts", f"plugins=[{path}]", *PARTS_CONFIG[:3])
    for run, normalizer in ((bilinear_run, "softmax"), (parts, "every")):
        content = runs_content([RunFolder(run)])
        (model,) = content["live"]["models"]
        assert model["graph"]
        assert model["config"]["attention"]["normalizer"] == normalizer


def test_the_next_commands_load_the_plugin(
    seqattn: Command, config: Path, no_pictures: None
) -> None:
    done = seqattn("train", config)
    assert "  seqattn evaluate outputs/mine --plugin my_attention.py\n" in done.out
    assert "  seqattn plot-attention outputs/mine --plugin my_attention.py\n" in done.out
    commands = [line.split() for line in done.out.splitlines() if line.startswith("  seqattn ")]
    for words in commands:
        forget_plugins()
        again = seqattn(*words[1:])
        assert again.code == 0, again.err
    done = seqattn("train", config, "--seeds", "2", "--name", "many")
    assert "Next, for one of them:\n  seqattn plot-attention outputs/many/seed-" in done.out
    assert done.out.endswith(" --plugin my_attention.py\n")
