"""A comparison on a cluster that is told to stop."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def is_training(command: int) -> bool:
    """Whether a worker of a command trains; other tests may have workers, too."""
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and b"ray::train_on_worker" in (place / "cmdline").read_bytes():
                parent = int(place.name)
                while parent > 1:
                    if parent == command:
                        return True
                    stat = Path(f"/proc/{parent}/stat").read_text()
                    parent = int(stat.rpartition(")")[2].split()[1])
        except OSError:
            continue
    return False


def test_a_signal_ends_it_with_its_exit_code_and_no_stack(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("seed: 3\n")
    words = ["compare", "c.yaml", "--vary", "model.attention.score=dot,additive", "--seeds", "2",
             "--threads", "1", "--engine", "ray", "--set", "training.epochs=5000"]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "seqattn", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 90
    while not is_training(process.pid) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "seqattn: SIGTERM: finished runs are kept" in err
    assert "Traceback" not in err
    assert "@" not in err, "a stack of C++"
