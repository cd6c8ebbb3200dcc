"""Files that a trained model reads: the columns have the roles that the training found for them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from seqattn.config import resolve
from seqattn.data import DataSpec, load_data
from seqattn.data.reading import Reading
from seqattn.runs.checksummed import load_checksummed, save_checksummed
from seqattn.training import load_model
from tests.conftest import Ended

Run = Callable[..., Ended]
DAY = np.datetime64("2021-01-01")
CONFIG = (
    "name: c\ndata: {kind: file, path: f.csv, window: {source: 3, target: 2}, cache: never}\n"
    "model: {hidden_dim: 2}\ntraining: {epochs: 1}\n"
)
BEST = Path("outputs/c/checkpoints/best.safetensors")


def write(name: str, header: str, rows: list[str]) -> None:
    Path(name).write_text("\n".join([header, *rows]) + "\n")


def train(seqattn: Run, *sets: str, config: str = CONFIG) -> None:
    Path("c.yaml").write_text(config)
    more = [word for one in sets for word in ("--set", one)]
    done = seqattn("train", "c.yaml", "--quiet", "--plots", "none", *more)
    assert done.code == 0, done.err


def train_on_nine(seqattn: Run, *sets: str) -> None:
    """On the series s0 to s8 of the column `sequence`, a step a day."""
    rows = [f"s{k},{DAY + t},{t % 5}" for k in range(9) for t in range(12)]
    write("f.csv", "sequence,step,x", rows)
    train(seqattn, *sets)


def ids(done: Ended) -> list[str]:
    assert done.code == 0, done.err
    return [line.split(",")[0] for line in done.out.splitlines()[1:]]


NINE = [f"s{k}" for k in range(9) for _ in range(2)]
ONE_ROW_EACH = [f"s{k},{DAY + 31 + k},{k}" for k in range(9)]


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv.gz"])
def test_one_row_of_each_series_in_every_format(seqattn: Run, form: str) -> None:
    train_on_nine(seqattn)
    write("g.csv", "sequence,step,x", ONE_ROW_EACH)
    options = {"jsonl": "FORMAT json", "parquet": "FORMAT parquet",
               "csv.gz": "FORMAT csv, COMPRESSION gzip"}[form]  # fmt: skip
    with duckdb.connect() as database:
        database.execute(f"COPY (SELECT * FROM 'g.csv') TO 'g.{form}' ({options})")
    done = seqattn("predict", "outputs/c", "--input", f"g.{form}", "--output", "o.csv")
    assert done.code == 0, done.err
    assert [line.split(",")[0] for line in Path("o.csv").read_text().splitlines()[1:]] == NINE


def test_columns_stand_in_another_order_and_others_beside_them(seqattn: Run) -> None:
    train_on_nine(seqattn)
    rows = [f"{k + 1},{k},{DAY + 31 + k},id{k},s{k}" for k in range(9)]
    write("g.csv", "id,x,step,unique_id,sequence", rows)
    assert ids(seqattn("predict", "outputs/c", "--input", "g.csv")) == NINE


def test_evaluate_and_plot_attention_read_as_the_training_did(seqattn: Run) -> None:
    train_on_nine(seqattn)
    # `unique_id` is a surer name than `sequence`, and every series has its own rows of time.
    rows = [f"u{t},s{k},{DAY + 100 * k + t},{t % 5}" for k in range(9) for t in range(6)]
    write("g.csv", "unique_id,sequence,step,x", rows)
    done = seqattn("evaluate", "outputs/c", "--input", "g.csv")
    assert done.code == 0, done.err
    assert "18 sequences of g.csv" in done.out  # 6 rows have 2 windows of 5
    done = seqattn("plot-attention", "outputs/c", "--input", "g.csv", "--terminal")
    assert done.code == 0, done.err
    assert "s8" in done.out


@pytest.mark.parametrize("verb", ["predict", "evaluate", "plot-attention"])
@pytest.mark.parametrize(("lacking", "role", "was"), [
    ("sequence", "series", "identified the series"), ("step", "time", "gave the time"),
])  # fmt: skip
def test_a_column_that_the_training_had_is_needed(
    seqattn: Run, verb: str, lacking: str, role: str, was: str
) -> None:
    train_on_nine(seqattn)
    rows = [f"s{k},{DAY + t},{t % 5}" for k in range(9) for t in range(12)]
    header = "sequence,step,x".replace(lacking, "other")
    write("g.csv", header, rows)
    done = seqattn(verb, "outputs/c", "--input", "g.csv")
    assert done.code == 3
    assert f"g.csv: no column {lacking!r}, which {was} in the training" in done.err
    assert f"found {header.replace(',', ', ')}" in done.err
    assert f"--set data.{role}=other" in done.err
    done = seqattn(verb, "outputs/c", "--input", "g.csv", "--set", f"data.{role}=other")
    assert done.code == 0, done.err


def test_a_feature_that_the_training_had_is_needed(seqattn: Run) -> None:
    train_on_nine(seqattn)
    write("g.csv", "sequence,step,y,z", [f"s{k},{DAY},1,2" for k in range(9)])
    done = seqattn("predict", "outputs/c", "--input", "g.csv")
    assert done.code == 3
    assert "g.csv: no column 'x'; found sequence, step, y, z. Needed are x. Rename" in done.err


def test_what_is_set_wins_over_what_the_training_found(seqattn: Run) -> None:
    train_on_nine(seqattn)
    write("g.csv", "sequence,plant,step,x", [f"s0,p{k},{DAY + k},1" for k in range(4)])
    assert ids(seqattn("predict", "outputs/c", "--input", "g.csv")) == ["s0"] * 2
    one = ["predict", "outputs/c", "--input", "g.csv", "--set", "data.series=plant"]
    assert ids(seqattn(*one)) == [f"p{k}" for k in range(4) for _ in range(2)]
    done = seqattn(*one[:-1], "data.series=nobody")
    assert done.code == 3
    assert "no column 'nobody' (data.series)" in done.err


def test_rows_without_series_and_time_where_the_user_says_so(seqattn: Run) -> None:
    train_on_nine(seqattn)
    write("g.csv", "x", ["1", "2", "3"])
    done = seqattn("predict", "outputs/c", "--input", "g.csv", "--set", "data.series=null",
                   "--set", "data.time=null")  # fmt: skip
    assert ids(done) == ["g", "g"]


@pytest.mark.parametrize(("one", "words"), [
    ("data.window.source=5", "the model is already trained"), ("training.epochs=2", "the model is already trained"),
    ("series=x", "the model is already trained"), ("data.decimal=;", "decimal"),
])  # fmt: skip
def test_only_how_a_file_is_read_can_be_set(seqattn: Run, one: str, words: str) -> None:
    train_on_nine(seqattn)
    done = seqattn("predict", "outputs/c", "--input", "f.csv", "--set", one)
    assert done.code == 2
    assert words in done.err
    done = seqattn("evaluate", "outputs/c", "--set", "data.series=x")
    assert done.code == 2
    assert "applies to --input only" in done.err


def test_one_series_stays_one(seqattn: Run) -> None:
    """A column that numbered the rows of the training names no series of a few rows."""
    rows = [f"{t + 1},{DAY + t},{t % 5}" for t in range(60)]
    write("f.csv", "id,step,x", rows)
    train(seqattn, "data.split.by=time")
    write("g.csv", "id,step,x", [f"7,{DAY},1", f"9,{DAY + 1},2", f"12,{DAY + 2},1"])
    assert ids(seqattn("predict", "outputs/c", "--input", "g.csv")) == ["g", "g"]


def test_a_column_that_was_left_out_need_not_be_there(seqattn: Run) -> None:
    rows = [f"s{k},{DAY + t},{t % 5},word{t},{t}" for k in range(9) for t in range(12)]
    write("f.csv", "sequence,step,x,comment,extra", rows)
    train(seqattn, "data.ignore=[extra]")
    write("g.csv", "sequence,step,x", ONE_ROW_EACH)
    assert ids(seqattn("predict", "outputs/c", "--input", "g.csv")) == NINE


def test_a_wide_table(seqattn: Run) -> None:
    rows = [f"p{k},{k},{k + 1},{k + 2},{k},{k}" for k in range(12)]
    write("f.csv", "plant,x_1,x_2,x_3,x_4,x_5", rows)
    config = CONFIG.replace("window: {source: 3, target: 2}", "target_length: 2")
    train(seqattn, config=config)
    spec = load_model(BEST).spec
    assert spec.reading == Reading(
        layout="wide", series=("plant",), time=(), features=("x",), delimiter=","
    )
    write("g.csv", "id,plant,x_1,x_2,x_3", [f"i{k % 2},p{k},1,2,3" for k in range(3)])
    found = ids(seqattn("predict", "outputs/c", "--input", "g.csv"))
    assert found == ["p0", "p0", "p1", "p1", "p2", "p2"]
    # A long table of the same features, and a wide one for a model of long ones.
    write("h.csv", "plant,step,x", [f"p{k},{t},1" for k in range(2) for t in range(3)])
    assert ids(seqattn("predict", "outputs/c", "--input", "h.csv")) == ["p0", "p0", "p1", "p1"]


def test_a_wide_table_for_a_model_of_long_ones(seqattn: Run) -> None:
    train_on_nine(seqattn)
    write("g.csv", "id,sequence,x_1,x_2,x_3", [f"i0,s{k},1,2,3" for k in range(9)])
    assert ids(seqattn("predict", "outputs/c", "--input", "g.csv")) == NINE


def test_lines_of_whole_sequences_have_no_columns(seqattn: Run) -> None:
    train_on_nine(seqattn)
    lines = [json.dumps({"id": f"s{k}", "source": [[1.0], [2.0], [3.0]]}) for k in range(9)]
    Path("g.jsonl").write_text("\n".join(lines))
    assert ids(seqattn("predict", "outputs/c", "--input", "g.jsonl")) == NINE


def test_a_checkpoint_says_what_its_columns_were(seqattn: Run) -> None:
    rows = [f"s{k},{DAY + t},{t % 5},a{t % 3}" for k in range(9) for t in range(12)]
    write("f.csv", "sequence,step,x,word", rows)
    train(seqattn)
    spec = load_model(BEST).spec
    assert (spec.source_features, spec.target_features) == (("x",), ("x",))
    assert spec.frequency is not None
    assert spec.reading is not None
    assert spec.reading.series == ("sequence",)
    assert spec.reading.time == ("step",)
    assert spec.reading.features == ("x",)
    assert spec.reading.ignore == ("word",)
    assert (
        DataSpec.from_plain(json.loads(json.dumps(spec.as_plain()))).as_plain() == spec.as_plain()
    )
    shown = json.loads(seqattn("inspect", "outputs/c", "--json").out)
    assert shown["layout"]["reading"]["series"] == ["sequence"]


def test_roles_come_out_of_the_cache(seqattn: Run) -> None:
    train_on_nine(seqattn, "data.cache=always")
    for _ in range(2):
        roles = load_model(BEST).spec.reading
        assert roles is not None
        assert roles.series == ("sequence",)
        done = seqattn("train", "c.yaml", "--quiet", "--plots", "none", "--overwrite", "--set",
                       "data.cache=always")  # fmt: skip
        assert done.code == 0


def with_reading(file: Path, reading: Any) -> None:
    metadata, tensors = load_checksummed(file, 3)
    metadata["layout"]["reading"] = reading
    save_checksummed(file, tensors, metadata, None)


@pytest.mark.parametrize("reading", [3, {"layout": "deep"}])
def test_broken_roles_are_a_broken_checkpoint(seqattn: Run, reading: Any) -> None:
    train_on_nine(seqattn)
    with_reading(BEST, reading)
    done = seqattn("predict", "outputs/c", "--input", "f.csv")
    assert done.code == 4
    assert "do not describe the training data" in done.err


def test_parts_of_their_own_have_the_roles_of_the_training_part(seqattn: Run) -> None:
    """A file of one series, and one whose surest name is another column."""
    rows = [f"s{k},{DAY + t},{t % 5}" for k in range(9) for t in range(12)]
    write("f.csv", "sequence,step,x", rows)
    write("v.csv", "sequence,step,x", [f"v,{DAY + t},{t % 5}" for t in range(12)])
    rows = [f"u{t},s{k},{DAY + 100 * k + t},{t % 5}" for k in range(9) for t in range(6)]
    write("t.csv", "unique_id,sequence,step,x", rows)
    train(seqattn, "data.validation_path=v.csv", "data.test_path=t.csv")
    parts = load_data(resolve(Path("outputs/c/config.yaml")).config.data)
    assert {name.split("@")[0] for name in parts.validation.ids} == {"v"}
    assert {name.split("@")[0] for name in parts.test.ids} == {f"s{k}" for k in range(9)}
    write("v.csv", "step,x", [f"{DAY + t},{t % 5}" for t in range(12)])
    done = seqattn("train", "c.yaml", "--quiet", "--overwrite", "--set",
                   "data.validation_path=v.csv", "--set", "data.test_path=t.csv")  # fmt: skip
    assert done.code == 3
    assert "v.csv: no column 'sequence', which identified the series" in done.err


GERMAN = "sequence;step;x"


def train_on_commas(seqattn: Run) -> None:
    """Decimal commas, and dates whose days tell which is the day."""
    rows = [
        f"s{k};{t + 1:02}/01/2021;{1000 + 7.5 * t:.1f}".replace(".", ",")
        for k in range(9) for t in range(25)
    ]  # fmt: skip
    write("f.csv", GERMAN, rows)
    train(seqattn)


def steps_of(done: Ended) -> list[str]:
    assert done.code == 0, done.err
    return [line.split(";")[1] for line in done.out.splitlines()[1:]]


def test_days_and_months_are_as_in_the_training(seqattn: Run) -> None:
    train_on_commas(seqattn)
    write("g.csv", GERMAN, [f"s0;0{t}/02/2021;1000,5" for t in range(1, 7)])
    done = seqattn("predict", "outputs/c", "--input", "g.csv")
    assert steps_of(done) == ["07/02/2021", "08/02/2021"]
    assert "g.csv: is read with data.time_format: '%d/%m/%Y', as in the training." in done.err
    assert seqattn("evaluate", "outputs/c", "--input", "g.csv").code == 0
    done = seqattn("predict", "outputs/c", "--input", "g.csv", "--set",
                   "data.time_format='%m/%d/%Y'", "--set", "data.missing=interpolate")  # fmt: skip
    assert steps_of(done)[0] != "07/02/2021"


def test_thousands_are_as_in_the_training(seqattn: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    train_on_commas(seqattn)
    write("g.csv", GERMAN, [f"s0;{t}/02/2021;1000,5" for t in range(21, 27)])
    wanted = seqattn("predict", "outputs/c", "--input", "g.csv").out
    write("h.csv", GERMAN, [f"s0;{t}/02/2021;1.000,5" for t in range(21, 27)])
    assert seqattn("predict", "outputs/c", "--input", "h.csv").out == wanted
    write("g.csv", GERMAN, [f"s0;{t}/02/2021;1000" for t in range(21, 27)])
    wanted = seqattn("predict", "outputs/c", "--input", "g.csv").out
    write("h.csv", GERMAN, [f"s0;{t}/02/2021;1.000" for t in range(21, 27)])
    assert seqattn("predict", "outputs/c", "--input", "h.csv").out == wanted
    content = Path("h.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert seqattn("predict", "outputs/c", "--input", "-").out == wanted
    # Another delimiter is another program's, and what it may mean is said by the file alone.
    write("h.csv", GERMAN.replace(";", ","), [f"s0,{t}/02/2021,1000.5" for t in range(21, 27)])
    assert seqattn("predict", "outputs/c", "--input", "h.csv").code == 0
