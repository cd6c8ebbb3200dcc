"""Each seed of a comparison has generated data of its own, unless they are held fixed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from seqattn.analysis.comparison import describe_result, read_comparison
from seqattn.analysis.comparison.result import VariantResult
from seqattn.analysis.comparison.tables import describe_references, reference_losses
from seqattn.config.comparing import (
    PARTS,
    derive_data_seed,
    plan_comparison,
    resample_data_seeds,
)
from seqattn.errors import ConfigError, UsageError
from seqattn.experiments.compare import run_comparison
from seqattn.plots.comparison_pictures import median_attention
from seqattn.runs import RunFolder, attention_arrays
from seqattn.runs.storage import read_arrays, write_arrays
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("untraced_graphs")

Command = Callable[..., Ended]
TEXT = """
name: mine
seed: 3
data: {kind: copy, length: 3, min_length: 2, noise: 0.1, n_train: 12, n_validation: 8, n_test: 8}
model: {hidden_dim: 2}
training: {epochs: 2, batch_size: 6}
compare: {seeds: 3, variants: {plain: {model.attention: null}, dot: {model.attention: {score: dot}}}}
"""


def config(folder: Path, text: str = TEXT) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("finished")
    return run_comparison(plan_comparison(config(home)), home, threads=1).path


def seeds_of(folder: Path) -> tuple[int, ...]:
    data = yaml.safe_load((folder / "config.yaml").read_text())["data"]
    return tuple(data[f"{part}_seed"] for part in PARTS)


# --- which data -----------------------------------------------------------------------------------


def test_no_part_of_any_run_shares_a_seed_with_another_part() -> None:
    owns = (0, 13, 17, 19, 2**32 - 1)
    found = {
        part: {
            derive_data_seed(own, seed, part) for own in owns for seed in (*range(300), 2**63 - 1)
        }
        for part in PARTS
    }
    assert all(0 <= seed < 2**32 for seeds in found.values() for seed in seeds)
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert not found["validation"] & found["test"]
    assert len(found["train"]) == len(owns) * 301
    assert [derive_data_seed(13, 1, part) for part in PARTS] == [3405998856, 3405998857, 3405998858]


def test_variants_share_the_data_of_a_seed_and_seeds_do_not(finished: Path) -> None:
    seeds = {
        name: [seeds_of(finished / name / f"seed-{seed}") for seed in (3, 4, 5)]
        for name in ("plain", "dot")
    }
    assert seeds["plain"] == seeds["dot"]
    assert len({part for seed in seeds["plain"] for part in seed}) == 9
    tests = [read_arrays(finished / name / f"seed-{seed}/predictions.npz")["target"]
             for seed in (3, 4) for name in ("plain", "dot")]  # fmt: skip
    np.testing.assert_array_equal(tests[0], tests[1])
    assert not np.array_equal(tests[0], tests[2])
    floors = {json.loads((finished / f"dot/seed-{seed}/summary.json").read_text())["noise_floor"]
              for seed in (3, 4, 5)}  # fmt: skip
    assert len(floors) == 3


def test_a_run_is_what_its_config_trains_by_itself(
    finished: Path, seqattn: Command, tmp_path: Path
) -> None:
    run = finished / "dot/seed-4"
    assert seqattn("train", run / "config.yaml", "--name", "alone", "-q").code == 0
    alone = tmp_path / "outputs/alone"
    assert seeds_of(alone) == seeds_of(run)
    with_others, by_itself = (read_arrays(path / "predictions.npz") for path in (run, alone))
    np.testing.assert_array_equal(with_others["target"], by_itself["target"])
    np.testing.assert_allclose(with_others["forecast"], by_itself["forecast"], atol=1e-5)
    one, other = (json.loads((path / "summary.json").read_text()) for path in (run, alone))
    assert one["baselines"] == other["baselines"]
    assert one["test_loss"] == pytest.approx(other["test_loss"], rel=1e-4)


def test_the_data_can_be_held_fixed(tmp_path: Path) -> None:
    text = TEXT.replace("{seeds: 3,", "{seeds: 3, resample_data: false,")
    for planned in (
        plan_comparison(config(tmp_path), resample_data=False),
        plan_comparison(config(tmp_path, text)),
    ):
        assert not planned.resample_data
        data = {repr(planned.config_of(v, s).data) for v in planned.variants for s in planned.seeds}
        assert len(data) == 1
    assert plan_comparison(config(tmp_path, text), resample_data=True).resample_data


def test_more_seeds_keep_the_data_of_those_before(tmp_path: Path) -> None:
    few, many = (plan_comparison(config(tmp_path), seeds=seeds) for seeds in (3, 9))
    for seed in few.seeds:
        assert few.config_of(few.variants[0], seed) == many.config_of(many.variants[0], seed)


def test_own_files_are_the_same_for_all_seeds(tmp_path: Path) -> None:
    rows = "".join(f"{s},{k},{s + k},1\n" for s in range(12) for k in range(3))
    (tmp_path / "mine.csv").write_text("sequence,step,x,y\n" + rows)
    text = TEXT.replace(
        re.search(r"data: .*", TEXT)[0],  # type: ignore[index]
        f"data: {{kind: file, path: {tmp_path / 'mine.csv'}, source_length: 2}}",
    )
    path = config(tmp_path, text)
    planned = plan_comparison(path)
    assert not planned.resample_data
    assert resample_data_seeds(planned.variants[0].config) == planned.variants[0].config
    with pytest.raises(ConfigError, match="--resample-data: requires generated data"):
        plan_comparison(path, resample_data=True)
    outcome = run_comparison(planned, tmp_path, threads=1)
    assert (
        "your files, so the results hold for this training set and this"
        in describe_result(outcome)[-1]
    )
    assert describe_result(read_comparison(outcome.path)) == describe_result(outcome)


@pytest.mark.parametrize("key", ["train", "validation", "test"])
def test_data_seeds_are_compared_only_where_the_data_are_fixed(tmp_path: Path, key: str) -> None:
    path, vary = config(tmp_path), [f"data.{key}_seed=101,102"]
    with pytest.raises(ConfigError, match=f"variants differ in data.{key}_seed.*--fixed-data"):
        plan_comparison(path, vary=vary)
    with pytest.raises(ConfigError, match="variants differ in"):
        plan_comparison(path, along=vary[0])
    found = plan_comparison(path, vary=vary, resample_data=False)
    assert [getattr(v.config.data, f"{key}_seed") for v in found.variants] == [101, 102]


def test_a_folder_of_the_other_kind_is_refused_with_what_to_type(
    finished: Path, seqattn: Command, tmp_path: Path
) -> None:
    home = tmp_path / "outputs/mine"
    shutil.copytree(finished, home)
    words = ["compare", config(tmp_path), "-q"]
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    done = seqattn(*words, "--fixed-data")
    assert done.code == 2
    assert "it needs the option --resample-data. Nothing in it was changed." in done.err
    assert "Choose another --name." in done.err
    mark = json.loads((home / "comparison.json").read_text())
    del mark["resample_data"]  # as versions before wrote it
    (home / "comparison.json").write_text(json.dumps(mark))
    done = seqattn(*words)
    assert done.code == 2
    assert "it needs the option --fixed-data." in done.err
    (home / "comparison.json").write_bytes(before[home / "comparison.json"])
    assert before == {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


# --- what is said of it ---------------------------------------------------------------------------


def test_references_are_medians_over_the_seeds(finished: Path) -> None:
    outcome = read_comparison(finished)
    floors = [json.loads((finished / f"dot/seed-{seed}/summary.json").read_text())["noise_floor"]
              for seed in (3, 4, 5)]  # fmt: skip
    assert dict(reference_losses(outcome))["noise floor"] == np.median(floors)
    sentence = describe_references(outcome)
    assert sentence.startswith("Reference losses (medians over the seeds' test sets): noise floor ")
    assert sentence in (finished / "comparison.md").read_text()
    # A seed of one variant without a result changes nothing: the other variant has the same data.
    plain, dot = outcome.variants
    rest = {seed: summary for seed, summary in plain.summaries.items() if seed != 3}
    fewer = VariantResult("plain", plain.folders, rest, frozenset({3}))
    changed = type(outcome)(**{**vars(outcome), "variants": (fewer, dot)})
    assert reference_losses(changed) == reference_losses(outcome)


def test_weights_are_averaged_by_the_lengths_and_alignment_of_each_seed(tmp_path: Path) -> None:
    """Sequence k of one seed is another than sequence k of the next."""
    lengths = {3: [(2, 2), (3, 2), (3, 2)], 4: [(3, 2), (3, 2), (2, 2)], 5: [(2, 2)] * 3}
    last = {3: 2, 4: 1, 5: 0}  # the source step of the last target step
    folders, kept = {}, {}
    for seed, pairs in lengths.items():
        sources, targets = np.array(pairs).T
        weights = np.random.default_rng(seed).random((3, 1, 1, 2, 3))
        alignment = np.tile([0, last[seed]], (3, 1))
        folders[seed], kept[seed] = RunFolder(tmp_path / f"seed-{seed}"), weights
        folders[seed].path.mkdir()
        write_arrays(folders[seed].attention, attention_arrays(
            weights, ids=list("abc"), source_lengths=sources, target_lengths=targets,
            meaning="distribution", alignment=alignment,
        ))  # fmt: skip
    median = median_attention(VariantResult("dot", folders, {seed: {} for seed in folders}))
    assert median is not None
    assert median.caption == "median of 3 seeds\nmean of 1 to 3 sequences\nof 2 and 2 points"
    lost = VariantResult("dot", folders, {3: {}, 5: {}}, frozenset({4}))
    median = median_attention(lost)
    assert median is not None
    assert median.caption.startswith("median of 2 of 3 seeds\n")
    two = VariantResult("dot", {k: folders[k] for k in (3, 4)}, {3: {}, 4: {}})
    median = median_attention(two)
    assert median is not None
    assert median.weights.shape == (2, 3)
    means = [kept[3][1:].mean(axis=(0, 1, 2)), kept[4][:2].mean(axis=(0, 1, 2))]
    np.testing.assert_allclose(median.weights, np.median(means, axis=0), atol=1e-6)
    assert median.alignment.tolist() == [0, -1]


# --- names and messages ---------------------------------------------------------------------------


def test_data_of_too_many_seeds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqattn.experiments.memory_estimate.physical_memory", lambda: 2**20)
    planned = plan_comparison(config(tmp_path), seeds=300)
    with pytest.raises(UsageError, match="the 300 data sets of these runs.*compare --fixed-data"):
        run_comparison(planned, tmp_path)
    assert not (tmp_path / "mine").exists()
