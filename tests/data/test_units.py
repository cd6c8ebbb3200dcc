"""Units of features: in the config, in the checkpoint, and wherever values in data units are shown."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.figure import Figure

import seqattn as seqattn_api
from seqattn import experiments
from seqattn.config import as_plain, config_differences, leaves, resolve, to_yaml
from seqattn.data import load_data
from seqattn.data.units import check_units, unit_in_name, with_unit
from seqattn.errors import ConfigError, DataError
from seqattn.plots.run_pictures import predictions_picture
from seqattn.runs import RunFolder
from seqattn.training import load_model
from tests.conftest import Ended

Command = Callable[..., Ended]
UNITS = {"temp. outside": "degC", "demand": "MW"}
CONFIG = """
name: u
data:
  kind: file
  path: u.csv
  series: null
  time: step
  window: {source: 4, target: 2}
  split: {by: time}
  units: {temp. outside: degC, demand: MW}
model: {hidden_dim: 3}
training: {epochs: 1}
"""


def table(*names: str) -> str:
    rows = [",".join(["step", *names])]
    for t in range(120):
        cells = [f"{10**k * (5 + math.sin(t / (2 + k))):.4f}" for k in range(len(names))]
        rows.append(f"{t},{','.join(cells)}")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on two features that have units."""
    home = tmp_path_factory.mktemp("units")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        Path("u.csv").write_text(table("temp. outside", "demand"))
        Path("u.yaml").write_text(CONFIG)
        experiments.train_one(resolve(Path("u.yaml")).config, Path("outputs"), plots=False)
    return home


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """The run in the folder where commands run."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return RunFolder(Path("outputs/u"))


def texts(figure: Figure) -> set[str]:
    found = {figure.get_supxlabel(), figure.get_supylabel()}
    for axes in figure.axes:
        found |= {axes.get_xlabel(), axes.get_ylabel(), axes.get_title()}
    return found


# --- config ---------------------------------------------------------------------------------------


def units_of(*overrides: str) -> Any:
    return as_plain(resolve(None, ["data.kind=file", "data.path=f", *overrides]).config)["data"][
        "units"
    ]


def test_a_config_with_units_is_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG.replace("demand:", "'kind: x.y':"))
    resolved = resolve(path)
    assert (("data", "units"), {"temp. outside": "degC", "kind: x.y": "MW"}) in leaves(
        as_plain(resolved.config)
    )
    assert resolved.origins["data.units"] == f"{path}:10"
    again = tmp_path / "again.yaml"
    again.write_text(to_yaml(resolved.config, resolved.origins))
    assert resolve(again).config == resolved.config
    assert yaml.safe_load(again.read_text())["data"]["units"]["kind: x.y"] == "MW"
    other = resolve(path, ["data.units={demand: GW}"]).config
    assert config_differences(resolved.config, other) == {
        "data.units": ({"temp. outside": "degC", "kind: x.y": "MW"}, {"demand": "GW"})
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("degC", "data.units: expected a mapping such as {temperature: degC}, got the text 'degC'"),
        ("{a: 5}", "data.units.a: expected text, got 5"),
        ("{a: ''}", "data.units.a: must not be empty"),
    ],
)
def test_a_bad_unit_is_a_plain_mistake(value: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        units_of(f"data.units={value}")
    (mistake,) = caught.value.mistakes
    assert words in mistake


def test_a_unit_of_no_feature_is_refused_with_the_nearest(run: RunFolder) -> None:
    config = resolve(Path("u.yaml"), ["data.units={demnd: MW}"]).config
    with pytest.raises(DataError) as caught:
        load_data(config.data)
    assert str(caught.value) == (
        "data.units: no feature 'demnd'. Did you mean 'demand'? The features are temp. outside,"
        " demand."
    )
    check_units({"a": "m"}, ["a", "b"])


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("temp (degC)", "degC"), ("wind [m/s]", "m/s"),  ("x [ kW h ] ", "kW h"),
        ("temp", None), ("(degC)", None), ("x (2)", None),  ("f(x) max", None),
    ],
)  # fmt: skip
def test_units_at_the_end_of_names(name: str, unit: str | None) -> None:
    assert unit_in_name(name) == unit


def test_a_label_does_not_repeat_the_unit_of_the_name() -> None:
    units = {"t": "degC", "temp (degC)": "degC", "wind (km/h)": "m/s"}
    assert [with_unit(name, units) for name in ("t", "temp (degC)", "wind (km/h)", "other")] == [
        "t [degC]", "temp (degC)", "wind (km/h) [m/s]", "other",
    ]  # fmt: skip
    assert with_unit("temp (degC)", units, "temp (d") == "temp (d [degC]"


# --- what keeps them ------------------------------------------------------------------------------


def test_the_checkpoint_and_the_summary_have_them(run: RunFolder) -> None:
    assert load_model(run.best).spec.units == UNITS
    assert run.read_summary()["units"] == UNITS


def test_a_run_goes_on_with_other_units(seqattn: Command, run: RunFolder) -> None:
    more = ("--resume", "--plots", "none", "--quiet", "--set", "training.epochs=2")
    done = seqattn("train", "u.yaml", *more, "--set", "data.units={demand: GW}")
    assert done.code == 0, done.err
    assert run.read_summary()["units"] == {"demand": "GW"}
    assert load_model(run.last).spec.units == {"demand": "GW"}


# --- where they are shown -------------------------------------------------------------------------


def test_the_pictures_have_them(run: RunFolder) -> None:
    summary, predictions = run.read_summary(), run.read_predictions()
    drawn = predictions_picture(predictions, summary, 2)
    assert {"temp. outside [degC]", "demand [MW]"} <= texts(drawn)
    assert any(text.endswith(" MW") and "RMSE" in text for text in texts(drawn))
    assert texts(seqattn_api.load(run.path).plot_predictions(2)) == texts(drawn)
    without = texts(predictions_picture(predictions, {**summary, "units": {}}, 2))
    assert {"temp. outside", "demand"} <= without
    assert not any("MW" in text for text in without)


def test_the_tables_of_train_and_evaluate_have_them(seqattn: Command, run: RunFolder) -> None:
    for words in (("train", "u.yaml", "--plots", "none", "--overwrite"), ("evaluate", "outputs/u")):
        done = seqattn(*words)
        assert done.code == 0, done.err
        shown = " ".join((done.out + done.err).split())
        assert "demand, in MW" in shown
        assert "RMSE, demand [MW]" in shown
        assert "MASE, demand" in shown
        assert "MASE, demand [MW]" not in shown  # a ratio
    scored = json.loads(seqattn("evaluate", "outputs/u", "--json").out)
    assert scored["units"] == UNITS


def test_inspect_and_explain_show_them(seqattn: Command, run: RunFolder) -> None:
    shown = seqattn("inspect", "outputs/u").out
    assert "trained on: temp. outside [degC], demand [MW] (at most 4 steps) -> temp." in shown
    assert 'data.units: {"demand": "MW", "temp. outside": "degC"}' in shown
    layout = json.loads(seqattn("inspect", "outputs/u", "--json").out)["layout"]
    assert layout["source"]["units"] == UNITS
    explained = " ".join(seqattn("explain", "outputs/u").out.split())
    assert " MW in the units of the data" in explained
    assert " degC, demand " in explained
    assert json.loads(seqattn("explain", "outputs/u", "--format", "json").out)["units"] == UNITS


def test_the_page_shows_the_units(seqattn: Command, run: RunFolder) -> None:
    pytest.importorskip("jinja2")
    done = seqattn("report", "outputs/u", "--no-live")
    assert done.code == 0, done.err
    page = (run.path / "report.html").read_text()
    assert "demand, in MW</caption>" in page
    assert '"demand [MW]"' in page


def test_data_check_reads_them_from_the_header(seqattn: Command, tmp_path: Path) -> None:
    Path("u.csv").write_text(table("temp (degC)", "wind [m/s]", "demand"))
    done = seqattn("data", "check", "u.csv")
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if "units:" in line]
    assert line.startswith('  # units: {"temp (degC)": "degC", "wind [m/s]": "m/s"}')
    section = done.out.partition("config:\n")[2].replace("# units:", "units:")
    Path("c.yaml").write_text(f"name: c\n{section}")
    found = load_data(resolve(Path("c.yaml")).config.data)
    assert found.units == {"temp (degC)": "degC", "wind [m/s]": "m/s"}
    assert found.train.features == ("temp (degC)", "wind [m/s]", "demand")
