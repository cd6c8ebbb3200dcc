"""What the page says about its task, about its model's weights, and about two models."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from seqattn.analysis.doctor import CHECK_NAMES
from seqattn.config import Config, Plugin, resolve
from seqattn.data.tasks import generate
from seqattn.report.content.examples import choose_start
from seqattn.report.content.live_differences import PageRun
from seqattn.report.content.questions import QUESTIONS, ask
from seqattn.report.content.task import describe_row, describe_task
from seqattn.report.content.verdict import (
    RunResult,
    command_for_history,
    commands_for_other_model,
    describe_need,
    describe_runs,
    shown_path,
)
from seqattn.runs import RunFolder


def config(*sets: str) -> Config:
    return resolve(None, list(sets)).config


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (
            [],
            "The source has the first two corners of a square, in order; the forecast must draw"
            " the other two corners. Corner 3 lies opposite corner 1, and corner 4 opposite corner"
            " 2. All sequences draw the same square, with coordinates of -1 and 1: only the first"
            " corner, the direction and the random noise differ. Random noise moves every corner a"
            " little.",
        ),
        (["data.source_length=3", "data.noise=0"], "the last corner. Corner 4 lies opposite corner 2."),
        (["data.variable_length=true"], "two, three or four corners of a square."),
        (["data.kind=reverse"], "in reverse order"),
        (["data.kind=sort", "data.test_length=12", "data.min_test_length=9"],
         "The source has 8 (in the test part 9 to 12) random points."),
        (["data.kind=recall"], "4 pairs of points, a key and its value, and at the end one of the keys"),
    ],
)  # fmt: skip
def test_each_task_is_described(sets: list[str], expected: str) -> None:
    task = config(*sets).data
    assert expected in describe_task(task)  # type: ignore[arg-type]  # a generated task


def test_the_sentences_about_opposite_corners_and_lags_are_right() -> None:
    squares = generate(config("data.noise=0").data, 7, 3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(squares.target, -squares.source)
    lag = generate(config("data.kind=lag", "data.noise=0", "data.lag=3", "data.steps=2").data, 5, 3)  # type: ignore[arg-type]
    path = np.concatenate([lag.source, lag.target], axis=1)
    for step in (8, 9):
        np.testing.assert_array_equal(path[:, step], path[:, step - 3])


def test_rows_of_the_table_are_explained() -> None:
    assert "opposite corner" in describe_row("minus the source corner")
    assert "knows the sequences without noise" in describe_row("noise floor (lower bound)")
    assert "one season earlier" in describe_row("seasonal naive (season 7, given)")
    assert describe_row("a new rule") == ""


def test_each_check_is_a_question_with_an_answer() -> None:
    assert tuple(QUESTIONS) == CHECK_NAMES
    finding = {"name": "attention does not matter", "number": "1", "meaning": "", "change": ""}
    answers = {state: ask({**finding, "state": state})["answer"]
               for state in ("fine", "found", "unknown")}  # fmt: skip
    assert answers == {
        "fine": "yes: fine", "found": "no: a problem", "unknown": "cannot be decided",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lowest", "expected"),
    [
        (0.13, "This trained model depends on its attention weights: even with equal weights, the error is 13 times as large."),
        (0.012, "This trained model hardly depends on its attention weights: with equal weights, the error is 1.2 times as large."),
        (0.0101, "This trained model does not depend on its attention weights: with equal weights, its forecasts are as good."),
    ],
)  # fmt: skip
def test_the_need_of_weights_follows_from_the_losses(lowest: float, expected: str) -> None:
    need = describe_need(0.01, {"uniform": lowest, "shuffled": 0.203}, 128)
    assert need.average == (
        "Over 128 test sequences, the mean squared error is 0.01 with the own weights of the model,"
        f" {lowest:.4g} with equal weights and 0.203 with shuffled weights."
    )
    assert need.conclusion[0] == expected
    assert "infinit" not in describe_need(0.0, {"uniform": 0.5}, 9).conclusion[0]


def test_the_tour_starts_where_steps_look_at_different_points() -> None:
    weights = np.full((4, 1, 2, 2, 3), np.nan, np.float32)
    weights[..., 0, :2], weights[..., 1, :2] = (0.1, 0.9), (0.2, 0.8)  # both at point 2
    weights[1, 0, 1, :, :2] = [[0.7, 0.3], [0.4, 0.6]]
    weights[2, 0, 1, :, :2] = [[0.0, 1.0], [1.0, 0.0]]
    weights[3, 0, 0, :, :2] = [[1.0, 0.0], [0.0, 1.0]]
    losses = np.array([0.1, 0.2, 0.2, 9.0])  # the error of the last is too large
    assert choose_start(weights, losses) == {"example": 2, "layer": 0, "head": 1}
    assert choose_start(weights, np.full(4, np.nan))["example"] in (2, 3)


class FakeModel:
    """The parts of a loaded model that the sentences need."""

    def __init__(self, *sets: str) -> None:
        self.config = config(*sets)
        self.has_attention = self.config.model.has_attention
        self.spec = Spec()


class Spec:
    source_length, source_features = 2, ("x", "y")

    class target:  # noqa: N801  # an attribute of the spec
        scale: NDArray[Any] = np.ones(2)


def result(name: str, loss: float, *sets: str, target: float = 0.0) -> RunResult:
    run: Any = FakeModel(*sets)
    return RunResult(
        PageRun(name, run), RunFolder(Path("outputs") / name), loss, 0.0098,
        np.full((5, 2, 2), target), np.full(5, loss),
    )  # fmt: skip


def test_close_losses_are_no_claim() -> None:
    runs = [result("squares", 0.01019), result("plain", 0.01004, "model.attention=null")]
    sentences, commands = describe_runs(runs)
    text = " ".join(sentences)
    assert text.startswith(
        "With and without attention, the models forecast about equally well: over 5 test sequences,"
        " the mean squared error is 0.01019 with attention (squares) and 0.01004 without attention"
        " (plain). Both errors are near the noise floor of 0.0098"
    )
    assert "closest to the truth for squares in 0 and plain in 5." in text
    assert "the state of 16 numbers has room for the 4 numbers of a source" in text
    assert "Each of these runs has one seed." in text and "times as large" not in text
    assert [command for _, command in commands] == [
        "seqattn compare configs/bottleneck/copy.yaml",
        "seqattn compare outputs/squares/config.yaml --set 'compare.variants={with_attention: {},"
        " without_attention: {model.attention: null}}' --seeds 8 --name with-and-without",
    ]


def test_a_large_difference_and_other_causes_are_named() -> None:
    plain = result("plain", 0.2, "model.attention=null", "training.epochs=7", "seed=5")
    text = " ".join(describe_runs([result("squares", 0.01), plain])[0])
    assert text.startswith("The error without attention is 20 times as large: over 5 test")
    assert "The configs also differ in seed, training.epochs, so attention is not the only" in text
    assert "A possible reason" not in text and "one seed" in text


LOSSES = st.sampled_from(
    (0.0, 5e-324, 3e-162, 0.0098, 0.01, 0.0149, 0.1, 1e160, 1.7e308)
) | st.floats(0, 1.7e308)


def check_times(text: str, low: float, high: float) -> None:
    """Hold "2.1 times as large" or "0.5 instead of 0" against the two losses."""
    if found := re.fullmatch(r"(\S+) instead of (\S+)", text):
        shown = [float(each) for each in found.groups()]
        assert shown == pytest.approx([high, low], rel=0.006, abs=5e-324)
        assert low == 0 or math.isinf(high / low)
        return
    ratio = re.fullmatch(r"(\S+) times as large", text)
    assert ratio
    assert 1 < float(ratio[1].replace(",", "")) == pytest.approx(high / low, rel=0.051)


@given(LOSSES, st.lists(LOSSES | st.just(math.inf), min_size=1, max_size=2))
def test_a_sentence_about_need_is_true(own: float, others: list[float]) -> None:
    overridden = dict(zip(("uniform", "shuffled"), others, strict=False))
    need = describe_need(own, overridden, 7)
    lowest = min(others)
    shown = re.findall(r"(\S+) with ", need.average.partition("error is ")[2])
    assert [float(each) for each in shown] == pytest.approx([own, *others], rel=6e-4, abs=5e-324)
    modes = {"equal weights": "uniform", "shuffled weights": "shuffled"}
    match = re.fullmatch(
        r"This trained model (depends|hardly depends|does not depend) on its attention weights:"
        r"(?: even)? with (equal weights|shuffled weights), (?:the error is (.*)|its forecasts are as good)\.",
        need.conclusion[0],
    )  # fmt: skip
    assert match
    assert overridden[modes[match[2]]] == lowest
    limits = {
        "depends": (1.5, math.inf),
        "hardly depends": (1.02, 1.5),
        "does not depend": (0, 1.02),
    }
    least, most = limits[match[1]]
    ratio = lowest / own if own else math.inf if lowest else 1.0
    assert least * (1 - 1e-9) <= ratio <= most * (1 + 1e-9) or max(own, lowest) < 1e-300
    if match[3]:
        check_times(match[3], own, lowest)


@given(st.lists(st.tuples(LOSSES, st.booleans()), min_size=2, max_size=4))
def test_a_sentence_about_several_runs_is_true(runs: list[tuple[float, bool]]) -> None:
    results = [result(f"run{k}", loss, *([] if has else ["model.attention=null"]))
               for k, (loss, has) in enumerate(runs)]  # fmt: skip
    (answer, closer, _), _ = describe_runs(results)
    best = {
        has: min((loss for loss, each in runs if each == has), default=None)
        for has in (True, False)
    }
    listed = re.search(
        r"ver 5 test sequences, the mean squared error is (.*?\))(?=[.]| The)", answer
    )
    assert listed
    shown = re.findall(r"(\S+) (with|without) attention \(run(\d)\)", listed[1])
    assert [(word == "with", int(k)) for _, word, k in shown] == [
        (has, k) for k, (_, has) in enumerate(runs)
    ]
    assert [float(each) for each, *_ in shown] == pytest.approx(
        [loss for loss, _ in runs], rel=6e-4, abs=5e-324
    )
    lowest = min(loss for loss, _ in runs)
    winners = [k for k, (loss, _) in enumerate(runs) if loss == lowest]
    for name, count in re.findall(r"run(\d) in (\d)", closer):
        assert int(count) == 5 * (winners == [int(name)])
    assert ("; in 5, two or more runs are equally close" in closer) == (len(winners) > 1)
    if best[True] is None or best[False] is None:
        assert answer.startswith("Over 5 test")
        return
    low, high = sorted((best[True], best[False]))
    rank = "best " if len(runs) > 2 else ""
    if answer.startswith(
        f"With and without attention, the {rank}models forecast about equally well"
    ):
        assert high <= 1.5 * low * (1 + 1e-9) or high < 1e-300
    else:
        found = re.match(rf"The {rank}error (with|without) attention is (.*?): over 5", answer)
        assert found
        assert best[found[1] == "with"] == high > 1.5 * low * (1 - 1e-9)
        check_times(found[2], low, high)
    is_near = "Both errors are near the noise floor of 0.0098" in answer
    assert is_near == (low >= 0.0098 / 1.5 and high <= 1.5 * 0.0098 and high <= 1.5 * low)


def test_other_test_sequences_are_not_compared() -> None:
    runs = [result("a", 0.01), result("b", 0.2, "model.attention=null", target=1.0)]
    sentences, commands = describe_runs(runs)
    assert re.search("different test sequences .* cannot be compared", sentences[0])
    assert len(sentences) == 1 and commands == []


def test_commands_have_the_path_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "outputs" / "my run")
    assert shown_path(folder.path) == "outputs/my run"
    assert shown_path(Path("/home/somebody/squares")) == "squares"
    train, both, compare = (command for _, command in commands_for_other_model(folder, config()))
    assert train == (
        "seqattn train 'outputs/my run/config.yaml' --set model.attention=null"
        " --name without-attention"
    )
    assert both.startswith("seqattn report 'outputs/my run' outputs/without-attention --output")
    assert compare.startswith("seqattn compare 'outputs/my run/config.yaml' --set 'compare.")
    plain = commands_for_other_model(folder, config("model.attention=null"))
    assert "model.attention={score: scaled_dot}" in plain[0][1] and len(plain) == 2
    assert (
        commands_for_other_model(
            folder, config("model.kind=transformer", "training.teacher_forcing.probability=1")
        )
        == []
    )
    plugin = Plugin(path=str(tmp_path / "my_attention.py"))
    loaded = config().model_copy(update={"plugins": [plugin]})
    commands = commands_for_other_model(folder, loaded) + command_for_history(folder, loaded)
    assert len(commands) == 4
    assert all(words.endswith(" --plugin my_attention.py") for _, words in commands)
    assert "training.record_attention=5" in command_for_history(folder, None)[0][1]


def test_ties_are_counted_for_no_run_and_scaled_errors_are_named() -> None:
    runs = [replace(result(name, 0.5), is_scaled=True) for name in ("one", "two")]
    sentences, _ = describe_runs(runs)
    assert "the mean squared error (scaled) is 0.5" in sentences[0]
    assert sentences[1] == (
        "Of 5 test sequences, the forecast is closest to the truth for one in 0 and two in 0;"
        " in 5, two or more runs are equally close."
    )
