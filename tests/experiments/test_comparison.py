"""`seqattn compare` and `train --seeds`: what is compared, what is said, what is refused."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from scipy import stats

from seqattn.analysis.comparison import VariantResult
from seqattn.analysis.comparison.statistics import (
    SeedSummary,
    holm,
    paired_tests,
    rank_biserial,
)
from seqattn.config.comparing import plan_comparison
from seqattn.errors import ConfigError, Interrupted
from seqattn.experiments import Callbacks
from seqattn.experiments.compare import run_comparison
from seqattn.plots import as_bytes, attention_figure
from seqattn.plots.comparison_pictures import median_attention, median_attention_figure
from seqattn.runs import EpochRecord, RunFolder, attention_arrays
from seqattn.runs.storage import read_arrays, write_arrays
from tests.comparisons import read_table, write_config
from tests.conftest import Ended, tree

Command = Callable[..., Ended]

TEXT = """
name: mine
seed: 3
data: {n_train: 48, n_validation: 24, n_test: 12}
model: {hidden_dim: 3}
training: {epochs: 4, checkpoint_seconds: 0.05}
"""
NAMED = (
    TEXT
    + """
compare:
  seeds: 6
  variants:
    plain: {model.attention: null}
    looking: {model.attention: {score: general}, training.learning_rate: 0.02}
"""
)


def config(folder: Path, text: str = TEXT) -> Path:
    return write_config(folder, text)


# --- what is compared -----------------------------------------------------------------------------


def test_every_combination_is_a_variant(tmp_path: Path) -> None:
    vary = ["model.attention.score=dot,additive", "model.hidden_dim=4,16"]
    found = plan_comparison(config(tmp_path), ["training.epochs=9"], vary, seeds=5)
    assert [variant.name for variant in found.variants] == [
        "dot_hidden_dim-4", "dot_hidden_dim-16", "additive_hidden_dim-4", "additive_hidden_dim-16",
    ]  # fmt: skip
    last = found.variants[-1].config
    assert last.model.attention is not None
    assert (last.model.attention.score, last.model.hidden_dim) == ("additive", 16)
    assert (last.training.epochs, last.name, found.name) == (9, "mine", "mine")
    assert list(found.seeds) == [3, 4, 5, 6, 7]


def test_variants_can_be_named_in_the_file(tmp_path: Path) -> None:
    found = plan_comparison(config(tmp_path, NAMED))
    assert [variant.name for variant in found.variants] == ["plain", "looking"]
    assert found.variants[0].config.model.attention is None
    assert found.variants[1].config.training.learning_rate == 0.02
    assert len(found.seeds) == 6
    assert (
        len(plan_comparison(config(tmp_path, NAMED), vary=["model.hidden_dim=2,3,4"]).variants) == 3
    )


WRONG = [
    (["model.attention.scor=dot,general"], "unknown key. Did you mean model.attention.score?"),
    (["model.attention.score=dot,genral"], "Did you mean general?"),
    (["model.hidden_dim=4,0"], "must be at least 1"),
    (["model.hidden_dim=4,4"], "has the value 4 twice"),
    (["model.hidden_dim=4"], "needs two variants or more, got 1"),
    (["model.hidden_dim=4,5", "model.hidden_dim=6,7"], "is given twice"),
    (["seed=1,2"], "seed cannot vary; every variant has the same seeds"),
    ([], "needs two variants or more, got 0"),
    (["model.attention={score: dot},{score: dot, heads: 1}"], "are the same config"),
]


@pytest.mark.parametrize(("vary", "words"), WRONG)
def test_what_cannot_be_compared_is_refused_before_anything_is_written(
    seqattn: Command, tmp_path: Path, vary: list[str], words: str
) -> None:
    options = [word for option in vary for word in ("--vary", option)]
    done = seqattn("compare", config(tmp_path), *options, "--seeds", "6")
    assert done.code == 2
    assert words in done.err
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("overrides", "options"),
    [
        (["model.hidden_dim=5"], {"vary": ["model.hidden_dim=2,3"]}),
        (["model.hidden_dim=5"], {"along": ["model.hidden_dim=2,3"]}),
        (["compare.variants={a: {}, b: {seed: 1}}"], {"vary": ["model.hidden_dim=2,3"]}),
    ],
)  # fmt: skip
def test_an_override_that_all_variants_replace_is_refused(
    tmp_path: Path, overrides: list[str], options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_comparison(config(tmp_path), overrides, **options)
    assert f"--set {overrides[0]}: has no effect" in str(caught.value)


def test_an_override_that_some_variants_keep_applies_to_them(tmp_path: Path) -> None:
    section = "compare: {variants: {a: {}, b: {model.hidden_dim: 3}}}"
    plan = plan_comparison(config(tmp_path, f"{TEXT}\n{section}\n"), ["model.hidden_dim=5"])
    assert [each.config.model.hidden_dim for each in plan.variants] == [5, 3]


def test_the_values_of_variants_may_be_a_list_in_brackets(tmp_path: Path) -> None:
    plan = plan_comparison(config(tmp_path), vary=["model.hidden_dim=[2,3]"])
    assert [each.config.model.hidden_dim for each in plan.variants] == [2, 3]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{seeds: 1, vary: {model.hidden_dim: [2, 3]}}", "compare.seeds: must be at least 2"),
        ("{vary: {model.hidden_dim: 3}}", "compare.vary.model.hidden_dim: expected a list"),
        ("{variants: {a: {}, b: {}}}", "variants a and b are the same config"),
        ("{varants: {}}", "Did you mean compare.variants?"),
    ],
)
def test_a_wrong_section_is_refused(tmp_path: Path, section: str, words: str) -> None:
    with pytest.raises(ConfigError, match=".") as caught:
        plan_comparison(config(tmp_path, f"{TEXT}\ncompare: {section}\n"))
    assert words in str(caught.value)


def test_one_seed_is_no_comparison(seqattn: Command, tmp_path: Path) -> None:
    for seeds in ("1", "0", "-3"):
        words = ["--vary", "model.hidden_dim=2,3", "--seeds", seeds]
        done = seqattn("compare", config(tmp_path), *words)
        assert done.code == 2
        assert "one seed cannot be compared" in done.err
    assert not (tmp_path / "outputs").exists()


# --- what is said ---------------------------------------------------------------------------------


def test_the_numbers_are_scipys() -> None:
    numbers = np.random.RandomState(1)
    first = dict(enumerate(numbers.rand(20)))
    second = {seed: loss + 0.3 + 0.1 * numbers.rand() for seed, loss in first.items()}
    (found,) = paired_tests([{"a": first, "b": second}])
    gaps = np.array([first[seed] - second[seed] for seed in first])
    i, j = np.triu_indices(20)
    assert found.estimate == pytest.approx(np.median((gaps[i] + gaps[j]) / 2))
    assert found.p == pytest.approx(stats.wilcoxon(gaps).pvalue)
    assert (found.first_wins, found.seeds, found.effect) == (20, 20, -1.0)
    assert found.interval is not None
    low, high = found.interval
    assert low < found.estimate < high < 0
    assert found.is_decided
    assert found.describe() == (
        "a is better than b: the typical difference in loss, b minus a (Hodges-Lehmann), is"
        f" {-found.estimate:.2g} (95% interval: {-high:.2g} to {-low:.2g}); a is better in 20 of 20"
        " seeds."
    )
    spread = SeedSummary.of(first)
    assert spread.median_interval is not None
    assert spread.median_interval[0] <= spread.median <= spread.median_interval[1]
    assert first[spread.best_seed] == min(first.values()) == spread.best


def test_holm_is_holms() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_effect_size_by_hand() -> None:
    # Ranks of |gap|: 1, 2, 3, 4; above 0: 1 + 3 = 4, below: 2 + 4 = 6; (4 - 6) / 10.
    assert rank_biserial(np.array([0.1, -0.2, 0.3, -0.4])) == pytest.approx(-0.2)
    assert rank_biserial(np.zeros(3)) == 0


def test_the_smallest_p_is_that_of_pairs_that_all_agree() -> None:
    def smallest(seeds: dict[str, int]) -> dict[tuple[str, str], tuple[float, float]]:
        """Pair -> its smallest p, and its p where every variant is better than the one before."""
        losses = {
            name: {seed: -10 * place + 0.01 * seed * (place + 1) for seed in range(count)}
            for place, (name, count) in enumerate(seeds.items())
        }
        found = paired_tests([losses])
        return {(pair.first, pair.second): (pair.smallest_p, pair.p_holm) for pair in found}

    assert smallest({"a": 7, "b": 7}) == {("a", "b"): (2**-6, 2**-6)}
    assert smallest({"a": 7, "b": 7, "c": 7})["a", "c"] == (3 * 2**-6, 3 * 2**-6)
    # Holm corrects the pair of 12 seeds first, so those of 6 are two among two, not among three.
    unequal = smallest({"a": 12, "b": 12, "c": 6})
    assert unequal["a", "b"] == (3 * 2**-11, 3 * 2**-11)
    assert unequal["a", "c"] == unequal["b", "c"] == (2 * 2**-5, 2 * 2**-5)


# --- what it leaves -------------------------------------------------------------------------------


def test_a_comparison_from_end_to_end(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("compare", config(tmp_path, NAMED))
    assert done.code == 0
    home = tmp_path / "outputs/mine"
    assert "mine: 6 seeds each" in done.out
    assert "noise floor" in done.out
    rows = {row["variant"]: row for row in read_table(home / "variants.csv")}
    for name in ("plain", "looking"):
        losses = []
        for seed in range(3, 9):
            folder = home / name / f"seed-{seed}"
            summary = json.loads((folder / "summary.json").read_text())
            losses.append(summary["test_loss"])
            assert summary["seed"] == seed
            assert not (folder / "loss_curve.png").exists()
        assert float(rows[name]["median"]) == pytest.approx(np.median(losses))
        assert float(rows[name]["mean"]) == pytest.approx(np.mean(losses))
        assert int(rows[name]["best_seed"]) == 3 + int(np.argmin(losses))
    (pair,) = read_table(home / "pairs.csv")
    assert (pair["first"], pair["second"], pair["seeds"]) == ("plain", "looking", "6")
    assert len(read_table(home / "seeds.csv")) == 12
    for picture in ("comparison.png", "curves.png", "attention.png"):
        assert (home / picture).read_bytes().startswith(b"\x89PNG")
    words = (home / "comparison.md").read_text()
    assert all(sentence in words for sentence in done.out.splitlines() if "better than" in sentence)
    # Each run is an ordinary one.
    assert seqattn("plot-attention", home / "looking/seed-4").code == 0
    assert seqattn("evaluate", home / "plain/seed-4", "--json").code == 0

    # Again: nothing is trained, and nothing but the pictures' and tables' own files is written.
    runs = {path: content for path, content in tree(home).items() if "seed-" in path}
    assert seqattn("compare", config(tmp_path, NAMED)).code == 0
    assert runs == {path: content for path, content in tree(home).items() if "seed-" in path}

    # More seeds: only those are trained.
    assert seqattn("compare", config(tmp_path, NAMED), "--seeds", "7", "-q").code == 0
    after = {path: content for path, content in tree(home).items() if "seed-" in path}
    assert runs.items() <= after.items()
    assert {path.split("/")[1] for path in after.keys() - runs} == {"seed-9"}


def test_a_folder_of_something_else_is_not_touched(seqattn: Command, tmp_path: Path) -> None:
    words = ["compare", config(tmp_path, NAMED), "-q"]
    (tmp_path / "outputs/mine").mkdir(parents=True)
    (tmp_path / "outputs/mine/notes.txt").write_text("mine")
    done = seqattn(*words)
    assert done.code == 2
    assert "is not the folder of a comparison" in done.err
    shutil.rmtree(tmp_path / "outputs")
    assert seqattn(*words).code == 0
    before = tree(tmp_path / "outputs")
    for change, message in (
        ("training.epochs=5", "the config of looking, plain differs"),
        ("model.hidden_dim=4", "the config of looking, plain differs"),
    ):
        done = seqattn(*words, "--set", change)
        assert done.code == 2
        assert message in done.err
    done = seqattn(*words, "--vary", "model.hidden_dim=2,3")
    assert "variants: looking, plain -> hidden_dim-2, hidden_dim-3" in done.err
    done = seqattn("train", config(tmp_path), "-q")
    assert done.code == 2
    assert tree(tmp_path / "outputs") == before


def test_a_stopped_comparison_says_how_to_go_on(tmp_path: Path) -> None:
    epochs = list[EpochRecord]()
    callbacks = Callbacks(
        epoch=lambda _, record: epochs.append(record), stop=lambda: 15 * (len(epochs) > 20)
    )
    planned = plan_comparison(config(tmp_path, NAMED))
    with pytest.raises(
        Interrupted, match="outputs/mine; run the same command again to continue"
    ) as stopped:
        run_comparison(planned, tmp_path / "outputs", callbacks=callbacks)
    assert stopped.value.exit_code == 143
    assert "--resume" not in str(stopped.value)
    result = run_comparison(planned, tmp_path / "outputs")
    assert [variant.unfinished for variant in result.variants] == [0, 0]


def test_a_pair_has_in_common_what_was_not_varied(seqattn: Command, tmp_path: Path) -> None:
    words = ["compare", config(tmp_path), "--seeds", "6", "--vary"]
    for key, values, from_splits in (
        ("data.noise", "0.1,0.2", 1),
        ("training.batch_size", "8,16", 0),
    ):
        assert seqattn(*words, f"{key}={values}", "--name", key).code == 0
        text = (tmp_path / "outputs" / key / "comparison.md").read_text()
        assert "draws, unless the varied key changes them" in text
        assert text.count("The variants differ in their data") == from_splits


# --- train --seeds --------------------------------------------------------------------------------


def test_many_seeds_each_in_a_folder_of_its_own(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("train", config(tmp_path), "--seeds", "2", "--plots", "each")
    assert done.code == 0
    assert "2 seeds of mine" in done.out
    home = tmp_path / "outputs/mine"
    folders = [".lock", "seed-3", "seed-4"]
    assert sorted(path.name for path in home.iterdir()) == folders
    alone = tmp_path / "alone"
    for seed in (3, 4):
        plots = [] if seed == 3 else ["--plots", "none"]
        assert seqattn("train", config(tmp_path), "--seed", str(seed), "--output-dir", alone,
                       "--name", f"s{seed}", "-q", *plots).code == 0  # fmt: skip
        many, one = home / f"seed-{seed}", alone / f"s{seed}"
        files = {path.name for path in many.iterdir()}
        if plots:
            files = {name for name in files if not name.endswith(".png")}
        assert files == {path.name for path in one.iterdir()}
        losses = [[float(row["validation_loss"]) for row in read_table(folder / "metrics.csv")]
                  for folder in (many, one)]  # fmt: skip
        np.testing.assert_allclose(losses[0], losses[1], atol=1e-4)
    assert seqattn("train", config(tmp_path), "--seeds", "2").code == 2
    done = seqattn("train", config(tmp_path), "--seeds", "3", "--resume", "--plots", "none")
    assert done.code == 0
    assert "2 of 3 runs are already trained" in done.err
    assert (home / "seed-5/summary.json").exists()
    done = seqattn("train", config(tmp_path), "--seeds", "2", "--output-dir", alone, "--name", "s3")
    assert done.code == 2
    assert "is the folder of a single run" in done.err


def test_seeds_that_diverge_are_named(seqattn: Command, tmp_path: Path) -> None:
    wild = ["--set", "training.learning_rate=100", "--set", "training.optimizer=sgd",
            "--set", "training.momentum=0.9"]  # fmt: skip
    done = seqattn("train", config(tmp_path), "--seeds", "2", *wild)
    assert done.code == 7
    assert "all 2 seeds diverged. The first: " in done.err


def variant_with_lengths(
    folder: Path, lengths: list[tuple[int, int]], layers: int = 1, heads: int = 1, name: str = "dot"
) -> tuple[VariantResult, dict[int, np.ndarray]]:
    """Three seeds with random weights over test sequences of these lengths."""
    sources, targets = np.array(lengths).T
    folders, kept = {}, {}
    for seed in (3, 4, 5):
        numbers = np.random.default_rng(seed)
        weights = numbers.random((len(lengths), layers, heads, targets.max(), sources.max()))
        weights *= np.arange(sources.max()) < sources[:, None, None, None, None]
        weights /= weights.sum(axis=-1, keepdims=True)
        folders[seed], kept[seed] = RunFolder(folder / name / f"seed-{seed}"), weights
        folders[seed].path.mkdir(parents=True)
        alignment = np.tile(np.arange(targets.max()), (len(lengths), 1))
        alignment[np.arange(len(lengths)), targets - 1] = sources - 1  # the last looks at the last
        write_arrays(folders[seed].attention, attention_arrays(
            weights, ids=[str(k) for k in range(len(lengths))], source_lengths=sources,
            target_lengths=targets, meaning="distribution", alignment=alignment,
        ))  # fmt: skip
    return VariantResult(name, folders, {seed: {} for seed in folders}), kept


def test_weights_are_averaged_over_sequences_of_the_same_lengths(tmp_path: Path) -> None:
    lengths = [(2, 2), (4, 3), (3, 2), (4, 3), (2, 2), (4, 3), (3, 2), (3, 2)]
    variant, kept = variant_with_lengths(tmp_path, lengths)
    median = median_attention(variant)
    assert median is not None
    # (4, 3) and (3, 2) are as common: the longer ones.
    means = [weights[[1, 3, 5], 0, 0].mean(axis=0) for weights in kept.values()]
    np.testing.assert_allclose(median.weights, np.median(means, axis=0), atol=1e-6)
    assert median.alignment.tolist() == [0, 1, 3]
    assert median.caption == "median of 3 seeds\nmean of 3 sequences\nof 4 and 3 points"
    variant, _ = variant_with_lengths(tmp_path / "more", [(3, 2)] * 2 + [(4, 3)] + [(2, 2)] * 3)
    median = median_attention(variant)
    assert median is not None
    assert median.weights.shape == (2, 2)
    np.testing.assert_allclose(median.weights.sum(axis=-1), 1, atol=1e-6)


def test_weights_are_aligned_if_the_true_steps_differ(tmp_path: Path) -> None:
    """Target step 0 is determined by source step 2 or 0: a mean by source step shows neither."""
    variant, kept = variant_with_lengths(tmp_path, [(3, 2)] * 2)
    alignment = np.array([[2, 1], [0, 1]])
    for folder in variant.folders.values():
        write_arrays(folder.attention, {**read_arrays(folder.attention), "alignment": alignment})
    median = median_attention(variant)
    assert median is not None
    assert median.has_different_true_steps
    assert median.relative_weights is not None
    first = np.array([weights[:, 0, 0, 0] for weights in kept.values()])  # (seeds, N, S)
    expected = [first[:, 0, 0], first[:, 0, 1], (first[:, 0, 2] + first[:, 1, 0]) / 2,
                first[:, 1, 1], first[:, 1, 2]]  # fmt: skip
    np.testing.assert_allclose(median.relative_weights[0], np.median(expected, axis=1), atol=1e-6)
    assert np.isnan(median.relative_weights[1]).tolist() == [True, False, False, False, True]
    figure = median_attention_figure([variant])
    assert figure is not None
    (axes, _) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["-2", "-1", "0", "+1", "+2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Step 1", "Step 2"]
    assert {patch.get_x() for patch in axes.patches} == {1.55}  # type: ignore[attr-defined]
    assert figure.get_supxlabel() == "source points, counted from the true one (0, outlined)"


def test_kinds_of_models_against_each_other(tmp_path: Path, seqattn: Any) -> None:
    """Fast weights beside a GRU: signed strengths have no place among medians of weights."""
    (tmp_path / "kinds.yaml").write_text(
        "name: kinds\ndata: {kind: squares, n_train: 16}\ntraining: {epochs: 1}\n"
        "compare:\n  seeds: 2\n  variants:\n    gru: {}\n    fast: {model.kind: fast_weights}\n"
    )
    done = seqattn("compare", "kinds.yaml", "--quiet")
    assert done.code == 0, done.err
    folder = tmp_path / "outputs/kinds"
    assert {path.name for path in folder.iterdir()} >= {"gru", "fast", "attention.png"}
    outcome_of = {
        name: read_arrays(folder / name / "seed-23/attention.npz") for name in ("gru", "fast")
    }
    assert str(outcome_of["fast"]["meaning"]) == "strength"
    assert (outcome_of["fast"]["weights"] < 0).any()
    picture = imread(folder / "attention.png")
    alone = attention_figure([np.ones((2, 2))], titles=["gru"])
    assert picture.shape[1] == imread(io.BytesIO(as_bytes(alone))).shape[1]  # one panel


def test_mistakes_of_a_comparison_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    text = "compare:\n  sed: 3\n  variants:\n    a: {}\n    b: {model.hidden_dim: none}\n"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        plan_comparison(path)
    assert caught.value.mistakes[0].startswith(f"{path}:2: compare.sed: unknown key")
    path.write_text(text.replace("sed", "seeds"))
    with pytest.raises(ConfigError) as caught:
        plan_comparison(path)
    assert caught.value.mistakes[0].startswith(f"{path}:5: compare.variants.b: model.hidden_dim")
