from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqattn.data.files import (
    LongTable,
    as_sources,
    cut,
    forecast_arrays,
    read_long_csv,
    write_json_lines,
    write_long_csv,
)
from seqattn.errors import DataError

LARGE = 2.0**49
GOOD = "sequence,step,x,y\na,1,0.5,1\na,2,-1,2e-3\nb,0,3,4\n"


def read(text: str | bytes, features: tuple[str, ...] = ("x", "y")) -> LongTable:
    raw = text.encode() if isinstance(text, str) else text
    return read_long_csv(io.BytesIO(raw), features)


def test_long_form_by_hand() -> None:
    table = read(GOOD)
    assert table.ids == ("a", "b")
    assert table.points[0].tolist() == [[0.5, 1.0], [-1.0, 0.002]]
    assert table.points[1].tolist() == [[3.0, 4.0]]
    assert table.last_steps == (2, 0)
    assert table.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD + "\n\n",
        GOOD.replace(",", " , "),
        "y,step,x,sequence\n1,1,0.5,a\n0.002,2,-1,a\n4,0,3,b\n",
    ],
    ids=["bom", "crlf", "blank-lines", "spaces", "other-order"],
)
def test_what_changes_nothing(text: str) -> None:
    for ours, theirs in zip(read(text).points, read(GOOD).points, strict=True):
        assert np.array_equal(ours, theirs)


def test_further_columns_are_left_out_and_said() -> None:
    table = read("sequence,step,speed,y,x\na,1,9,2,1\n")
    assert table.points[0].tolist() == [[1.0, 2.0]]
    assert table.notes == ("left out: speed",)


def test_other_names_are_read_in_order_and_said() -> None:
    table = read("sequence,step,lon,lat\na,1,1,2\n")
    assert table.features == ("lon", "lat")
    assert table.notes == ("lon, lat are read as x, y, in this order",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "standard input: is empty. Expected a header row: sequence,step,x,y"),
        ("\n\n", "is empty"),
        ("sequence,step,x,y\n", "has a header but no rows"),
        ("sequence,x,y\na,1,2\n", ":1: no column 'step'; found sequence, x, y. Expected the header"),
        ("step,x,y\n1,1,2\n", ":1: no column 'sequence'"),
        ("sequence,step,x\na,1,2\n", ":1: no column 'y'; found sequence, step, x. The model was"),
        ("sequence,step,x,z\na,1,2,3\n", ":1: no column 'y'"),
        ("sequence,step,x,x\na,1,2,3\n", ":1: the column 'x' stands there twice"),
        ("sequence;step;x;y\na;1;2;3\n", "columns are separated by something else than commas"),
        ("sequence,step,x,y\na,1,2\n", ":2: has 3 cells, the header has 4"),
        ("sequence,step,x,y\na,1,2,3,4\n", ":2: has 5 cells, the header has 4"),
        ("sequence,step,x,y\na,1,,3\n", ":2: the column 'x' is empty"),
        ("sequence,step,x,y\na,1,1.0,1.5m\n", ":2: the column 'y' holds '1.5m', not a number"),
        ("sequence,step,x,y\na,1,1.0,nan\n", ":2: the column 'y' is nan; it must be finite"),
        ("sequence,step,x,y\na,1,-inf,1\n", ":2: the column 'x' is -inf; it must be finite"),
        ("sequence,step,x,y\na,1,1e16,1\n", ":2: the column 'x' is 1e16; values up to 1e+15"),
        ("sequence,step,x,y\na,1,1_0,1\n", ":2: the column 'x' holds '1_0', not a number"),
        ("sequence,step,x,y\na,1_0,1,1\n", ":2: the column 'step' holds '1_0'"),
        ("sequence,step,x,y\na,one,1,1\n", ":2: the column 'step' holds 'one', not a whole number"),
        ("sequence,step,x,y\na,1.5,1,1\n", ":2: the column 'step' holds '1.5'"),
        ("sequence,step,x,y\n,1,1,1\n", ":2: the column 'sequence' is empty"),
        ("sequence,step,x,y\na,1,1,1\na,3,1,1\n", ":3: sequence 'a' has step 3 after step 1; steps"),
        ("sequence,step,x,y\na,2,1,1\na,1,1,1\n", ":3: sequence 'a' has step 1 after step 2"),
        ("sequence,step,x,y\na,1,1,1\na,1,1,1\n", ":3: sequence 'a' has step 1 after step 1"),
        ("sequence,step,x,y\na,1,1,1\nb,1,1,1\na,2,1,1\n", ":4: sequence 'a' goes on here after"),
        ('sequence,step,x,y\n"a,1,1,1\n', "is not valid CSV"),
        (b"sequence,step,x,y\n\xe9,1,1,1\n", "byte 0xe9 is not UTF-8"),
    ],
    ids=range(27),
)  # fmt: skip
def test_a_bad_file_is_refused_by_line_and_column(text: str | bytes, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read(text)
    assert words in str(caught.value)


def test_paths_that_are_no_csv(tmp_path: Path) -> None:
    import os

    with pytest.raises(DataError, match="no such file"):
        read_long_csv(tmp_path / "none.csv", ("x",))
    with pytest.raises(DataError, match="is a directory. Give a CSV file"):
        read_long_csv(tmp_path, ("x",))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is not a regular file"):
        read_long_csv(tmp_path / "pipe", ("x",))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for content in (raw, b"sequence,step,x,y\n" + raw):
        try:
            read(content)
        except DataError as error:
            assert "standard input" in str(error)


@given(
    st.lists(
        st.lists(st.tuples(st.floats(-LARGE, LARGE, width=32), st.floats(-LARGE, LARGE, width=32)),
                 min_size=2, max_size=2),
        min_size=1, max_size=5,
    ),
    st.integers(-3, 10**6),
)  # fmt: skip
def test_what_is_written_is_read_again(walks: list[list[tuple[float, float]]], last: int) -> None:
    points = np.array(walks)
    ids = [f"s {k}," for k in range(len(walks))]
    text = io.StringIO()
    write_long_csv(text, ids, [last] * len(ids), points, ("x", "y"))
    table = read(text.getvalue())
    assert table.ids == tuple(ids)
    assert set(table.last_steps) == {last + 2}
    assert np.array_equal(np.stack(table.points).astype(np.float32), points.astype(np.float32))


def test_a_sequence_is_cut_into_given_and_rest() -> None:
    table = read("sequence,step,x,y\na,1,1,1\na,2,2,2\na,3,3,3\nb,1,4,4\nb,2,5,5\n")
    part = cut(table, 2)
    assert part.source_lengths.tolist() == [2, 1]
    assert part.target_lengths.tolist() == [1, 1]
    assert part.target[:, 0, 0].tolist() == [3.0, 5.0]
    with pytest.raises(DataError, match="sequence 'b' has one point; to be scored it needs"):
        cut(read(GOOD), 2)


def test_json_lines_say_id_source_and_forecast() -> None:
    part = as_sources(read(GOOD))
    text = io.StringIO()
    write_json_lines(text, part.ids, part, np.array([[[0.1, 0.2]], [[1.0, 2.0]]]))
    first, second = map(json.loads, text.getvalue().splitlines())
    assert first == {"id": "a", "source": [[0.5, 1.0], [-1.0, 0.002]], "forecast": [[0.1, 0.2]]}
    assert second["source"] == [[3.0, 4.0]]


def test_arrays_hold_nan_at_padding() -> None:
    part = as_sources(read(GOOD))
    arrays = forecast_arrays(part, np.ones((2, 3, 2)), with_target=False)
    assert np.isnan(arrays["source"][1, 1]).all()
    assert arrays["forecast"].tolist() == np.ones((2, 3, 2)).tolist()
    assert "target" not in arrays
