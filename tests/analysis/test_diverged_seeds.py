"""A seed that diverged is worse than any that did not, in every table, sentence and picture."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.comparison import describe_result, read_comparison
from seqattn.analysis.comparison.statistics import paired_tests
from seqattn.analysis.comparison.tables import markdown, variant_cells, write_tables
from seqattn.analysis.doctor import check_seed_spread, sibling_losses
from seqattn.plots import band_figure, comparison_figure, sweep_figure
from seqattn.plots.comparison_pictures import draw_comparison, validation_losses
from seqattn.plots.losses import quartiles
from seqattn.report.content import comparison_content
from seqattn.runs import RunFolder
from tests.comparisons import read_table, train_comparison, write_divergence

INF = math.inf
TEXT = """
name: mine
seed: 3
data: {n_train: 12, n_validation: 8, n_test: 8}
model: {hidden_dim: 2}
training: {epochs: 2, batch_size: 6}
compare: {seeds: 8, variants: {plain: {model.attention: null}, dot: {model.attention: {score: dot}}}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_comparison(tmp_path_factory.mktemp("finished"), TEXT)


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "mine"))


def diverge(home: Path, variant: str, seeds: list[int]) -> None:
    """Leave what a run leaves whose loss is not finite."""
    words = "The training loss is nan in epoch 2, step 1"
    for seed in seeds:
        folder = RunFolder(home / variant / f"seed-{seed}")
        folder.clear_results()
        folder.write_metrics(folder.read_metrics()[:1])
        folder.log_line(f"ended: {words}")
        write_divergence(folder, 1, words)


def set_losses(home: Path, variant: str, first: float) -> None:
    for place, path in enumerate(sorted((home / variant).glob("seed-*/summary.json"))):
        folder = RunFolder(path.parent)
        folder.write_summary(folder.read_summary() | {"test_loss": first + 0.01 * place})


def test_a_variant_that_fails_in_half_of_its_seeds_is_not_better_in_the_others() -> None:
    """The better of the seeds that are left must not win where it diverges in half of them."""
    fragile = {seed: 0.1 if seed % 2 else INF for seed in range(12)}
    sound = dict.fromkeys(range(12), 0.2)
    (pair,) = paired_tests([{"fragile": fragile, "sound": sound}])
    assert (pair.seeds, pair.first_wins, pair.diverged) == (12, 6, (6, 0))
    assert not pair.is_decided
    assert pair.effect > 0  # the six that diverged have the highest ranks
    assert "better in 6 of 6" not in pair.describe()
    assert "(fragile diverged in 6)" in pair.describe()
    (wins,) = paired_tests([{"fragile": {k: v + 0.3 for k, v in fragile.items()}, "sound": sound}])
    assert wins.describe() == (
        "sound is better than fragile: the typical difference in loss, fragile minus sound"
        " (Hodges-Lehmann), is infinity (95% interval: 0.2 to infinity); sound is better in 12"
        " of 12 seeds (fragile diverged in 6)."
    )


def test_where_both_diverged_neither_is_better() -> None:
    first = {0: INF, 1: INF, **{seed: 1.0 + 0.1 * seed for seed in range(2, 9)}}
    second = {0: INF, 1: INF, **dict.fromkeys(range(2, 9), 0.5)}
    (pair,) = paired_tests([{"a": first, "b": second}])
    assert (pair.seeds, pair.ties, pair.p, pair.diverged) == (9, 2, 2**-6, (2, 2))
    assert pair.describe().endswith(
        "better in 7 of 9 seeds, 2 tied (a diverged in 2, b diverged in 2)."
    )


def test_tables_and_words_count_what_diverged(home: Path) -> None:
    set_losses(home, "plain", 0.2)
    set_losses(home, "dot", 0.1)
    diverge(home, "dot", [3, 4, 5, 6, 7])
    assert RunFolder(home / "dot/seed-3").divergence() is not None
    assert RunFolder(home / "dot/seed-9").divergence() is None
    result = read_comparison(home)
    assert (result.pairs[0].seeds, result.pairs[0].first_wins) == (8, 5)
    write_tables(result)
    row = read_table(home / "variants.csv")[1]
    assert (row["seeds"], row["failed"], row["median"], row["mean"]) == ("8", "5", "inf", "")
    assert (row["median_high"], row["worst"]) == ("inf", "inf")
    assert float(row["best"]) < 0.2
    pair = read_table(home / "pairs.csv")[0]
    assert (pair["seeds"], pair["first_failed"], pair["second_failed"]) == ("8", "0", "5")
    assert read_table(home / "seeds.csv")[8]["test_loss"] == "inf"
    _, median, mean, _, worst, beats, *_ = variant_cells(result.variants[1])
    assert median.startswith("none: 5 diverged [0.1")
    assert median.endswith(", infinity]")
    assert (mean, worst) == ("-", "diverged")
    assert beats.endswith("of 8, 5 diverged")
    sentences = describe_result(result)
    assert "dot diverged in 5" in sentences[0]
    ranked = "a diverged seed ranks below every seed that did not diverge."
    assert f"5 of 8 seeds of dot diverged; {ranked}" in sentences
    assert "nan" not in markdown(result)


@pytest.mark.parametrize("lost", [[3], [3, 4, 5, 6, 7, 8], list(range(3, 11))])
def test_pictures_and_the_page_of_what_diverged(home: Path, lost: list[int]) -> None:
    diverge(home, "dot", lost)
    result = read_comparison(home)
    draw_comparison(result)
    for name in ("comparison.png", "curves.png"):
        assert (home / name).read_bytes().startswith(b"\x89PNG")
    content = comparison_content(result)
    json.dumps(content, allow_nan=False)
    assert [variant["diverged"] for variant in content["variants"]] == [0, len(lost)]
    assert any(f"{len(lost)} of 16 runs diverged" in notice for notice in content["notices"])
    assert (content["variants"][1]["median"] is None) == (len(lost) >= 4)


def test_unfinished_seeds_stay_out(home: Path) -> None:
    for seed in (3, 4):
        folder = RunFolder(home / f"dot/seed-{seed}")
        folder.clear_results()
        folder.log_line("stopped")
    result = read_comparison(home)
    assert (result.pairs[0].seeds, result.variants[1].unfinished) == (6, 2)
    assert (
        "2 of 8 seeds of dot are unfinished; they are not included in the results."
        in describe_result(result)
    )


def test_a_curve_ends_where_half_have_diverged(home: Path) -> None:
    diverge(home, "dot", [3, 4])
    losses = validation_losses(read_comparison(home).variants[1])
    assert np.isinf(losses[:2, 1]).all()
    assert np.isfinite(losses[:, 0]).all()
    assert np.isfinite(losses[2:]).all()
    runs = np.array([[1.0, 2.0], [2.0, INF], [3.0, INF], [4.0, INF]])
    found = quartiles(runs)
    assert found[1].tolist()[0] == 2.5
    assert np.isnan(found[1:, 1]).all()


def test_figures_show_what_has_no_number(recwarn: pytest.WarningsRecorder) -> None:
    (axes,) = comparison_figure(
        ["a", "b", "c"], [np.array([0.1, 0.2, INF]), np.array([INF, INF]), np.array([0.1, 0.3])],
        [(0.2, 0.1, INF), (INF, INF, INF), (0.2, math.nan, math.nan)], lines=[], title="t",
        no_interval_reason="needs 6 seeds",
    ).axes  # fmt: skip
    assert [text.get_text() for text in axes.texts] == ["1 diverged", "2 diverged"]
    bars = [line.get_xdata() for line in axes.lines if line.get_solid_capstyle() == "butt"]
    assert [next(iter(bar)) for bar in bars] == [0.1]  # type: ignore[arg-type]
    (curves,) = band_figure(["a"], [np.array([[1.0, INF], [2.0, INF]])], title="t").axes
    assert np.isnan(np.asarray(curves.lines[0].get_ydata())[1])
    top, _ = sweep_figure(
        ["a"], [np.array([1.0, 2.0])], [[np.array([0.1, INF]), np.array([0.1, 0.2, INF])]],
        [[np.array([1.0]), np.array([])]], key="k", reference=None, title="t",
    ).axes  # fmt: skip
    assert np.asarray(top.lines[0].get_ydata()).tolist() == [INF, 0.2]
    assert not recwarn.list


def test_the_doctor_counts_what_diverged(home: Path) -> None:
    diverge(home, "dot", [4])
    losses = sibling_losses(RunFolder(home / "dot/seed-3"))
    assert (len(losses), sum(map(math.isinf, losses))) == (8, 1)
    found = check_seed_spread(losses)
    assert (found.state, found.number.endswith("1 diverged")) == ("found", True)


def test_two_seeds_have_no_interval_anywhere(tmp_path: Path, seqattn: Any) -> None:
    (tmp_path / "mine.yaml").write_text(TEXT)
    done = seqattn("compare", "mine.yaml", "--seeds", "2")
    assert done.code == 0, done.err
    home = tmp_path / "outputs/mine"
    row = read_table(home / "variants.csv")[0]
    assert (row["median_low"], row["median_high"]) == ("", "")
    assert read_table(home / "pairs.csv")[0]["low"] == ""
    text = (home / "comparison.md").read_text()
    assert "[needs 6 seeds]" in text
    assert "| needs 6 seeds |" in text
    assert "2 seeds are too few to tell plain and dot apart" in text
    assert "all pairs" not in text  # there is one
    assert comparison_content(read_comparison(home))["variants"][0]["interval"] is None
