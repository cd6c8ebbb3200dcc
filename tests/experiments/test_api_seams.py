"""The Python API where its parts meet: opened epochs, relative paths, repeated calls, masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import seqattn
from seqattn.config import Config, read_stored
from seqattn.data.many_files import file_digest
from seqattn.errors import CheckpointError, DataError, UsageError
from tests.conftest import SMALL
from tests.experiments.test_python_api import CONFIG
from tests.plugins.conftest import forget_plugins
from tests.plugins.sources import BILINEAR_TANH

pytestmark = pytest.mark.usefixtures("no_pictures")


# --- other epochs than the best -------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with sequences of different lengths, whose parameters are recorded after each epoch."""
    home = tmp_path_factory.mktemp("recorded")
    sets = [*SMALL, "name=recorded", "data.variable_length=true", "training.record_attention=1"]
    return seqattn.train(None, output_dir=home, overrides=sets).folder.path


def heatmaps(figure: Figure) -> list[Any]:
    return [image.get_array() for axes in figure.axes for image in axes.images]


def test_a_run_at_another_epoch_has_the_results_of_its_own_weights(recorded: Path) -> None:
    best, start = seqattn.Run.open(recorded), seqattn.Run.open(recorded, epoch=0)
    assert best.trained.epoch > 0
    stored = best.folder.read_attention()
    arrays = best.folder.read_predictions()
    source, lengths = arrays["source"], arrays["source_lengths"]

    weights = start.attention_weights(library="numpy")
    own = start.attention_weights(source=source, library="numpy")
    assert weights.dims == own.dims
    assert list(weights.coords["sequence"]) == list(stored["ids"])
    np.testing.assert_array_equal(np.isnan(weights.values), np.isnan(stored["weights"]))
    valid = ~np.isnan(weights.values)
    np.testing.assert_allclose(weights.values[valid], own.values[valid], rtol=1e-5)
    assert np.abs(weights.values - stored["weights"])[valid].max() > 1e-3

    frame = start.to_dataframe("predictions")
    assert list(frame.columns) == list(best.to_dataframe("predictions").columns)
    error = float(((frame.forecast - frame.target) ** 2).mean())
    assert error == pytest.approx(start.evaluate().loss, rel=1e-6)
    assert error != pytest.approx(best.evaluate().loss, rel=1e-3)

    k = int(lengths.argmin())
    (drawn,) = heatmaps(start.plot_attention(k))[:1]
    rows, columns = int(arrays["target_lengths"][k]), int(lengths[k])
    np.testing.assert_allclose(drawn, weights.values[k, 0, 0, :rows, :columns], rtol=1e-5)
    with pytest.raises(UsageError, match="example 12: there are 12 test sequences"):
        start.plot_attention(12)


def test_what_is_computed_for_the_best_epoch_equals_its_files(recorded: Path) -> None:
    run = seqattn.Run.open(recorded)
    for computed, stored in (
        (run._compute_attention(run.data.test), run.folder.read_attention()),
        (run._compute_predictions(), run.folder.read_predictions()),
    ):
        assert set(computed) == set(stored)
        for name, array in stored.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(computed[name], array, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(computed[name], array)


def test_a_checkpoint_without_a_run_folder_has_results(recorded: Path, tmp_path: Path) -> None:
    best = seqattn.Run.open(recorded)
    alone = tmp_path / "a/alone.safetensors"
    alone.parent.mkdir()
    alone.write_bytes(best.folder.best.read_bytes())
    run = seqattn.Run.open(alone)
    expected = best.attention_weights(library="numpy").values
    found = run.attention_weights(library="numpy").values
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert len(run.to_dataframe("predictions")) == len(best.to_dataframe("predictions"))
    with pytest.raises(CheckpointError, match=r"summary\.json"):
        run.plot_predictions()


# --- the name of a run, and its folder ------------------------------------------------------------


def test_the_config_of_a_run_has_its_name(recorded: Path) -> None:
    best = seqattn.Run.open(recorded)
    assert best.config.name == "recorded"
    assert seqattn.Run.open(recorded, epoch=0).config.name == "recorded"
    assert seqattn.Run.open(best.folder.last).config.name == "recorded"


def test_opened_results_stay_those_of_their_folder_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    vary = {"model.cell": ["gru", "lstm"]}
    monkeypatch.chdir(first)
    runs = [seqattn.train(CONFIG), seqattn.Run.open("outputs/tiny")]
    seeds = [seqattn.train_seeds(CONFIG, 2, name="some"), seqattn.Seeds.open("outputs/some")]
    comparisons = [
        seqattn.compare(CONFIG, vary=vary, seeds=2, name="cells"),
        seqattn.Comparison.open("outputs/cells"),
    ]
    losses = seeds[0].losses
    text = [repr(each) for each in (*runs, *seeds, *comparisons)]
    assert text[0] == text[1] == f"<seqattn run {str(Path('outputs/tiny'))!r}, epoch 2>"
    assert text[2] == text[3] == f"<seqattn seeds {str(Path('outputs/some'))!r}, 2 seeds>"
    wanted = f"<seqattn comparison {str(Path('outputs/cells'))!r}, 2 variants>"
    assert text[4] == text[5] == wanted
    monkeypatch.chdir(second)
    seqattn.train(CONFIG, training__epochs=1, seed=5)
    for run in runs:
        assert run.summary["epochs"] == len(run.history) == 2
        assert run.folder.path == first / "outputs/tiny"
        assert str(run.folder.path) in repr(run)
    for many in seeds:
        assert many.path == first / "outputs/some"
        assert many[24].summary["test_loss"] == losses[24]
        assert len(many.to_dataframe("metrics")) == 2 * 2
    for each in comparisons:
        assert each.path == first / "outputs/cells"
        assert len(each["lstm"].to_dataframe("predictions")) == 2 * 7 * 4
        assert len(each.to_dataframe("metrics")) == 2 * 2 * 2
        assert each["gru"][23].summary["epochs"] == 2


# --- training -------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    """A loaded plugin with a score, which is forgotten after the test."""
    file = tmp_path / "my_attention.py"
    file.write_text(BILINEAR_TANH)
    forget_plugins()
    seqattn.load_plugin(file)
    yield file
    forget_plugins()


def test_a_config_object_trains_seeds_with_the_loaded_plugin(tmp_path: Path, plugin: Path) -> None:
    score = {"score": "bilinear_tanh", "width": 4}
    model = {"hidden_dim": 2, "attention": score}
    config = Config.model_validate({**CONFIG, "model": {**model, "kind": "recurrent"}})
    assert config.plugins == []
    one = seqattn.train(config, output_dir=tmp_path)
    many = seqattn.train_seeds(config.model_copy(update={"name": "many"}), 2, output_dir=tmp_path)
    stored = read_stored(one.folder.config).plugins
    assert stored[0].sha256 == file_digest(plugin)
    for seed in many:
        assert read_stored(many[seed].folder.config).plugins == stored


def test_only_a_run_that_exists_can_be_continued(tmp_path: Path) -> None:
    seqattn.train(CONFIG, output_dir=tmp_path, training__epochs=1)
    again = seqattn.train(CONFIG, output_dir=tmp_path, resume=True)
    assert len(again.history) == 2
    message = "tinny: no such run, so there is nothing to continue.* Did you mean --name tiny"
    config = Config.model_validate({**CONFIG, "name": "tinny"})
    frame = pd.DataFrame({"level": np.sin(np.arange(99) / 5)})
    window = {"data.window": {"source": 5, "target": 2}}
    calls: list[Callable[[], object]] = [
        lambda: seqattn.train(CONFIG, output_dir=tmp_path, name="tinny", resume=True),
        lambda: seqattn.train(config, output_dir=tmp_path, resume=True),
        lambda: seqattn.train(None, frame, output_dir=tmp_path, name="tinny", resume=True,
                              overrides=window),
        lambda: seqattn.train_seeds(CONFIG, 2, output_dir=tmp_path, name="tinny", resume=True),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(CheckpointError, match=message):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


# --- masked arrays --------------------------------------------------------------------------------


def test_masked_steps_are_padding(recorded: Path) -> None:
    run = seqattn.Run.open(recorded)
    plain = np.array([[-1, -1], [-1, 1], [999, 999]])
    mask = np.array([[False] * 2, [False] * 2, [True] * 2])
    masked = np.ma.array(plain, mask=mask)
    expected = run.predict(plain[:2])
    close = partial(np.testing.assert_allclose, desired=expected, rtol=1e-5)
    close(run.predict(masked))
    close(run.predict(masked.astype(float)))
    close(run.predict(np.ma.stack([masked, masked]))[1])
    close(run.predict([masked, masked])[1])
    weights = run.attention_weights(source=masked, library="numpy").values
    assert np.isnan(weights[..., 2]).all()
    assert not np.isnan(weights[..., :2]).any()
    for hole in (np.ma.array(plain, mask=mask[::-1]), np.ma.masked_equal(plain, 1)):
        with pytest.raises(DataError, match="not all numbers before its end are finite"):
            run.predict(hole)
