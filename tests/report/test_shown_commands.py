"""The commands of a page can be run: their configs are read here as the commands read them."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest

from seqattn.config import Config, config_differences, resolve, to_yaml
from seqattn.config.comparing import plan_comparison
from seqattn.report.content.verdict import commands_for_other_model, describe_runs
from seqattn.runs import RunFolder
from seqattn.runs.storage import atomic_write
from tests.report.test_verdict import result

ONLY_WITH_ATTENTION = ("model.readout", "model.input_feeding", "model.context")
MODELS = [
    [],
    ["model.readout=tanh"],
    ["model.input_feeding=true"],
    ["model.input_feeding=true", "model.readout=tanh"],
    ["model.context=input"],
    *([f"model.cell={cell}", "model.readout=tanh"] for cell in ("lstm", "rnn")),
    ["model.bidirectional=true", "model.layers=2", "model.dropout=0.1", "model.context=input"],
    ["model.skip=linear", "model.skip_map=learned", "model.input_feeding=true"],
    *([f"model.attention.score={score}", "model.readout=tanh"]
      for score in ("uniform", "dot", "general", "additive", "cosine")),
    ["model.attention={normalizer: hard, estimator: reinforce, heads: 4, key_dim: 8}"],
    ["model.attention={score: dot, project_values: true, location: {kind: local}}",
     "model.context=input"],
    ["model.attention={normalizer: sparsemax}", "training.record_attention=5"],
]  # fmt: skip


def stored(folder: Path, *sets: str) -> tuple[RunFolder, Config]:
    """A run folder with a config and nothing else."""
    config = resolve(None, list(sets)).config
    run = RunFolder(folder / "outputs" / "run")
    run.path.mkdir(parents=True)
    atomic_write(run.config, to_yaml(config).encode())
    return run, config


def overrides(command: str) -> list[str]:
    words = shlex.split(command)
    return [after for word, after in itertools.pairwise(words) if word == "--set"]


@pytest.mark.parametrize("sets", MODELS, ids=" ".join)
def test_a_model_with_attention_is_trained_without_it(
    sets: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run, config = stored(tmp_path, *sets)
    (_, train), _, (_, compare) = commands_for_other_model(run, config)
    assert train.startswith("seqattn train outputs/run/config.yaml --set")
    other = resolve(run.config, overrides(train)).config
    assert not other.model.has_attention
    changed = {
        key for key in config_differences(config, other) if not key.startswith("model.attention")
    }
    assert changed == {key for key in ONLY_WITH_ATTENTION if f"{key}=" in " ".join(sets)}

    words = shlex.split(compare)
    assert words[:3] == ["seqattn", "compare", "outputs/run/config.yaml"]
    assert "--vary" not in words
    plan = plan_comparison(run.config, overrides(compare), seeds=8)
    assert [variant.name for variant in plan.variants] == ["with_attention", "without_attention"]
    assert [variant.config for variant in plan.variants] == [config, other]


def test_the_sentence_names_what_else_differs(tmp_path: Path) -> None:
    run, config = stored(tmp_path, "model.readout=tanh")
    (first, _), *_, (last, _) = commands_for_other_model(run, config)
    assert first == "Train the same model without attention, with readout: linear:"
    assert last == (
        "Compare the two kinds of model with eight seeds each, with readout: linear for the model"
        " without attention:"
    )


@pytest.mark.parametrize(
    "sets", [[], ["model.cell=lstm", "model.hidden_dim=7"], ["model.layers=2", "model.skip=linear"]]
)
def test_a_model_without_attention_is_trained_with_it(sets: list[str], tmp_path: Path) -> None:
    run, config = stored(tmp_path, "model.attention=null", *sets)
    (_, train), _ = commands_for_other_model(run, config)
    assert resolve(run.config, overrides(train)).config.model.has_attention


def test_the_place_of_the_context_is_no_other_cause() -> None:
    """A model without attention has no context."""
    plain = result("plain", 0.2, "model.attention=null")
    sentences, _ = describe_runs([result("squares", 0.01, "model.context=input"), plain])
    assert "also differ" not in sentences[0]
    sentences, commands = describe_runs([result("squares", 0.01, "model.readout=tanh"), plain])
    assert "The configs also differ in model.readout, so attention is not" in sentences[0]
    assert "model.readout: linear" in commands[-1][1]
