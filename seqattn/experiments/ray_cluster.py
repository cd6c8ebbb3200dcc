"""Training of groups of runs as tasks of a Ray cluster, on one or more machines.

A task trains its group just as a single process would. With `--threads 1`, machines of the same
kind, and enough memory for the same groups, the weights and results of each run are therefore the
same as without a cluster. The task writes its run folders to a temporary folder on its machine and
returns their contents. The machines need no shared run folders. If a machine fails, Ray retries the
task on another machine. The caller writes each group to disk when its task ends.
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

from seqattn.config import Config, as_plain, from_plain
from seqattn.config.plugins import load_received, plugin_contents
from seqattn.errors import DistributedError, Interrupted, SeqattnError, UsageError, install_command
from seqattn.experiments import Callbacks, Launch, groups_to_train, train_many
from seqattn.runs import RunFolder
from seqattn.runs.storage import allow_open_files, atomic_write, exclusive_lock, write_transaction

CONNECT_TIMEOUT_SECONDS = 60.0
POLL_INTERVAL_SECONDS = 0.2
"""Time in seconds between two checks of the stop signal."""
IF_AUTHENTICATED = (
    "If the cluster requires a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the token of"
    " the cluster (or RAY_AUTH_TOKEN_PATH to a file with the token)."
)
MAX_RETRIES = 8
"""Maximum number of times that Ray retries a task whose machine or process failed."""
CONTINUE = "finished runs are kept; run the same command again to continue."
RunGroup = list[tuple[Config, RunFolder]]
FileContents = dict[str, bytes]
"""The content of each file of a run folder, by its path in the folder."""


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster.

    Attributes:
        address: host:port of a running cluster, or "auto" for a running cluster on this machine.
            None starts a cluster on this machine.
    """

    address: str | None = None


def train_on_cluster(
    configs: Sequence[tuple[Config, RunFolder]],
    *,
    address: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    callbacks: Callbacks | None = None,
    provenance: Mapping[str, Any] | None = None,
    before_writing: Callable[[], None] = lambda: None,
) -> None:
    """Train the unfinished runs of many configs as tasks of a cluster.

    The run folders get the same files as if `train_many` trained the runs in this process.

    Args:
        address: see `RayCluster`.
        device: "cuda" or "auto" gives each task one GPU of the cluster. If the cluster has no GPU,
            "auto" uses the CPU.
        threads: number of threads of each task; None means one thread.
        provenance, before_writing: see `Launch`.
    """
    callbacks, threads = callbacks or Callbacks(), threads or 1
    groups = groups_to_train(configs)
    if not groups:
        return
    check_usable_keys(configs)
    total = sum(config.training.epochs for config, _ in configs)
    with _ray_connection(address, callbacks) as ray:
        gpus = _gpus_per_task(ray, device, threads)
        before_writing()
        partial = sum(folder.last.exists() for group in groups for _, folder in group)
        if partial:
            callbacks.message(f"Restarting {partial} partially trained runs on the cluster.")
        remaining = sum(config.training.epochs for group in groups for config, _ in group)
        callbacks.begin(total - remaining, total, len(configs))
        remote = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=MAX_RETRIES)
        task = remote(train_on_worker)
        tasks = {}
        for group in groups:
            submitted = task.remote(
                [as_plain(config) for config, _ in group], plugin_contents(),
                "cuda" if gpus else "cpu", threads, dict(provenance or {}), str(Path.cwd()),
            )  # fmt: skip
            tasks[submitted] = group
        _collect(ray, tasks, callbacks)


def check_usable_keys(configs: Sequence[tuple[Config, RunFolder]]) -> None:
    """Check that no config has a key that a task cannot use.

    MLflow and Weights & Biases need the folder of all outputs and the path of the run in this
    folder, but a task trains in a temporary folder, often on another machine. A task also starts
    over a run that has been stopped, so `training.start_from` might give this run other weights
    than before.
    """
    if any(config.training.start_from is not None for config, _ in configs):
        raise UsageError(
            "training.start_from: runs on a Ray cluster cannot start from another run. Compare"
            " without --engine ray."
        )
    for key in ("mlflow", "wandb"):
        if any(getattr(config.logging, key) for config, _ in configs):
            raise UsageError(
                f"logging.{key}: runs on a Ray cluster cannot be recorded. Set logging.{key}=false,"
                " or compare without --engine ray."
            )


def _collect(ray: Any, tasks: dict[Any, RunGroup], callbacks: Callbacks) -> None:
    """Write the run folders of each group when its task ends."""
    while tasks:
        # Without `num_returns`, a stop would discard all finished tasks except one.
        done, _ = ray.wait([*tasks], num_returns=len(tasks), timeout=POLL_INTERVAL_SECONDS)
        for task in done:
            folders = [folder for _, folder in tasks.pop(task)]
            _write_run_folders(list(zip(folders, _task_result(ray, task), strict=True)), callbacks)
        if tasks and (number := callbacks.stop()):
            for task in tasks:
                with contextlib.suppress(Exception):
                    ray.cancel(task, force=True)
            raise Interrupted(number, CONTINUE)


def _gpus_per_task(ray: Any, device: str, threads: int) -> int:
    """Return the number of GPUs of each task, 0 or 1. Too few cores, or no GPU although `device` is
    "cuda", is an error, because a task would wait forever."""
    gpus = int(device != "cpu" and ray.cluster_resources().get("GPU", 0) > 0)
    if device == "cuda" and not gpus:
        raise UsageError("--device cuda: no machine of the cluster has a GPU.")
    cores = max(
        (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0
    )
    if threads > cores:
        raise UsageError(
            f"--threads {threads}: no machine of the cluster has more than {cores:g} cores, so no"
            " task could start. Give fewer --threads."
        )
    return gpus


def train_on_worker(
    configs: Sequence[Mapping[str, Any]],
    plugins: Mapping[str, bytes | None],
    device: str,
    threads: int,
    provenance: Mapping[str, Any],
    folder: str,
) -> list[FileContents] | tuple[int, str]:
    """Train a group on a machine of the cluster. Ray runs this function as a task.

    Args:
        configs: the configs of the group as plain data, because a config object with the section of
            a plugin can be unpickled only after the plugin is loaded.
        plugins: the loaded plugins with the contents of their files, because this machine may not
            have the files; see `plugin_contents`.
        folder: working directory of the command, for relative paths of data files.

    Returns:
        the files of each run, or the exit code and the message of an error that a user can correct.
    """
    with contextlib.suppress(OSError):  # this machine may not have the folder
        os.chdir(folder)
    with tempfile.TemporaryDirectory(prefix="seqattn-") as scratch:
        folders = [RunFolder(Path(scratch) / str(k)) for k in range(len(configs))]
        try:
            load_received(plugins, configs)
            received = [from_plain(plain, "the config of the command") for plain in configs]
            jobs = train_many(
                list(zip(received, folders, strict=True)), device=device, threads=threads,
                launch=Launch(provenance=provenance),
            )  # fmt: skip
        except SeqattnError as error:
            return error.exit_code, str(error)
        return [_read_files(job.folder.path) for job in jobs]


def _read_files(run_dir: Path) -> FileContents:
    return {
        str(path.relative_to(run_dir)): path.read_bytes()
        for path in sorted(run_dir.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _task_result(ray: Any, task: Any) -> list[FileContents]:
    """Return the files of each run from a task that has ended."""
    try:
        result: list[FileContents] | tuple[int, str] = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise DistributedError(
            f"a task of the cluster failed, {type(cause).__name__}: {_first_line(cause)};"
            f" {CONTINUE}"
        ) from None
    except ray.exceptions.RayError as error:
        raise DistributedError(
            f"a task of the cluster was lost {MAX_RETRIES + 1} times: {_first_line(error)};"
            f" {CONTINUE}"
        ) from None
    if isinstance(result, tuple):
        exit_code, text = result
        failure = SeqattnError(text)
        failure.exit_code = exit_code
        raise failure
    return result


def _write_run_folders(
    contents: Sequence[tuple[RunFolder, FileContents]], callbacks: Callbacks
) -> None:
    """Write the run folders of a group, and report the epochs of the group.

    The config and the environment are written first, because a folder without them is not
    recognized as a run folder, and no command continues in such a folder. A run with a summary is
    complete, and a summary with results implies that the whole group is on disk. The summaries are
    therefore written last. The summaries of diverged runs come first, and the summaries with
    results follow. The files of an earlier, partial training remain until all new files are on
    disk.
    """
    allow_open_files(len(contents))  # one lock for each run
    with contextlib.ExitStack() as locks:
        for folder, _ in contents:
            folder.path.mkdir(parents=True, exist_ok=True)
            locks.enter_context(exclusive_lock(folder.path))

        with write_transaction():
            for folder, files in contents:
                for path in (folder.config, folder.environment):
                    atomic_write(path, files[path.name])
        for folder, _ in contents:  # after the files that make it a run folder
            folder.last.parent.mkdir(exist_ok=True)
        with write_transaction():
            for folder, files in contents:
                atomic_write(folder.log, files[folder.log.name], before_commit=folder.clear)
                written = {
                    path.name
                    for path in (folder.config, folder.environment, folder.log, folder.summary)
                }
                for name in sorted(files.keys() - written):
                    atomic_write(folder.path / name, files[name])

            def has_results(summary: tuple[Path, bytes]) -> bool:
                return not json.loads(summary[1]).get("diverged")

            summaries = [(folder.summary, files[folder.summary.name]) for folder, files in contents]
            for path, content in sorted(summaries, key=has_results):
                atomic_write(path, content)
    for folder, _ in contents:
        for record in folder.read_metrics():
            callbacks.epoch(folder.path, record)
        callbacks.ended(folder.path)


# --- the cluster ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _ray_connection(address: str | None, callbacks: Callbacks) -> Iterator[Any]:
    """Return a context manager that connects to a cluster, or starts a cluster and stops it at the
    end of the block. The context manager yields the module `ray`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError(f"compare --engine ray needs Ray: {install_command('ray')}") from None
    if address is not None:
        _check_port(address)
        _check_connection(address, callbacks)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(address=address or "local", **_init_options(address))
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():  # Ray's handlers print a stack trace
                signal.signal(number, handler)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = _first_line(error)
        raise DistributedError(
            f"the Ray cluster at {address} cannot be reached: {reason}" if address
            else f"a Ray cluster on this machine cannot be started: {reason}"
        ) from None  # fmt: skip
    try:
        yield ray
    finally:
        ray.shutdown()


def _init_options(address: str | None) -> dict[str, Any]:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    return quiet if address else {**quiet, "include_dashboard": False}


def _check_connection(address: str, callbacks: Callbacks) -> None:
    """Check that the cluster can be reached. The check runs in a child process, because Ray kills a
    process that connects to a server other than a Ray cluster."""
    code = f"import ray; ray.init(address={address!r}, **{_init_options(address)!r})"
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=output, stderr=output)
        try:
            waited = 0.0
            while child.poll() is None and waited < CONNECT_TIMEOUT_SECONDS:
                if number := callbacks.stop():
                    raise Interrupted(number, "before anything was trained.")
                time.sleep(POLL_INTERVAL_SECONDS)
                waited += POLL_INTERVAL_SECONDS
        finally:
            child.kill()
            child.wait()
        if child.returncode == 0:
            return
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines() or ["no answer"]
    limit = CONNECT_TIMEOUT_SECONDS
    timeout = f" within {limit:.0f} seconds" if waited >= limit else ""
    # The advice of Ray after the first sentence also describes how to start a cluster.
    reason = lines[-1].partition(". Ensure that the token")[0][:300].rstrip(".")
    raise DistributedError(
        f"the Ray cluster at {address} cannot be reached{timeout}: {reason}. {IF_AUTHENTICATED}"
    )


def _check_port(address: str) -> None:
    """Check that an address (auto, host:port or ray://host:port) is valid, and that its port is
    open."""
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
