"""Groups of runs as tasks of a Ray cluster: on this machine, or on many.

A group is what one process would train side by side, so each run ends with the bytes it would have
ended with there. A task trains its group in a folder of its own on whatever machine it is put, and
sends the finished run folders back; nothing is shared but the cluster. A task whose machine dies is
begun again on another. What has come back is safe on the disk of the one who asked.

Ray rather than a scheduler of our own: it has nodes that come and go, retries and transport.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqattn.config import Config
from seqattn.errors import DistributedError, Interrupted, SeqattnError, UsageError
from seqattn.experiments import Callbacks, Launch, groups_to_train, train_many
from seqattn.runs import RunFolder
from seqattn.runs.storage import allow_open_files, atomic_write, exclusive_lock, write_transaction

INSTALL = 'compare --engine ray needs Ray: pip install "seqattn[ray]"'
PATIENCE = 60.0
"""Seconds until a cluster that does not answer is given up."""
RETRIES = 8  # times a task is begun again elsewhere
ASK = 0.2  # seconds between two looks at whether to stop
Group = list[tuple[Config, RunFolder]]
Files = dict[str, bytes]


@dataclass(frozen=True)
class RayCluster:
    """Where groups are trained as tasks.

    Attributes:
        address: of a cluster of Ray that runs; None starts one here.
    """

    address: str | None = None


def train(
    configs: Sequence[tuple[Config, RunFolder]],
    *,
    address: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    callbacks: Callbacks | None = None,
    provenance: Mapping[str, Any] | None = None,
    before_writing: Callable[[], None] = lambda: None,
) -> None:
    """Train what is not trained yet, so that every folder is as if it had been trained here.

    Args:
        configs: what to train, and the folder it goes to.
        address: host:port of a cluster, or auto for one that runs here; None starts one.
        device: "cuda" and "auto" give each task one of the cluster's GPUs, where it has any.
        before_writing: called once the cluster was found usable.
        threads: of each task; 1 without. (In process without, a few steps are measured.)

    Raises:
        UsageError: Ray is not installed, or no machine has as many cores, or a GPU.
        DistributedError: the cluster cannot be reached.
        SeqattnError: what a user can mend in a config or its data.
        Interrupted: SIGINT or SIGTERM.
    """
    callbacks = callbacks or Callbacks()
    groups = groups_to_train(configs)
    if not groups:
        return
    total = sum(config.training.epochs for config, _ in configs)
    with _connected(address, callbacks) as ray:
        gpus = _gpus_of_a_task(ray, device, threads or 1)
        before_writing()
        begun = sum(folder.last.exists() for group in groups for _, folder in group)
        if begun:
            callbacks.message(f"Restarting {begun} partially trained runs on the cluster.")
        left = sum(config.training.epochs for group in groups for config, _ in group)
        callbacks.begin(total - left, total)
        _collect(ray, _submit(ray, groups, gpus, threads or 1, provenance or {}), callbacks)


def _submit(
    ray: Any, groups: Sequence[Group], gpus: int, threads: int, provenance: Mapping[str, Any]
) -> dict[Any, Group]:
    """A task for each group, and which group it trains."""
    remote = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=RETRIES)(train_group)
    waiting = {}
    for group in groups:
        configs, where = [config for config, _ in group], "cuda" if gpus else "cpu"
        task = remote.remote(configs, where, threads, dict(provenance), str(Path.cwd()))
        waiting[task] = group
    return waiting


def _collect(ray: Any, waiting: dict[Any, Group], callbacks: Callbacks) -> None:
    """Write the run folders of each group when its task is done.

    Raises: as `train`.
    """
    while waiting:
        done, _ = ray.wait([*waiting], timeout=ASK)
        if number := callbacks.stop():
            for task in waiting:
                with contextlib.suppress(Exception):
                    ray.cancel(task, force=True)
            raise Interrupted(number, "what had come back is kept; the same command goes on.")
        for task in done:
            folders = [folder for _, folder in waiting.pop(task)]
            _take_in(list(zip(folders, _result(ray, task), strict=True)), callbacks)


def _gpus_of_a_task(ray: Any, device: str, threads: int) -> int:
    """How many GPUs each task gets.

    Raises:
        UsageError: no machine has as many cores, or a GPU: a task would wait for ever.
    """
    gpus = int(device != "cpu" and ray.cluster_resources().get("GPU", 0) > 0)
    if device == "cuda" and not gpus:
        raise UsageError("--device cuda: no machine of the cluster has a GPU.")
    cores = max(
        (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0
    )
    if threads > cores:
        raise UsageError(
            f"--threads {threads}: no machine of the cluster has more than {cores:.0f} cores, so no"
            " task could ever begin."
        )
    return gpus


def train_group(
    configs: Sequence[Config],
    device: str,
    threads: int,
    provenance: Mapping[str, Any],
    folder: str,
) -> list[Files] | tuple[int, str]:
    """What a task does: train a group and send back its runs; or, for what a user can mend, the
    exit code and the message."""
    with contextlib.suppress(OSError):  # where files of one's own are seen from, if it is here
        os.chdir(folder)
    with tempfile.TemporaryDirectory(prefix="seqattn-") as home:
        folders = [RunFolder(Path(home) / str(k)) for k in range(len(configs))]
        try:
            jobs = train_many(
                list(zip(configs, folders, strict=True)), device=device, threads=threads,
                launch=Launch(provenance=provenance),
            )  # fmt: skip
        except SeqattnError as error:
            return error.exit_code, str(error)
        return [_files(job.folder.path) for job in jobs]


def _files(home: Path) -> Files:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _result(ray: Any, task: Any) -> list[Files]:
    try:
        found: list[Files] | tuple[int, str] = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise DistributedError(
            f"a task of the cluster failed, {type(cause).__name__}: {_first_line(cause)}. What had"
            " come back is kept; the same command goes on."
        ) from None
    except ray.exceptions.RayError as error:
        raise DistributedError(
            f"a task of the cluster was lost {RETRIES + 1} times: {_first_line(error)}. What had"
            " come back is kept; the same command goes on."
        ) from None
    if isinstance(found, tuple):
        code, words = found
        mended = SeqattnError(words)
        mended.exit_code = code
        raise mended
    return found


def _take_in(runs: Sequence[tuple[RunFolder, Files]], callbacks: Callbacks) -> None:
    """Write the folders of a group. A summary says that its run is whole, and results that no run
    of the group is missing: so the summaries come last, and of those the results."""
    allow_open_files(len(runs))  # a lock each
    with contextlib.ExitStack() as held:
        for folder, _ in runs:
            folder.path.mkdir(parents=True, exist_ok=True)
            held.enter_context(exclusive_lock(folder.path))
            folder.clear()
        with write_transaction():
            for folder, files in runs:
                for name in sorted(files.keys() - {folder.summary.name}):
                    path = folder.path / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    atomic_write(path, files[name])

        def has_results(summary: tuple[Path, bytes]) -> bool:
            return not json.loads(summary[1]).get("diverged")

        summaries = [(folder.summary, files[folder.summary.name]) for folder, files in runs]
        for path, content in sorted(summaries, key=has_results):
            atomic_write(path, content)
    for folder, _ in runs:
        for record in folder.read_metrics():
            callbacks.epoch(record)


# --- the cluster ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _connected(address: str | None, callbacks: Callbacks) -> Iterator[Any]:
    """Ray, connected; what was started here ends here.

    Raises:
        UsageError: it is not installed.
        DistributedError: the cluster cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of a training
    try:
        import ray
    except ImportError:
        raise UsageError(INSTALL) from None
    if address is not None:
        _knock(address)
        _try(address, callbacks)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(address=address or "local", **_options(address))
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():  # Ray's own print a stack
                signal.signal(number, handler)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        whose = f"the Ray cluster at {address}" if address else "a Ray of its own"
        raise DistributedError(f"{whose} cannot be reached: {_first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _options(address: str | None) -> dict[str, Any]:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    return quiet if address else {**quiet, "include_dashboard": False}


def _try(address: str, callbacks: Callbacks) -> None:
    """Connect in another process first: Ray ends the process that meets something else than Ray."""
    code = f"import ray; ray.init(address={address!r}, **{_options(address)!r})"
    with tempfile.TemporaryFile() as said:
        trial = subprocess.Popen([sys.executable, "-c", code], stdout=said, stderr=said)
        try:
            waited = 0.0
            while trial.poll() is None and waited < PATIENCE:
                if number := callbacks.stop():
                    raise Interrupted(number, "before anything was trained.")
                time.sleep(ASK)
                waited += ASK
        finally:
            trial.kill()
            trial.wait()
        if trial.returncode == 0:
            return
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines() or ["it does not answer"]
    late = f" within {PATIENCE:.0f} seconds" if waited >= PATIENCE else ""
    raise DistributedError(
        f"the Ray cluster at {address} cannot be reached{late}: {lines[-1][:300]}"
    )


def _knock(address: str) -> None:
    """Find out at once whether anybody listens."""
    if address == "auto":
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UsageError(f"--ray-address {address}: expected host:port, or auto.")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise DistributedError(
            f"the Ray cluster at {address} cannot be reached: {error.strerror or error}."
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
