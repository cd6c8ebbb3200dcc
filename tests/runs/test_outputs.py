"""Output files that a user names."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.errors import UsageError
from seqattn.runs.storage import check_outputs, output_file, write_output
from tests.conftest import Ended

Command = Callable[..., Ended]


@pytest.fixture
def run(attention_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(attention_run, tmp_path / "run")
    (tmp_path / "x.csv").write_text("sequence,step,x,y\na,1,0.5,1\na,2,1,1\n")
    return tmp_path / "run"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "run", "--input", "x.csv", "--output", "x.csv"),
        ("predict", "run", "--input", "x.csv", "--output", "link.csv"),
        ("predict", "run", "--input", "x.csv", "--output", "hard.csv"),
        ("predict", "run", "--output", "x.npz", "--attention", "x.npz"),
        ("predict", "run", "--output", "run/metrics.csv"),
        ("plot-attention", "run", "--output", "best.png"),
        ("explain", "run", "--figure", "best.png"),
        ("report", "run", "--output", "summary.html"),
        ("data", "check", "x.csv", "--picture", "input.png"),
    ],
)
def test_no_output_replaces_what_is_read(
    words: tuple[str, ...], run: Path, seqattn: Command
) -> None:
    home = run.parent
    (home / "y").mkdir()
    for link, to in (("link.csv", "x.csv"), ("input.png", "x.csv"),
                     ("best.csv", "run/checkpoints/best.safetensors"),
                     ("best.png", "run/checkpoints/best.safetensors"),
                     ("summary.html", "run/summary.json"),
                     ("config.csv", "run/config.yaml")):  # fmt: skip
        (home / link).symlink_to(to)
    (home / "hard.csv").hardlink_to(home / "x.csv")
    before = contents(home)
    done = seqattn(*words)
    assert done.code == 2, done.err
    assert "is the same file as" in done.err
    assert contents(home) == before


def test_own_training_data_are_kept(run: Path, seqattn: Command) -> None:
    config = (run / "config.yaml").read_text()
    data = "data: {kind: file, path: x.csv, source_length: 1}\n"
    (run / "config.yaml").write_text(data + "model: {hidden_dim: 5}\n")
    done = seqattn("predict", "run", "--output", "x.csv")
    assert done.code == 2
    assert "data.path (x.csv)" in done.err
    (run / "config.yaml").write_text(config)


def test_files_that_are_two(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    check_outputs({"--output": one, "--attention": other}, {"--input": None})
    with pytest.raises(UsageError, match=r"--attention .*is the same file as --output"):
        check_outputs({"--output": one, "--attention": tmp_path / "." / "one"}, {})
    one.mkdir()
    check_outputs({"--output": Path(os.devnull)}, {"--input": Path(os.devnull)})


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to("second")
    (tmp_path / "second").symlink_to(target)
    for content in (b"new", b"replaced"):  # dangling at first
        write_output(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    before = target.stat().st_ino
    with contextlib.suppress(KeyError), output_file(link) as file:  # whole or not at all
        file.write(b"half")
        raise KeyError
    assert (target.read_bytes(), target.stat().st_ino) == (b"replaced", before)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "link", "second", "target"]


def test_a_pipe_and_a_device_are_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert pipe.is_fifo()
    write_output(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.zst", "A.CSV.GZ"])
def test_outputs_are_not_compressed(name: str) -> None:
    with pytest.raises(UsageError, match=rf"--output {name}: seqattn does not compress files"):
        check_outputs({"--output": Path(name)}, {})


pytestmark = pytest.mark.usefixtures("untraced_graphs")
