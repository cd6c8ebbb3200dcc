"""What the documents say is what happens."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from seqattn.config import json_schema
from seqattn.config.manual import render_manual
from tests.conftest import ROOT, Ended

TEN = ROOT / "docs" / "attention-in-ten-minutes.md"


def blocks(page: Path, language: str) -> list[str]:
    """What stands between fences; "" for those that name no language."""
    found, inside = list[list[str]](), None
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            if inside is None and line[3:] == language:
                found.append([])
            inside = line[3:] if inside is None else None
        elif inside == language:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found]


def name_in(config: Path) -> Any:
    """The folder's name that a config asks for."""
    return yaml.safe_load(config.read_text())["name"]


def test_every_command_of_ten_minutes_does_what_is_told(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    said = TEN.read_text()
    found = [line for block in blocks(TEN, "") for line in block.splitlines()]
    assert len(found) >= 12
    printed = {}
    for line in found:
        program, *words = shlex.split(line)
        assert program == "seqattn"
        done = seqattn(*words)
        assert done.code == 0, f"{line}: {done.err}"
        printed[line] = done.out + done.err
    by_verb = {line: " ".join(text.split()) for line, text in printed.items()}
    everything = " ".join(by_verb.values())
    for number in ("0.3271", "0.0514", "1.0236", "4.2648", "1.4142", "3.0157", "0.6128", "0.0905",
                   "0.9170", "0.0830", "0.584"):  # fmt: skip
        assert number in everything, number
        rounded = number if number in said else f"{float(number):.3f}"
        assert rounded in said, number
    for line in "\n".join(blocks(TEN, "text")).splitlines():
        assert " ".join(line.split()) in everything, line
    weights = np.load(tmp_path / "outputs/attention/attention.npz")["weights"][:, 0, 0]
    looks = Counter(map(tuple, (weights.argmax(-1) + 1).tolist()))
    assert looks == {(1, 2): 67, (2, 2): 47, (1, 1): 14}
    assert "in 67 of the 128 sequences both steps" in said
    assert "in 47 both look at point 2, in 14 both at point 1" in said
    sentence = (
        "scaled_dot is better than uniform: the typical difference (Hodges-Lehmann) is 0.16, 95%"
        " interval 0.12 to 0.2; better in 12 of 12 seeds."
    )
    assert sentence in everything
    assert sentence in " ".join(said.split())
    assert "found worse than a baseline" in by_verb["seqattn doctor outputs/attention"]
    assert "median 0.05153, worst 0.1378" in by_verb["seqattn doctor outputs/many"]


def test_commands_typed_in_order_do_not_meet_in_a_folder() -> None:
    """What trains goes to a folder of its own, or goes on with the same there."""
    taken = {"squares": ["train", "configs/squares.yaml"]}  # by `make train`
    for page in (ROOT / "README.md", ROOT / "docs" / "scale.md", TEN):
        text = "\n".join(blocks(page, "")).replace("\\\n", " ")
        for line in text.splitlines():
            _, _, command = line.partition("seqattn ")
            verb, *words = shlex.split(command, comments=True) or [""]
            if verb not in ("train", "compare", "tune"):
                continue
            (ours,) = (word for word in words if word.endswith(".yaml"))
            named = str(name_in(ROOT / ours))
            if "--name" in words:
                named = words[words.index("--name") + 1]
            goes_on = {"--resume", "--engine", "ray", "--ray-address", "HOST:PORT"}
            what = [verb, *(word for word in words if word not in goes_on)]
            fresh = named not in taken
            assert fresh or (taken[named] == what and (verb == "compare" or "--resume" in words)), (
                f"{page.name}: {line}"
            )
            taken[named] = what
    assert len(taken) >= 12


def test_every_key_is_in_the_page_of_keys() -> None:
    assert (ROOT / "docs" / "config.md").read_text() == render_manual(json_schema())


def test_the_python_of_the_documents_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seqattn: Callable[..., Ended]
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    assert seqattn("train", "configs/squares.yaml", "--set", "training.epochs=1").code == 0
    for page in (ROOT / "docs" / "python-api.md", ROOT / "README.md"):
        found = blocks(page, "python")
        assert found
        for block in found:
            shutil.rmtree(tmp_path / "outputs" / "python", ignore_errors=True)
            known: dict[str, Any] = {}
            exec(compile(block.replace("epochs=20", "epochs=1"), str(page), "exec"), known)


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
