"""Every JSON file of a folder, damaged in several ways, read by every command that opens it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from tests.conftest import SMALL, Ended

pytestmark = pytest.mark.usefixtures("untraced_graphs")

Command = Callable[..., Ended]
SETS = [word for each in [*SMALL, "training.epochs=2"] for word in ("--set", each)]
VARY = ["--vary", "training.learning_rate=0.01,0.02", "--seeds", "2", "--name", "two", "-q"]
SEARCH = ["--search", "training.learning_rate=log(1e-3,1e-1)", "--trials", "1", "--name", "rates", "-q"]  # fmt: skip
RUN = "outputs/squares"
READING = {
    RUN: [
        ("report", RUN),
        ("doctor", RUN),
        ("evaluate", RUN),
        ("predict", RUN),
        ("plot-attention", RUN, "--terminal"),
        ("inspect", RUN),
        ("explain", RUN),
        ("export", RUN, "--output", "exported", "--format", "safetensors", "--overwrite"),
        ("train", "a.yaml", *SETS, "--resume", "-q", "--plots", "none"),
    ],
    "outputs/seeds": [
        ("report", "outputs/seeds"),
        ("doctor", "outputs/seeds"),
        ("doctor", "outputs/seeds/seed-23"),
        ("train", "a.yaml", *SETS, "--name", "seeds", "--seeds", "2", "--resume", "-q"),
    ],
    "outputs/two": [
        ("report", "outputs/two"),
        ("doctor", "outputs/two"),
        ("compare", "a.yaml", *SETS, *VARY),
    ],
    "outputs/rates": [("tune", "a.yaml", *SETS, *SEARCH)],
}
FILES = [
    (RUN, "summary.json"),
    (RUN, "environment.json"),
    ("outputs/seeds", "seed-24/summary.json"),
    ("outputs/seeds", "seed-24/environment.json"),
    ("outputs/two", "comparison.json"),
    ("outputs/two", "learning_rate-0.02/seed-24/summary.json"),
    ("outputs/two", "learning_rate-0.02/seed-24/environment.json"),
    ("outputs/rates", "tune.json"),
]
opened: list[str] | None = None


def _note(event: str, about: tuple[Any, ...]) -> None:
    if event == "open" and opened is not None and about:
        opened.append(str(about[0]))


sys.addaudithook(_note)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


@pytest.fixture
def here(folders: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folders)
    if not Path("a.yaml").exists():
        Path("a.yaml").write_text("data: {kind: squares}\n")
        for words in (
            ("train", "a.yaml", *SETS, "-q", "--plots", "none"),
            ("train", "a.yaml", *SETS, "--name", "seeds", "--seeds", "2", "-q"),
            ("compare", "a.yaml", *SETS, *VARY),
            ("tune", "a.yaml", *SETS, *SEARCH),
        ):
            assert seqattn(*words).code == 0
    return folders


def damages(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """What is done to a file, and what is then in it."""
    yield "empty", b""
    yield "cut short", raw[: len(raw) // 2]
    yield "no text", b"\xff\xfe\x00"
    yield "nested", b"[" * 10_000
    content = json.loads(raw)
    for whole in ([content], None, 3, {}):
        yield f"{str(whole)[:9]} instead", json.dumps(whole).encode()
    for key in content:
        yield f"{key} is null", json.dumps({**content, key: None}).encode()


@pytest.mark.parametrize(("folder", "file"), FILES)
def test_no_damage_ends_in_a_traceback(
    folder: str, file: str, here: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    global opened
    monkeypatch.setattr("seqattn.report.VENDORED", {})  # megabytes that nothing here reads
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)  # nor do pictures show a damage
    path = here / folder / file
    for words in READING[folder]:
        monkeypatch.chdir(here)
        opened = []
        seqattn(*words)
        read, opened = set(opened), None
        if not any(name.endswith(f"{folder}/{file}") for name in read):
            continue
        raw = path.read_bytes()
        for damage, content in damages(raw):
            path.write_bytes(content)
            try:
                done = seqattn(*words)
            except Exception as error:
                raise AssertionError(f"{file}: {damage}: {words}") from error
            assert done.code in (0, 2, 3, 4), (damage, words, done.err)
            assert "Traceback" not in done.err
        path.write_bytes(raw)
    shutil.rmtree(here / "exported", ignore_errors=True)
