"""The choice of the device, and the content of `environment.json`."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from seqattn.errors import UsageError


def choose_device(name: str) -> torch.device:
    """Return the device for "cpu", "cuda" or "auto" (a GPU if there is one)."""
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {name}: expected auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU here. Use --device cpu or auto.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def collect_environment(device: torch.device, config_path: Path | None) -> dict[str, Any]:
    """Return the start time, the git revision, and the versions and hardware that may affect the
    results of a run."""
    packages = ("seqattn", "torch", "numpy", "pydantic", "safetensors", "matplotlib")
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processor": describe_processor(),
        "cores": os.cpu_count(),
        "device": str(device),
        "gpu": gpu,
        "git_revision": find_git_revision(config_path),
    }


def describe_processor() -> str:
    """Return the name of the processor and the set of instructions that torch uses, for example
    "AMD EPYC (AVX2)".

    Both affect rounding. On Linux, the name is the model name in /proc/cpuinfo.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    name = next(names, "") or platform.processor() or platform.machine()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"


def rounding_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe the changes in the environment that make a resumed run round differently: another
    device, processor, version of torch, number of threads or number of processes.

    Args:
        before, now: content of `environment.json` before and after the resume. A missing number of
            processes means one process. Any other missing entry counts as unchanged.

    Returns:
        a message for the log, or None if none of these has changed.
    """
    changes = list[str]()
    if before.get("device") is not None:
        old, new = (
            f"{found['device']} ({found['gpu']})" if found.get("gpu") else str(found["device"])
            for found in (before, now)
        )  # fmt: skip
        if old != new:
            changes.append(f"device {old} -> {new}")
    old_processor, processor = before.get("processor"), now.get("processor")
    if None not in (old_processor, processor) and old_processor != processor:
        changes.append(f"processor {old_processor} -> {processor}")
    old_torch, torch_now = (found.get("packages", {}).get("torch") for found in (before, now))
    if old_torch not in (None, torch_now):
        changes.append(f"torch {old_torch} -> {torch_now}")
    for key, default in (("threads", None), ("processes", 1)):
        old_count, count = before.get(key, default), now.get(key, default)
        if None not in (old_count, count) and old_count != count:
            changes.append(f"{key} {old_count} -> {count}")
    if not changes:
        return None
    return (
        f"Changed since the checkpoint was saved: {', '.join(changes)}. This changes the rounding,"
        " so the results will differ from those of a run without this change."
    )


def find_git_revision(config_path: Path | None) -> str | None:
    """Return the git revision of the repository that contains the config file or, without a file,
    the current folder.

    The result ends in "-dirty" if tracked files differ from this revision. If git fails or finds no
    repository, the result is None.
    """
    place = config_path.resolve().parent if config_path else Path.cwd()
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(
            ["git", "-C", str(place), *describe],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
