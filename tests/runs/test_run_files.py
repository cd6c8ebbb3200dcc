"""Read vector from a run folder is checked as a config is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.comparison import read_comparison
from seqattn.config import read_stored
from seqattn.errors import CheckpointError, SeqattnError
from seqattn.runs import (
    RunFolder,
    read_environment,
    read_manifest,
    read_search,
    read_summary,
)
from seqattn.runs.storage import read_arrays
from tests.conftest import SMALL, Ended

pytestmark = pytest.mark.usefixtures("untraced_graphs")

Command = Callable[..., Ended]


@pytest.fixture
def mine(attention_run: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(attention_run, tmp_path / "mine")
    return RunFolder(tmp_path / "mine")


@pytest.mark.parametrize("text", ["", "[1, 2]",   "{" * 100_000, '{"seed": NaN}', ])  # fmt: skip
def test_a_file_that_is_no_object(text: str, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    file.write_bytes(text.encode("latin-1"))
    for read in (read_summary, read_environment, read_manifest, read_search):
        with pytest.raises(CheckpointError, match=r"some\.json: "):
            read(file)


def test_an_edited_result_is_refused_and_another_layout_is_not(mine: RunFolder) -> None:
    before, content = mine.summary.read_text(), mine.read_summary()
    stored = json.loads(before)
    mine.summary.write_text(json.dumps(dict(reversed(stored.items()))))
    assert mine.read_summary() == content
    for changes in (
        {"test_loss": 0.0001},
        {"beats_best_baseline": not stored["beats_best_baseline"]},
        {"baselines": {**stored["baselines"], "another": 0.5}},
        {"digest": None},
    ):
        mine.summary.write_text(json.dumps({**stored, **changes}))
        with pytest.raises(
            CheckpointError, match=r"summary\.json: differs from what the run wrote"
        ):
            mine.read_summary()
    mine.write_summary(content)
    assert mine.summary.read_text() == before


def test_results_of_other_weights_are_refused(two: Path, seqattn: Command) -> None:
    one, other = (RunFolder(two / f"learning_rate-{rate}/seed-3") for rate in ("0.01", "0.02"))
    weights = one.best.read_bytes()
    shutil.copy(other.best, one.best)
    with pytest.raises(CheckpointError, match=r"summary\.json: has .* but .*best\.safetensors has"):
        one.read_summary()
    for words in (
        ["table", two],
        ["report", two],
        ["doctor", one.path],
        ["doctor", one.path.parent],
    ):
        done = seqattn(*words)
        assert done.code == 4, words
        assert "best.safetensors has the weights of epoch" in done.err
    one.best.write_bytes(b"damaged")  # the commands that need the weights say so
    assert one.read_summary()["seed"] == 3
    one.best.write_bytes(weights)
    assert seqattn("table", two).code == 0


def test_arrays_of_another_file_are_refused(mine: RunFolder, seqattn: Command) -> None:
    weights = mine.attention.read_bytes()
    shutil.copy(mine.predictions, mine.attention)
    done = seqattn("plot-attention", mine.path, "--terminal")
    assert done.code == 4
    assert "attention.npz: weights: is missing" in done.err
    mine.attention.write_bytes(weights)
    arrays = read_arrays(mine.attention)
    np.savez(mine.attention, **{**arrays, "ids": arrays["ids"][::-1]})
    done = seqattn("plot-attention", mine.path, "--terminal")
    assert done.code == 4
    assert "the files are of different runs" in done.err


@pytest.mark.parametrize(
    "row",
    [
        "1,nan,1,1,1,1,1",
        "1,1,1",
        "2,1,1,1,1,1,1",
    ],
)
def test_metrics_that_no_training_writes(row: str, mine: RunFolder) -> None:
    header = mine.metrics.read_text().splitlines()[0]
    mine.metrics.write_text(f"{header}\n{row}\n")
    with pytest.raises(CheckpointError, match=r"metrics\.csv: cannot be read"):
        mine.read_metrics()


def test_what_is_missing_is_named(mine: RunFolder, seqattn: Command) -> None:
    mine.environment.unlink()
    done = seqattn("report", mine.path)
    assert done.code == 4
    assert "(no environment.json)" in done.err
    assert "config.yaml" not in done.err


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("metrics.csv", RunFolder.read_metrics),
         ("summary.json", RunFolder.read_summary),
        ("config.yaml", lambda folder: read_stored(folder.config)),
    ],
)  # fmt: skip
def test_a_file_that_is_too_large_is_not_read(
    name: str, read: Callable[[RunFolder], object], tmp_path: Path
) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(50 * 2**30)
    with pytest.raises(SeqattnError, match=rf"{name}: .*Its 53,687,091,200 bytes exceed the limit"):
        read(RunFolder(tmp_path))


# --- runs that are not what their folder says -----------------------------------------------------


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants that differ in no shape, so that every file of one fits the other."""
    from seqattn.config.comparing import plan_comparison
    from seqattn.experiments import compare as comparison

    home = tmp_path_factory.mktemp("swapped")
    (home / "two.yaml").write_text("name: two\nseed: 3\n")
    sets = [*SMALL, "training.epochs=2"]
    planned = plan_comparison(
        home / "two.yaml", sets, ["training.learning_rate=0.01,0.02"], seeds=2
    )
    comparison.run_comparison(planned, home, threads=1)
    return home / "two"


@pytest.fixture
def two(compared: Path, tmp_path: Path) -> Path:
    shutil.copytree(compared, tmp_path / "two")
    return tmp_path / "two"


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


@pytest.mark.parametrize("file", ["", "summary.json", "metrics.csv", "config.yaml"])
def test_runs_swapped_between_variants(file: str, two: Path, seqattn: Command) -> None:
    one, other = (two / f"learning_rate-{rate}/seed-3" / file for rate in ("0.01", "0.02"))
    swap(one, other)
    with pytest.raises(CheckpointError, match="learning_rate-0.01/seed-3"):
        read_comparison(two)
    done = seqattn("report", two)
    assert done.code == 4
    assert "learning_rate-0.01/seed-3" in done.err


@pytest.mark.parametrize("file", ["", "summary.json", "config.yaml"])
def test_runs_swapped_between_seeds(file: str, two: Path, seqattn: Command) -> None:
    home = two / "learning_rate-0.01"
    swap(home / "seed-3" / file, home / "seed-4" / file)
    for folder in (two, home):
        with pytest.raises(CheckpointError, match=r"seed-3.*seed"):
            read_comparison(folder)
    assert seqattn("doctor", home).code == 4


def test_a_manifest_that_names_no_folder(two: Path) -> None:
    manifest = json.loads((two / "comparison.json").read_text())
    first = next(iter(manifest["variants"].values()))
    for name in ("../elsewhere", "/tmp/x", "..", ""):
        (two / "comparison.json").write_text(json.dumps({"variants": {name: first}}))
        with pytest.raises(CheckpointError, match=r"comparison\.json: variants"):
            read_comparison(two)


def test_seeds_that_were_trained_on_different_files(tmp_path: Path, seqattn: Command) -> None:
    numbers = np.random.default_rng(1)

    def write() -> None:
        rows = [
            f"{k},{t},{a:.6f}\n" for k in range(30) for t, a in enumerate(numbers.normal(size=4))
        ]
        Path("own.csv").write_text("sequence,step,x\n" + "".join(rows))

    config = (
        "name: own\ndata: {kind: file, path: own.csv, source_length: 2}\nmodel: {hidden_dim: 3}\n"
    )
    Path("own.yaml").write_text(config + "training: {epochs: 1}\n")
    write()
    assert seqattn("train", "own.yaml", "--seeds", "2", "-q").code == 0
    assert seqattn("report", "outputs/own").code == 0
    write()
    assert seqattn("train", "own.yaml", "--seeds", "1", "--overwrite", "-q").code == 0
    for command in ("report", "doctor"):
        done = seqattn(command, "outputs/own")
        assert done.code == 4
        assert "seed-24: was trained on other files than outputs/own/seed-23" in done.err


def test_no_seed_is_left_out_without_a_word(two: Path, seqattn: Command) -> None:
    home = two / "learning_rate-0.01"
    (home / "seed-5").mkdir()  # of a training that is about to begin
    shutil.copytree(home / "seed-3", home / "seed-03")  # no name of ours
    assert list(read_comparison(two).variants[0].folders) == [3, 4]
    (home / "seed-3/environment.json").unlink()
    for words in (("report", two), ("report", home), ("doctor", home)):
        done = seqattn(*words)
        assert done.code == 4
        assert "seed-3: is not a run folder (no environment.json)" in done.err


def test_only_the_named_arrays_are_read(mine: RunFolder) -> None:
    """Another array of the file may be damaged."""
    names = {"ids", "source_lengths", "no such array"}
    expected = read_arrays(mine.attention)
    content = bytearray(mine.attention.read_bytes())
    weights = expected["weights"].tobytes()
    at = content.index(weights)
    content[at : at + 4] = b"\xff\xff\xff\xff"
    mine.attention.write_bytes(content)
    with pytest.raises(CheckpointError, match="CRC"):
        read_arrays(mine.attention)
    found = read_arrays(mine.attention, names=names)
    assert found.keys() == {"ids", "source_lengths"}
    assert all(np.array_equal(found[key], expected[key]) for key in found)
