"""What bash, zsh and fish are given when the Tab key is pressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.cli import completion
from tests.conftest import Ended

Command = Callable[..., Ended]
Complete = Callable[[str], list[str]]
SHELLS = ("bash", "zsh", "fish")
every_shell = pytest.mark.parametrize("complete", SHELLS, indirect=True)


def bash_words(line: str) -> list[str]:
    """The words of a line as bash splits them: an equals sign is a word of its own."""
    words = [part for word in line.split(" ") for part in re.split(r"(=)", word) if part]
    return [*words, ""] if line.endswith((" ", "=")) else words


@pytest.fixture
def complete(
    request: pytest.FixtureRequest, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> Complete:
    """Press Tab at the end of a line: what takes the place of the last word, without help."""
    shell = request.param
    monkeypatch.setenv(completion.VARIABLE, f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")

    def press(line: str) -> list[str]:
        words = bash_words(line)
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv(completion.KEY_VARIABLE, "")
        done = seqattn()
        assert done.err == ""
        lines = [each for each in done.out.splitlines() if each]
        if shell == "zsh":
            return re.findall(r'^(?:_arguments \'\*: :\(\()?"(.*?)"', done.out, re.MULTILINE)
        if shell == "fish":
            assert all("\t" in each for each in lines), "each value has a description"
        return [each.partition("\t")[0] for each in lines]

    return press


@every_shell
def test_keys_of_set_are_completed(complete: Complete) -> None:
    assert complete("seqattn train squares --set model.attention.no") == [
        "model.attention.normalizer=softmax", "model.attention.normalizer=sparsemax",
        "model.attention.normalizer=entmax", "model.attention.normalizer=hard",
    ]  # fmt: skip
    found = complete("seqattn train squares --set model.attention.")
    assert "model.attention.score=" in found
    assert "model.attention.heads=" in found
    assert all(each.startswith("model.attention.") for each in found)
    assert {"seed=", "name=", "model.attention=", "data.n_train="} <= set(
        complete("seqattn train squares --set ")
    )
    assert complete("seqattn compare notebook --seeds 4 --set training.ep") == [
        "training.epochs=100"
    ]
    assert complete("seqattn train squares --set model.nothing") == []


@every_shell
def test_values_of_set_are_completed(complete: Complete, request: pytest.FixtureRequest) -> None:
    is_bash = request.node.callspec.params["complete"] == "bash"

    def values(line: str) -> list[str]:
        """The values, without the key, which bash does not replace."""
        key = line.rpartition(" ")[2].partition("=")[0]
        return [each if is_bash else each.removeprefix(f"{key}=") for each in complete(line)]

    assert values("seqattn train squares --set model.cell=") == ["gru", "lstm", "rnn"]
    assert values("seqattn train squares --set model.cell=l") == ["lstm"]
    assert values("seqattn tune x.yaml --set seed=3 --set model.attention=") == ["null"]
    assert set(values("seqattn train a --set model.attention.score=")) == {
        "uniform", "dot", "scaled_dot", "general", "additive", "coverage", "cosine",
        "linear",
    }  # fmt: skip
    assert values("seqattn train a --set data.variable_length=") == ["true", "false"]
    assert values("seqattn train a --set training.clip_norm=n") == ["null"]
    assert "file" in values("seqattn train a --set data.kind=")
    assert values("seqattn train a --set nothing=") == []


@every_shell
def test_shipped_configs_and_files_are_completed(complete: Complete) -> None:
    Path("squid.yaml").write_text("name: a\n")
    Path("sub").mkdir()
    Path("sub/deep.yml").write_text("name: a\n")
    Path("squash.csv").write_text("a\n")
    assert complete("seqattn train sq") == ["squid.yaml", "squares"]
    assert complete("seqattn config check compare/") == ["compare/normalizers", "compare/scores"]
    assert complete("seqattn train su") == ["sub/deep.yml"]
    assert complete("seqattn train ./sq") == ["./squid.yaml"]
    assert complete("seqattn init my --from own") == ["own_data"]
    assert "squares" in complete("seqattn train --set seed=3 --name x ")


@every_shell
def test_run_folders_are_completed(complete: Complete) -> None:
    for run in ("outputs/one", "outputs/many/seed-1", "outputs/many/seed-2", "else/three"):
        (Path(run) / "checkpoints").mkdir(parents=True)
        (Path(run) / "config.yaml").write_text("name: a\n")
    Path("outputs/empty").mkdir()
    every = ["outputs/many", "outputs/many/seed-1", "outputs/many/seed-2", "outputs/one"]
    for command in ("evaluate", "doctor", "report", "inspect", "plot-attention"):
        assert complete(f"seqattn {command} ") == every
    assert complete("seqattn report outputs/one outputs/o") == ["outputs/one"]
    assert complete("seqattn evaluate outputs/many/") == every[1:3]
    assert complete("seqattn evaluate else/t") == ["else/three"]


@pytest.mark.parametrize(
    ("line", "words", "key"),
    [
        ("seqattn train a --set model.cell=", ["seqattn", "train", "a", "--set", ""], "model.cell"),
        ("seqattn train a --set=model.cell=g", ["seqattn", "train", "a", "--set", "g"],
         "model.cell"),
        ("seqattn train a --set x=3 ", ["seqattn", "train", "a", "--set", "x=3", ""], None),
        ("seqattn train --device=c", ["seqattn", "train", "--device", "c"], None),
    ],
)  # fmt: skip
def test_the_words_that_bash_splits_are_joined(
    line: str, words: list[str], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = bash_words(line)
    environment = {
        completion.VARIABLE: "complete_bash", "COMP_WORDS": "\n".join([*split, "after"]),
        "COMP_CWORD": str(len(split) - 1),
    }  # fmt: skip
    monkeypatch.setattr("os.environ", environment)
    completion.join_bash_words()
    assert environment["COMP_WORDS"].split("\n") == words
    assert int(environment["COMP_CWORD"]) == len(words) - 1
    assert environment.get(completion.KEY_VARIABLE) == key
