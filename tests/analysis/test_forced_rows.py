"""Rows of forced attention weights: reading, refusals, and forecasts of several sequences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqattn as package
from seqattn import experiments
from seqattn.analysis.evaluation import FreeRunningForecast, free_run
from seqattn.analysis.evaluation.forced_file import parse_rows
from seqattn.analysis.evaluation.forced_weights import ForcedRows, parse_override
from seqattn.config import resolve
from seqattn.data import Sequences
from seqattn.errors import SeqattnError, UsageError
from seqattn.models.attention import Override
from tests.conftest import train_small

ROW: dict[str, Any] = {"step": 2, "layer": 0, "head": 0, "weights": [0, 1]}


@pytest.fixture(scope="module")
def heads_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sets = ["data.variable_length=true", "model.attention.heads=2", "model.hidden_dim=6"]
    return train_small(tmp_path_factory.mktemp("runs"), "heads", *sets)


@pytest.fixture(scope="module")
def transformer_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = resolve(None, [
        "data.n_train=24", "data.n_validation=12", "data.n_test=12", "training.epochs=2",
        "model={kind: transformer, model_dim: 8, heads: 2, layers: 2, feedforward_dim: 8}",
        "training.teacher_forcing.probability=1",
    ]).config  # fmt: skip
    folder, _ = experiments.train_one(config, tmp_path_factory.mktemp("runs"), plots=False)
    return folder.path


def refusal(rows: Any, *, known: tuple[str, ...] = ("a", "b")) -> str:
    with pytest.raises(UsageError) as caught:
        check(rows, known)
    return str(caught.value)


def check(rows: Any, known: tuple[str, ...]) -> None:
    found = ForcedRows(parse_rows(rows, "f.json"))
    found.check_model(4, (2, 3))
    found.check_ids(known)
    found.check_lengths(("a", "b"), np.array([2, 5]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 0}, "rows[0].step: is 0, but the forecast has 4 steps; give 1 to 4"),
        ({"step": True}, "rows[0].step: expected a whole number, found true"),
        ({"layer": 2}, "rows[0].layer: is 2, but the model has 2 layers; give 0 or 1"),
        ({"head": 3}, "rows[0].head: is 3, but the model has 3 heads; give 0 to 2"),
        ({"id": "c"}, "rows[0].id: no sequence has the id 'c'; there are 'a' and 'b'"),
        ({}, "rows[0].weights: has 2 numbers, but the source of sequence 'b' has 5 points."
             ' Give 5 numbers, or add "id" to give the row to one sequence only'),
        ({"weights": [0, float("nan")]}, "rows[0].weights[1]: is NaN; give a finite number"),
        ({"weights": [0, None]}, "rows[0].weights[1]: expected a number, found null"),
        ({"heads": 3}, "rows[0]: unknown key 'heads'; a row has step, layer, head, id and weights"),
    ],
)  # fmt: skip
def test_refused_rows(change: dict[str, Any], message: str) -> None:
    found = refusal({"rows": [ROW | change]})
    assert found.startswith(f"f.json: {message}")
    assert found.endswith(".")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([ROW], 'f.json: expected {"rows": ['),
        ({"rows": [ROW], "row": []}, "f.json: unknown key 'row'"),
        ({"rows": [{"weights": [0, 1]}]}, "f.json: rows[0]: has no step"),
    ],
)
def test_refused_contents(content: Any, message: str) -> None:
    assert refusal(content).startswith(message)


@pytest.mark.parametrize(
    "second",
    [
        {}, {"id": "a"}, {"layer": None}, {"head": None}, {"layer": None, "head": None, "id": "b"},
    ],
)  # fmt: skip
def test_two_rows_for_one_place(second: dict[str, Any]) -> None:
    other = {key: value for key, value in (ROW | second).items() if value is not None}
    for rows in ([ROW, other], [other, ROW]):
        assert refusal({"rows": rows}).startswith(
            "f.json: rows[1]: step 2, layer 0, head 0 has weights from rows[0] already"
        )


def test_rows_of_different_places_are_accepted() -> None:
    rows = [ROW, ROW | {"step": 3}, ROW | {"layer": 1}, ROW | {"head": 2},
            ROW | {"step": 4, "id": "a"}, ROW | {"step": 4, "id": "b"}]  # fmt: skip
    ForcedRows(parse_rows({"rows": rows}, "f.json")).check_model(4, (2, 3))
    ForcedRows(parse_rows({"rows": []}, "f.json")).check_model(4, (2, 3))


# --- files ----------------------------------------------------------------------------------------


def test_a_file_of_rows_is_read(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text(json.dumps({"rows": [ROW]}))
    found = parse_override(f"forced:{file}")
    assert isinstance(found, ForcedRows)
    (row,) = found.rows
    assert (row.step, row.layer, row.head, row.id, row.weights) == (2, 0, 0, None, (0.0, 1.0))
    assert parse_override("uniform") == Override("uniform")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"{", "is not valid JSON"),
        (b'{"rows": [], "rows": []}', "has the key 'rows' twice"),
    ],
)
def test_files_that_cannot_be_used(content: bytes | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        parse_override(f"forced:{file}")
    assert str(caught.value).startswith(f"{file}: {message}")


# --- forecasts ------------------------------------------------------------------------------------


def own_rows(part: Sequences, maps: Any) -> list[dict[str, Any]]:
    """Rows of the file that repeat weights (N, L, A, T, S)."""
    N, L, A, T, _ = maps.shape
    return [
        {"id": part.ids[n], "step": t + 1, "layer": i, "head": a,
         "weights": maps[n, i, a, t, : part.source_lengths[n]].tolist()}
        for n in range(N) for i in range(L) for a in range(A) for t in range(T)
    ]  # fmt: skip


def forecast(path: Path, rows: Any, steps: int = 3) -> tuple[FreeRunningForecast, Sequences]:
    run = package.load(path)
    part = run.data.test
    override = rows if isinstance(rows, Override) or rows is None else (
        ForcedRows(parse_rows({"rows": rows}, "f.json"))
    )  # fmt: skip
    return free_run(run.trained.model, part, steps, override), part


@pytest.mark.parametrize("name", ["attention_run", "ragged_run", "heads_run", "transformer_run"])
def test_rows_with_the_weights_of_the_model_change_nothing(
    name: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(name)
    plain, part = forecast(path, None)
    forced, _ = forecast(path, own_rows(part, plain.maps["cross"]))
    assert np.array_equal(forced.values, plain.values)
    assert np.array_equal(forced.maps["cross"], plain.maps["cross"])


def test_a_row_of_one_sequence_leaves_the_others(heads_run: Path) -> None:
    plain, part = forecast(heads_run, None)
    length = int(part.source_lengths[3])
    row = {"id": part.ids[3], "step": 2, "head": 1, "weights": [1] + [0] * (length - 1)}
    forced, _ = forecast(heads_run, [row])
    others = [n for n in range(len(part)) if n != 3]
    assert np.array_equal(forced.values[others], plain.values[others])
    assert np.array_equal(forced.values[3, :1], plain.values[3, :1])
    assert not np.allclose(forced.values[3, 1:], plain.values[3, 1:])
    changed = forced.maps["cross"][3, 0, :, 1]
    assert changed[1].tolist() == row["weights"] + [0] * (changed.shape[1] - length)
    assert np.array_equal(changed[0], plain.maps["cross"][3, 0, 0, 1])


def test_sequences_of_another_length_than_the_row_are_refused(ragged_run: Path) -> None:
    with pytest.raises(UsageError, match=r"rows\[0\]\.weights: has 2 numbers, but the source of"):
        forecast(ragged_run, [{"step": 1, "weights": [0, 1]}])


@pytest.mark.parametrize(
    ("weights", "meaning"),
    [([0.25, 0.75], "distribution"), ([0, 0], "partial"), ([0.5, 0.25], "partial"),
     ([1, 1], "strength"), ([2, -1], "strength")],
)  # fmt: skip
def test_the_meaning_says_what_the_rows_sum_to(
    weights: list[float], meaning: str, attention_run: Path
) -> None:
    assert forecast(attention_run, [{"step": 1, "weights": weights}])[0].meaning == meaning


def test_runs_without_weights_to_replace(plain_run: Path, tmp_path: Path) -> None:
    fast = train_small(tmp_path, "fast", "model.kind=fast_weights")
    for path, message in ((plain_run, "no attention"), (fast, "signed read strengths")):
        with pytest.raises(UsageError, match=message):
            forecast(path, [ROW])


# --- Python ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Longer than all training sequences")
def test_predict_and_attention_take_an_override(attention_run: Path, tmp_path: Path) -> None:
    run = package.load(attention_run)
    source = [[-1.0, -1.0], [-1.0, 1.0]]
    plain = run.predict(source, 3)
    uniform = run.predict(source, 3, attention_override="uniform")
    rows = [{"step": t, "weights": np.array([0.5, 0.5])} for t in (1, 2, 3)]
    (tmp_path / "f.json").write_text(
        json.dumps({"rows": [{**row, "weights": [0.5, 0.5]} for row in rows]})
    )
    assert not np.allclose(plain, uniform)
    for override in (rows, {"rows": rows}, f"forced:{tmp_path / 'f.json'}", Override("uniform")):
        np.testing.assert_allclose(
            run.predict(source, 3, attention_override=override), uniform, rtol=0, atol=1e-6
        )
    weights = run.attention(source, 3, attention_override=rows)["cross"]
    assert np.array_equal(weights, np.full((1, 1, 3, 2), 0.5, dtype=np.float32))


def test_python_refuses_what_the_command_line_refuses(attention_run: Path, plain_run: Path) -> None:
    run, source = package.load(attention_run), [[-1.0, -1.0], [-1.0, 1.0]]
    bad: list[tuple[Any, str]] = [
        ("sideways", "expected uniform"),
        ([ROW | {"id": "7"}], "attention_override: rows.0..id: no sequence has the id '7'"),
        ([ROW | {"step": 4}], "attention_override: rows.0..step: is 4"),
        (3, "attention_override: expected"),
    ]
    for override, message in bad:
        with pytest.raises(SeqattnError, match=message):
            run.predict(source, 3, attention_override=override)
    with pytest.raises(UsageError, match="no attention"):
        package.load(plain_run).predict(source, attention_override="uniform")
