"""What the documents say is what happens."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.main import get_command

from seqattn import errors
from seqattn.cli import app
from seqattn.config import json_schema
from seqattn.config.keys import render_manual
from seqattn.config.shipped_configs import shipped_configs
from seqattn.plots.captions import WEIGHTS_CAPTION
from seqattn.runs import METRICS, RunFolder
from tests.conftest import ROOT, Ended
from tests.plugins.conftest import forget_plugins

pytestmark = pytest.mark.usefixtures("untraced_graphs")

DOCS = ROOT / "docs"
TEN = DOCS / "attention-in-ten-minutes.md"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BY_OTHER_TESTS = {TEN: "below, with its numbers", DOCS / "config.md": "it is generated",
                  DOCS / "plugins.md": "tests/plugins/test_page.py"}  # fmt: skip
"""Pages whose commands are not run by `test_every_command_of_a_page_does_what_it_should`."""
ORDER = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in (
    "own-data", "text", "compare", "tune", "many-machines", "report", "attribution", "doctor", "export",
    "commands", "tasks", "claims")),
    TEN]  # fmt: skip
"""Pages with commands, in the order of the site."""
SHIPPED = shipped_configs()
ANOTHER_PROCESS = ("--engine", "ray", "--ray-address", "HOST:PORT")
"""What asks for a cluster; tests/many has one."""


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


def typed(page: Path) -> Iterator[list[str]]:
    """The words of each command of a page, without comments."""
    text = "\n".join(blocks(page, "")).replace("\\\n", " ")
    for line in text.splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def config_of(words: list[str]) -> Path:
    """The config that a command trains: a file, or a shipped config by its name."""
    config = next(each for each in words[2:] if each.endswith(".yaml") or each in SHIPPED)
    return Path(config) if config.endswith(".yaml") else ROOT / SHIPPED[config]


def name_in(config: Path) -> Any:
    """The folder's name that a config asks for."""
    return yaml.safe_load(config.read_text())["name"]


# --- the tutorial ---------------------------------------------------------------------------------


def test_every_command_of_the_ten_minutes_page_does_what_the_page_states(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    """The runs of dates are shorter here; docs/figures.yaml has their numbers."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    page_text = " ".join(TEN.read_text().split())
    found = [line for block in blocks(TEN, "") for line in block.splitlines()]
    assert len(found) >= 18
    printed = {}
    for line in found:
        program, *words = shlex.split(line)
        assert program == "seqattn"
        if words[:2] == ["train", "dates"]:
            words = as_run_here([program, *words]) or []
        done = seqattn(*words)
        assert done.code == 0, f"{line}: {done.err}"
        printed[line] = done.out + done.err
    by_verb = {line: " ".join(text.split()) for line, text in printed.items()}
    everything = " ".join(by_verb.values())
    for number in ("0.3271", "0.0514", "1.0236", "4.2648", "1.4142", "3.0157", "0.6128", "0.0905",
                   "0.9170", "0.0830", "0.584"):  # fmt: skip
        assert number in everything, number
        rounded = number if number in page_text else f"{float(number):.3f}"
        assert rounded in page_text, number
    for line in "\n".join(blocks(TEN, "text")).splitlines():
        assert " ".join(line.split()) in everything, line
    sentence = (
        "scaled_dot is better than uniform: the typical difference in loss, uniform minus"
        " scaled_dot (Hodges-Lehmann), is 0.16 (95% interval: 0.12 to 0.2); scaled_dot is better"
        " in 12 of 12 seeds."
    )
    assert sentence in everything
    assert sentence in page_text


# --- the other pages ------------------------------------------------------------------------------


def as_run_here(words: list[str]) -> list[str] | None:
    """A command with less to do, and in this process; None of another program."""
    if words[0] == "torchrun":
        words = words[words.index("-m") + 1 :]
    if words[0] != "seqattn" or words[1:] == ["--help"]:
        return None
    less = [word for word in words[1:] if word not in ANOTHER_PROCESS]
    for option in ("--seeds", "--trials"):
        if option in less:
            less[less.index(option) + 1] = "2"
    if less[0] == "export":
        less += ["--format", "safetensors"]  # tests/export writes graphs, which takes seconds
    if less[0] not in ("train", "compare", "tune", "verify-resume"):
        return less
    if less[0] == "compare" and "--seeds" not in less:
        less += ["--seeds", "2"]
    sections = yaml.safe_load(config_of(["seqattn", *less]).read_text())
    for key in sections.get("compare", {}).get("along", {}):
        less += ["--along", f"{key}=4,8"]
    kind, sets = sections.get("data", {}).get("kind"), ["training.epochs=1"]
    if kind != "text":  # a text has thousands of pairs, and larger batches take less time
        sets += ["training.batch_size=8"]
    if kind not in ("file", "text"):
        sets += ["data.n_train=16", "data.n_validation=8", "data.n_test=8"]
    return [*less, *(word for each in sets for word in ("--set", each))]


@pytest.fixture
def examples(tmp_path: Path) -> Iterator[None]:
    """The plugins of the repository, which a page may load."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    yield
    forget_plugins()


@pytest.mark.parametrize("page", [page for page in ORDER if page != TEN], ids=lambda p: p.stem)
def test_every_command_of_a_page_does_what_it_should(
    page: Path, seqattn: Callable[..., Ended], tmp_path: Path, examples: None
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for block in blocks(page, "yaml"):
        if name := re.match(r"# (\S+\.yaml)\n", block):
            (tmp_path / name[1]).write_text(block)
    pairs = (f"{number} cats\t{number} katzen\n" for number in range(100))
    (tmp_path / "en-de.tsv").write_text("".join(pairs))
    commands = [less for words in typed(page) if (less := as_run_here(words)) is not None]
    assert commands
    text = " ".join(word for words in commands for word in words)
    for name in ("squares", "dates", "grammar"):
        if f"outputs/{name}" in text and f"train {name}" not in text:  # another page trains it
            first = as_run_here(["seqattn", "train", f"configs/{name}.yaml"])
            assert first is not None
            assert seqattn(*first).code == 0
    if "outputs/scores" in text and "configs/compare/scores.yaml" not in text:
        first = as_run_here(["seqattn", "compare", "configs/compare/scores.yaml"])
        assert first is not None
        assert seqattn(*first).code == 0
    for words in commands:
        done = seqattn(*words)
        assert done.code == 0, f"{page.name}: {shlex.join(words)}: {done.err}"


def test_no_page_has_commands_that_are_not_run() -> None:
    for page in PAGES:
        if page not in ORDER and page not in BY_OTHER_TESTS:
            found = [words for words in typed(page) if words[0] in ("seqattn", "torchrun")]
            assert not found, f"{page.name}: {found}; add the page to ORDER"


def test_the_pages_say_below_each_picture_of_weights_what_weights_are_not() -> None:
    with_weights = {"attention", "attribution", "dates", "film", "vectors", "report",
                    "report-words", "words"}  # fmt: skip
    without = {"scores", "scale", "cost", "bottleneck", "predictions",
               *(path.stem for path in (DOCS / "images").glob("claim-*.png"))}  # fmt: skip
    found = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text()
        for picture in re.finditer(r"!\[[^]]*\]\(\S*?([\w-]+)\.png\)\n", text):
            found.add(picture[1])
            caption = " ".join(text[picture.end() :].strip().split("\n\n")[0].split())
            if picture[1] in with_weights:
                assert WEIGHTS_CAPTION in caption, f"{page.name}: {picture[1]}"
    assert found - with_weights <= without
    assert with_weights <= found


def test_what_the_pages_say_to_make_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        named = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, f"{page.name}: {set(named) - targets}"


def test_scripts_and_tests_that_the_pages_name_are_there() -> None:
    named = {name for page in PAGES for name in re.findall(
        r"\b(?:scripts|tests)/[\w/]+\.py", page.read_text())}  # fmt: skip
    assert len(named) >= 10
    for name in sorted(named):
        assert (ROOT / name).is_file(), name


def test_files_and_names_that_contributing_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    package = [
        path for path in (ROOT / "seqattn").rglob("*.py") if "node_modules" not in path.parts
    ]
    sources = [
        *package,
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "seqattn/report/web").glob("src/*.ts"),
    ]
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in sources)))
    folders = [ROOT / folder for folder in ("", "seqattn", "seqattn/report", "seqattn/report/web")]
    quoted = set(re.findall(r"`([\w./-]+)`", text)) - {".venv", "utils", "tsc"}
    paths = {name for name in quoted if "/" in name}
    assert len(paths) > 40
    missing = [name for name in paths if not any((folder / name).exists() for folder in folders)]
    names = {name for name in quoted - paths if re.fullmatch(r"[A-Za-z_]\w+(\.[a-z_]+)?", name)}
    assert len(names) > 60
    missing += [name for name in names if not set(name.split(".")) <= words]
    assert missing == []


def test_commands_in_sentences_have_the_options_that_they_are_shown_with() -> None:
    """Those in blocks are run."""
    program, seen = get_command(app), 0
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for code in re.findall(r"`seqattn ([^`]+)`", text):
            verb, *words = code.split()
            command = program.commands.get(verb)  # type: ignore[attr-defined]
            if command is None:
                assert verb in ("COMMAND", "--help"), f"{page.name}: {code}"
                continue
            while words and words[0] in getattr(command, "commands", ()):
                command = command.commands[words.pop(0)]
            flags = {each for option in command.params for each in option.opts} | {"--help"}
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert used <= flags, f"{page.name}: {code}: {used - flags}"
            seen += 1
    assert seen >= 30


def test_ci_runs_the_tests_as_the_readme_says() -> None:
    assert ["make", "test"] in typed(ROOT / "README.md")
    assert "make test-long\n" in (ROOT / ".ci/run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    target = re.search(r"^test-long:.*\n\t(.*)", makefile, re.MULTILINE)
    assert target is not None
    assert "--ignore" in target[1]
    assert "tests/walks" not in target[1]


def test_commands_typed_in_order_do_not_meet_in_a_folder() -> None:
    """What trains goes to a folder of its own, or goes on with the same there."""
    taken = dict[str, list[str]]()
    for page in ORDER:
        for line in typed(page):
            if "seqattn" not in line:
                continue
            verb, *words = line[line.index("seqattn") + 1 :]
            if verb not in ("train", "compare", "tune"):
                continue
            ours = config_of(["seqattn", verb, *words])
            named = str(name_in(ROOT / ours)) if (ROOT / ours).exists() else ours.stem
            if "--name" in words:
                named = words[words.index("--name") + 1]
            goes_on = {"--resume", *ANOTHER_PROCESS}
            for option in {"--measure", "--margin", "--power"} & set(words):  # of finished runs
                del words[words.index(option) : words.index(option) + 2]
            what = [verb, *(word for word in words if word not in goes_on)]
            what = [word.removeprefix("configs/").removesuffix(".yaml") for word in what]
            fresh = named not in taken
            assert fresh or (taken[named] == what and (verb == "compare" or "--resume" in words)), (
                f"{page.name}: {line}"
            )
            taken[named] = what
    assert len(taken) >= 15


PYTHON = [
    page for page in PAGES if blocks(page, "python") and page.stem not in ("export", "plugins")
]
"""Pages with Python; that of export.md is run in tests/export, that of plugins.md in
tests/plugins."""


@pytest.mark.filterwarnings("ignore:Longer than all training sequences")
@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.stem)
def test_the_python_of_the_documents_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seqattn: Callable[..., Ended]
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for name in ("squares", "grammar"):
        first = as_run_here(["seqattn", "train", f"configs/{name}.yaml"])
        assert first is not None
        assert seqattn(*first).code == 0
    (tmp_path / "my.yaml").write_text(
        "name: my\ndata: {kind: file, window: {source: 4, target: 2}, split: {by: time}}\n"
        "training: {epochs: 1}\n"
    )
    days = pd.date_range("2021-01-01", periods=80)
    frame = pd.DataFrame({"level": np.sin(np.arange(80) / 3)}, index=days)
    for block in blocks(page, "python"):
        shutil.rmtree(tmp_path / "outputs" / "python", ignore_errors=True)
        known: dict[str, Any] = {"frame": frame}
        exec(compile(block.replace("epochs=20", "epochs=1"), str(page), "exec"), known)


def test_pages_with_python_are_found() -> None:
    assert {page.stem for page in PYTHON} >= {"README", "python-api", "data-files", "run-folder"}


# --- pages of reference against the code ----------------------------------------------------------


def test_every_key_is_in_the_page_of_keys() -> None:
    assert (DOCS / "config.md").read_text() == render_manual(json_schema())


def test_the_page_of_the_run_folder_has_every_file_column_and_key(attention_run: Path) -> None:
    page = (DOCS / "run-folder.md").read_text()
    names = {file.name for file in RunFolder(Path("x")).files} | {
        RunFolder(Path("x")).tensorboard.name
    }
    keys = {*RunFolder(attention_run).read_summary(), "diverged", "diverged_at"}
    assert len(names) >= 15
    for name in [*sorted(names), *METRICS, *sorted(keys)]:
        stem = name.removesuffix(".safetensors")
        assert f"`{name}`" in page or f"`{stem}`" in page or f"`{name}/`" in page, name


def test_the_page_of_exit_codes_has_every_error_with_its_code() -> None:
    page = (DOCS / "exit-codes.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    code_of = {name: row[0].strip("| ") for row in rows for name in re.findall(r"`(\w+)`", row[-1])}
    classes = [one for one in vars(errors).values() if isinstance(one, type)
               and issubclass(one, errors.SeqattnError) and one is not errors.SeqattnError]  # fmt: skip
    assert len(classes) >= 10
    for one in classes:
        if one is not errors.Interrupted:
            assert code_of[one.__name__] == str(one.exit_code), one
    for number in (2, 15):
        assert f"| {errors.Interrupted(number).exit_code} | SIG" in page
