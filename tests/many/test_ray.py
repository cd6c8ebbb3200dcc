"""Comparisons as tasks of a Ray cluster, against the same in one process."""

from __future__ import annotations

import csv
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqattn.errors import install_command
from seqattn.experiments import ray_cluster
from seqattn.runs import RunFolder
from tests.conftest import Ended

WORDS = ["compare", "c.yaml", "--vary", "model.attention.score=dot,additive,uniform,general",
         "--seeds", "3", "--threads", "1"]  # fmt: skip
SHORT = ["--set", "data.n_train=48", "--set", "training.epochs=6"]


@pytest.fixture(autouse=True)
def _config(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("seed: 3\n")


@pytest.fixture(autouse=True)
def _silent() -> None:
    """Ray logs through loggers whose streams are pytest's, which are closed by then."""
    logging.getLogger("ray").setLevel(logging.CRITICAL)


def same(one: Path, other: Path) -> int:
    """Hold two comparisons against each other; how many runs they have."""
    rows = []
    for home in (one, other):
        with (home / "seeds.csv").open() as file:
            rows.append([{k: v for k, v in row.items() if k != "seconds"}
                         for row in csv.DictReader(file)])  # fmt: skip
    assert rows[0] == rows[1]
    found = sorted(one.glob("*/seed-*"))
    for run in found:
        twin = other / run.relative_to(one)
        for name in ("checkpoints/best.safetensors", "predictions.npz"):
            if (run / name).exists():
                assert (run / name).read_bytes() == (twin / name).read_bytes(), run
        assert {p.name for p in run.iterdir()} == {p.name for p in twin.iterdir()}
    assert (one / "pairs.csv").read_bytes() == (other / "pairs.csv").read_bytes()
    return len(found)


def test_the_results_are_those_of_one_process(seqattn: Callable[..., Ended]) -> None:
    """With one variant that diverges, in every seed."""
    words = [*WORDS[:2], "--vary", "training.learning_rate=0.01,100", *WORDS[4:], *SHORT]
    words += ["--set", "training.optimizer=sgd"]
    alone = seqattn(*words, "--name", "alone")
    on_ray = seqattn(*words, "--name", "ray", "--engine", "ray")
    assert (alone.code, on_ray.code) == (0, 0), on_ray.err
    assert on_ray.out.replace("ray", "alone").split() == alone.out.split()
    assert same(Path("outputs/alone"), Path("outputs/ray")) == 6


def raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def tasks_of(parent: int) -> list[int]:
    """Processes of a node that train."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                stat = (place / "stat").read_text().rpartition(")")[2].split()
                if (
                    int(stat[1]) == parent
                    and b"train_on_worker" in (place / "cmdline").read_bytes()
                ):
                    found.append(int(place.name))
            except OSError:
                continue
    return found


def test_a_node_that_is_killed_loses_nothing(
    seqattn: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    long = ["--set", "training.epochs=60", "--set", "data.n_train=256"]
    assert seqattn(*WORDS, *long, "--name", "alone").code == 0
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        second = nodes.add_node(num_cpus=1)
        driver = subprocess.Popen(
            [sys.executable, "-m", "seqattn", *WORDS, *long, "--name", "ray", "--engine", "ray",
             "--ray-address", nodes.address],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + 90
        while not (victims := tasks_of(raylet(second))):
            assert time.monotonic() < deadline, "the second node was never given a task"
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.02)
        finished = [*tmp_path.glob("outputs/ray/*/seed-*/summary.json")]
        assert len(finished) < 12
        os.kill(raylet(second), signal.SIGKILL)
        out, err = driver.communicate(timeout=150)
        assert driver.returncode == 0, err
        assert not any(Path(f"/proc/{pid}").exists() for pid in victims)
    finally:
        nodes.shutdown()
    assert "Tables and pictures are in" in out
    assert same(tmp_path / "outputs/alone", tmp_path / "outputs/ray") == 12
    monkeypatch.setattr(ray_cluster, "_ray_connection", None)  # what is finished needs no cluster
    again = seqattn(*WORDS, *long, "--name", "ray", "--engine", "ray", "--ray-address", "auto")
    assert again.code == 0, again.err


def test_a_cluster_that_cannot_be_reached_is_named(
    seqattn: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def asked(address: str) -> Ended:
        return seqattn(*WORDS, *SHORT, "--engine", "ray", "--ray-address", address)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    done = asked(nobody)
    assert done.code == 5
    assert f"the Ray cluster at {nobody} cannot be reached: Connection refused" in done.err
    assert time.monotonic() - began < 10
    for address in ("nonsense", "host:", "host:0", ":6379"):
        done = asked(address)
        assert done.code == 2
        assert f"--ray-address {address}: expected host:port" in done.err

    monkeypatch.setattr(ray_cluster, "CONNECT_TIMEOUT_SECONDS", 4.0)
    with socket.socket() as other:  # somebody listens, who is no Ray
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = asked(f"127.0.0.1:{other.getsockname()[1]}")
        assert done.code == 5
        assert "cannot be reached within 4 seconds" in done.err
        assert done.err.endswith(f" {ray_cluster.IF_AUTHENTICATED}\n")
        monkeypatch.setenv("RAY_AUTH_MODE", "token")  # without a token, Ray does not connect at all
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(ray_cluster, "CONNECT_TIMEOUT_SECONDS", 60.0)
        done = asked(f"127.0.0.1:{other.getsockname()[1]}")
        monkeypatch.delenv("RAY_AUTH_MODE")
    assert done.code == 5
    assert "no authentication token was found. If the cluster requires a token, set" in done.err
    assert "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the token of the cluster" in done.err

    done = seqattn(*WORDS, *SHORT, "--ray-address", nobody)
    assert done.code == 2
    assert "needs --engine ray" in done.err
    monkeypatch.setitem(sys.modules, "ray", None)
    done = seqattn(*WORDS, *SHORT, "--engine", "ray")
    assert done.code == 2
    assert install_command("ray") in done.err
    assert not Path("outputs").exists()


def test_an_error_in_a_task_has_the_message_of_a_local_one(tmp_path: Path) -> None:
    from seqattn.config import as_plain, resolve
    from seqattn.errors import SeqattnError

    config = resolve(None, ["data.kind=file", "data.path=gone.csv", "data.source_length=2"]).config
    result = ray_cluster.train_on_worker([as_plain(config)], {}, "cpu", 1, {}, str(tmp_path))
    assert result == (3, "gone.csv: no such file.")

    class Ray:
        @staticmethod
        def get(task: Any) -> Any:
            return result

        class exceptions:  # noqa: N801
            RayError = RuntimeError
            RayTaskError = KeyError

    with pytest.raises(SeqattnError, match=r"gone\.csv") as raised:
        ray_cluster._task_result(Ray, None)
    assert raised.value.exit_code == 3
    assert not RunFolder(tmp_path).is_run


def test_what_no_machine_could_run_is_refused() -> None:
    """Two machines of 2 and 4 cores, and a dead one of 64, without a GPU and with one."""
    from seqattn.errors import UsageError

    class Ray:
        gpus = 0.0

        @staticmethod
        def nodes() -> list[dict[str, Any]]:
            return [{"Alive": alive, "Resources": {"CPU": cores}}
                    for alive, cores in ((True, 2.0), (True, 4.0), (False, 64.0))]  # fmt: skip

        @classmethod
        def cluster_resources(cls) -> dict[str, float]:
            return {"CPU": 6.0, **({"GPU": cls.gpus} if cls.gpus else {})}

    assert [ray_cluster._gpus_per_task(Ray, device, 4) for device in ("cpu", "auto")] == [0, 0]
    with pytest.raises(UsageError, match="--threads 5: no machine .* has more than 4 cores"):
        ray_cluster._gpus_per_task(Ray, "cpu", 5)
    with pytest.raises(UsageError, match="--device cuda: no machine of the cluster has a GPU"):
        ray_cluster._gpus_per_task(Ray, "cuda", 1)
    Ray.gpus = 2.0
    assert [ray_cluster._gpus_per_task(Ray, device, 1) for device in ("cpu", "auto", "cuda")] == [
        0,
        1,
        1,
    ]


def test_a_task_that_fails_says_why() -> None:
    from seqattn.errors import DistributedError

    class FailedError(RuntimeError):
        cause = OSError(28, "No space left on device")

    class Ray:
        @staticmethod
        def get(task: Any) -> Any:
            raise FailedError("ray::train_on_worker() (pid=1, ip=...)")

        class exceptions:  # noqa: N801
            RayError = RuntimeError
            RayTaskError = FailedError

    with pytest.raises(DistributedError, match="failed, OSError: .*No space left on device"):
        ray_cluster._task_result(Ray, None)
