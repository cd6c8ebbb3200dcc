"""Trackers: a real MLflow store, files of Weights & Biases in offline mode, and trackers that fail."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from seqattn import experiments
from seqattn.config import Config, resolve
from seqattn.errors import Interrupted, UsageError, install_command
from seqattn.experiments.trackers import TRACKERS, Status, TrackedRun
from seqattn.runs import METRICS, EpochRecord, RunFolder
from tests.conftest import Ended

SMALL = ["data.n_train=40", "data.n_validation=12", "data.n_test=15", "training.epochs=4",
         "training.batch_size=8", "name=tracked"]  # fmt: skip
PICTURES = {"loss", "predictions", "attention"}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's tables

Train = Callable[..., list[experiments.Job]]


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's settings, and no test waits for a server."""
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)


def config_of(*values: str) -> Config:
    return resolve(None, [*SMALL, *values]).config


def train_with_a_stop(config: Config, outputs: Path) -> list[experiments.Job]:
    """Train two seeds, stop them in their third epoch, and resume them."""
    configs = experiments.seeds_of(config, outputs / config.name, 2)
    steps = 0

    def stop() -> int:
        nonlocal steps
        steps += 1
        return 15 if steps >= 13 else 0

    with pytest.raises(Interrupted):
        experiments.train_many(configs, callbacks=experiments.Callbacks(stop=stop))
    return experiments.train_many(configs, resume=True)


def rows_of(folder: RunFolder) -> list[tuple[int, float]]:
    return [(record.epoch, record.validation_loss) for record in folder.read_metrics()]


# --- MLflow ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unsynced_databases")
def test_mlflow_has_every_epoch_once_after_a_stop(tmp_path: Path) -> None:
    jobs = train_with_a_stop(config_of("logging.mlflow=true"), tmp_path)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("tracked")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.run_name"])
    assert [run.info.run_name for run in runs] == ["tracked/seed-23", "tracked/seed-24"]
    for run, job in zip(runs, jobs, strict=True):
        assert job.summary is not None
        assert (run.info.status, run.data.tags["seqattn.group"]) == ("FINISHED", "tracked")
        assert run.data.params["seed"] == str(job.config.seed)
        assert run.data.params["model.attention.score"] == "scaled_dot"
        assert run.data.metrics["test_loss"] == job.summary["test_loss"]
        for place, name in enumerate(METRICS[1:], 1):
            history = client.get_metric_history(run.info.run_id, name)
            assert [(each.step, each.value) for each in history] == [
                (record.epoch, record.as_row()[place]) for record in job.folder.read_metrics()
            ]
        files = {Path(file.path) for file in client.list_artifacts(run.info.run_id)}
        assert {file.stem for file in files} == PICTURES | {"config"}
    assert (tmp_path / "mlflow-artifacts").is_dir()

    # A longer training continues the same record; an overwritten run gets a new record.
    longer = config_of("logging.mlflow=true", "training.epochs=5")
    (first, *_) = experiments.seeds_of(longer, tmp_path / "tracked", 2)
    experiments.train_many([first], resume=True)
    again = client.get_run(runs[0].info.run_id)
    assert len(client.get_metric_history(again.info.run_id, "train_loss")) == 5
    assert again.data.params["training.epochs"] == "4"
    assert again.data.tags["seqattn.resumed.training.epochs"] == "5"
    experiments.train_many([first], overwrite=True)
    assert len(client.search_runs([experiment.experiment_id])) == 3


@pytest.mark.usefixtures("unsynced_databases")
@pytest.mark.parametrize("at", ["the start", "the end"])
def test_mlflow_has_every_epoch_once_though_a_response_was_lost(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    plain, batches = MlflowClient.log_batch, 0
    lost = {1} if at == "the start" else {4, 5}

    def lose_response(client: MlflowClient, run_id: str, **content: Any) -> None:
        nonlocal batches
        plain(client, run_id, **content)
        batches += "metrics" in content
        if "metrics" in content and batches in lost:
            raise TimeoutError("no response")

    monkeypatch.setattr(MlflowClient, "log_batch", lose_response)
    words = ("logging.mlflow=true", "training.checkpoint_seconds=0")
    folder, _ = experiments.train_one(config_of(*words), tmp_path, plots=False)
    longer = config_of(*words, "training.epochs=6")
    experiments.train_one(longer, tmp_path, plots=False, resume=True)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    history = client.get_metric_history(folder.read_trackers()["mlflow"]["run_id"], METRICS[-1])
    assert sorted(each.step for each in history) == [1, 2, 3, 4, 5, 6]


def test_an_unreachable_mlflow_server_ends_the_command_before_training(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
    sets = [word for value in [*SMALL, "logging.mlflow=true", f"logging.mlflow_uri={uri}"]
            for word in ("--set", value)]  # fmt: skip
    (tmp_path / "c.yaml").write_text("seed: 23")
    done = seqattn("train", "c.yaml", *sets)
    assert done.code == 5
    assert "logging.mlflow: the tracker cannot be started: " in done.err
    assert uri.removeprefix("http://127.0.0.1:") in done.err
    assert "To train without it: --set logging.mlflow=false" in done.err
    assert seqattn("train", "c.yaml", *sets, "--set", "logging.mlflow=false", "--resume").code == 0


# --- Weights & Biases -----------------------------------------------------------------------------


def read_wandb(path: Path) -> Iterator[Any]:
    """Read the records of an offline run. The file is a log in the format of LevelDB: blocks of 32
    KiB with chunks, each with a checksum, a length and a type (1: whole, 2 to 4: first, middle and
    last part)."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, parts = path.read_bytes(), 7, b""
    assert content.startswith(b":W&B")
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        if kind == 0:
            at += left
            continue
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record, parts = Record(), b""
            record.ParseFromString(bytes(parts or content[at - length : at]))
            yield record


def items_of(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def test_the_offline_file_of_wandb_has_every_epoch_once_after_a_stop(tmp_path: Path) -> None:
    jobs = train_with_a_stop(config_of("logging.wandb=true"), tmp_path)
    identifiers = set()
    for job in jobs:
        (path,) = job.folder.wandb.glob("offline-run-*/run-*.wandb")
        records = list(read_wandb(path))
        (run,) = (record.run for record in records if record.HasField("run"))
        assert (run.project, run.run_group) == ("seqattn", "tracked")
        assert run.display_name == f"tracked/{job.folder.path.name}"
        config = items_of(run.config.update)
        assert (config["seed"], config["training.epochs"]) == (job.config.seed, 4)
        history = [items_of(r.history.item) for r in records if r.HasField("history")]
        assert [(row["epoch"], row["validation_loss"]) for row in history] == rows_of(job.folder)
        assert {name.partition(".")[0] for name in history[-1]} >= PICTURES
        summary: dict[str, Any] = {}
        for record in records:
            summary |= items_of(record.summary.update)
        assert job.summary is not None
        assert summary["test_loss"] == job.summary["test_loss"]
        stored = job.folder.read_trackers()["wandb"]
        assert (stored["place"], stored["run_id"]) == ("offline:seqattn", run.run_id)
        identifiers.add(run.run_id)
    assert len(identifiers) == 2


def test_wandb_online_needs_an_api_key(tmp_path: Path) -> None:
    config = config_of("logging.wandb=true", "logging.wandb_mode=online")
    with pytest.raises(UsageError) as caught:
        experiments.train_one(config, tmp_path, plots=False)
    assert str(caught.value) == (
        "logging.wandb: the tracker cannot be started: no API key is configured. Run: wandb login."
        " To train without it: --set logging.wandb=false"
    )


# --- trackers that fail ---------------------------------------------------------------------------


class Failing:
    """A tracker that counts its epochs and fails in some calls of `log_epochs`."""

    key = "tensorboard"
    failures: ClassVar[set[int]] = set()
    calls: ClassVar = 0
    epochs: ClassVar[list[int]] = []
    ended: ClassVar[list[tuple[Status, set[str], set[str]]]] = []

    def __init__(self, run: TrackedRun) -> None:
        self.pictures = set[str]()

    def start(self) -> int:
        return 0

    def log_epochs(self, records: Sequence[EpochRecord]) -> None:
        cls = type(self)
        cls.calls += 1
        if cls.calls in cls.failures:
            raise ConnectionError("the server\nis gone.")
        cls.epochs += [record.epoch for record in records]

    def log_picture(self, name: str, png: bytes) -> None:
        assert png.startswith(b"\x89PNG")
        self.pictures.add(name)

    def end(self, status: Status, results: Mapping[str, float]) -> None:
        self.ended.append((status, self.pictures, set(results)))


@pytest.mark.parametrize("gone", ["once", "for ever"])
def test_a_tracker_that_fails_does_not_end_the_training(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tracker(Failing):
        failures: ClassVar = {2} if gone == "once" else set(range(99))
        epochs: ClassVar = []
        ended: ClassVar = []

    monkeypatch.setitem(TRACKERS, "tensorboard", Tracker)
    messages: list[str] = []
    config = config_of("logging.tensorboard=true", "training.checkpoint_seconds=0")
    folder, _ = experiments.train_one(
        config, tmp_path, plots=False, callbacks=experiments.Callbacks(message=messages.append)
    )
    known = 1 if gone == "once" else 0
    expected = [
        "logging.tensorboard: the server is gone. Training continues; the tracker gets the epochs"
        f" after {known} at the end of the run."
    ]
    if gone == "once":
        assert Tracker.epochs == [1, 2, 3, 4]
        assert Tracker.ended == [("finished", PICTURES, {"test_loss", "best_epoch"})]
    else:
        expected.append(
            "logging.tensorboard: the server is gone. The tracker has 0 epochs, and may lack later"
            f" epochs, the results and the pictures. The files in {folder.path} are complete."
        )
    assert [line for line in messages if line.startswith("logging")] == expected
    assert all(line in folder.log.read_text() for line in expected)
    assert len(folder.read_metrics()) == 4


@pytest.mark.parametrize("key", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_before_anything_is_written(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        experiments.train_one(config_of(f"logging.{key}=true"), tmp_path, plots=False)
    assert str(caught.value) == (
        f"logging.{key} needs the extra {key}, which is not installed: {install_command(key)}"
    )
    assert not list(tmp_path.iterdir())


def test_the_name_and_group_of_a_run(tmp_path: Path) -> None:
    def named(path: str) -> tuple[str, str, str]:
        run = TrackedRun(config_of(), RunFolder(tmp_path / path))
        return run.outputs.name, run.name, run.group

    outputs = tmp_path / "outputs"
    for marker in ("scores/comparison.json", "search/tune.json"):
        (outputs / marker).parent.mkdir(parents=True)
        (outputs / marker).touch()
    assert named("outputs/tracked") == ("outputs", "tracked", "tracked")
    assert named("outputs/tracked/seed-23") == ("outputs", "tracked/seed-23", "tracked")
    assert named("outputs/scores/a/seed-23") == ("outputs", "scores/a/seed-23", "scores")
    assert named("outputs/search/0003") == ("outputs", "search/0003", "search")
