"""The entry point of the commands `seqattn` and `python -m seqattn`."""

from __future__ import annotations

import atexit
import gc
import os
import platform
import signal
import sys
from typing import Any

# Importing torch creates several hundred thousand objects that stay alive. With Python's default
# thresholds, the garbage collector scans these objects repeatedly. In a training run of three
# seconds, these scans take 0.1 seconds, and a last scan at exit takes 0.3 seconds.
GC_THRESHOLDS = (100_000, 20, 100)

# The bindings of these libraries (nanobind) print each object that still exists at the exit.
NEED_LAST_SCAN = frozenset({"duckdb", "onnx"})


def main() -> None:
    """Run the command line.

    If SIGINT or SIGTERM arrives during the imports, the process ends without a traceback, and with
    the same exit code as after a later signal.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    _limit_numpy_threads()
    atexit.register(_skip_scans_at_exit)  # the function registered first is called last
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_on_signal)
    _open_closed_streams()
    from seqattn.cli import main as run

    run()


def _limit_numpy_threads() -> None:
    """Let NumPy compute with one thread, unless the user sets the number of threads.

    NumPy's linear algebra library, OpenBLAS, starts a thread for each further core when it is
    loaded, and each thread first waits in a busy loop (0.07 seconds of CPU time). seqattn computes
    large matrix products with torch. On other processors, torch may use OpenBLAS too.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _skip_scans_at_exit() -> None:
    """Prevent the garbage collector's scans at exit that are not needed.

    Python scans all objects several times at exit: once before it clears the modules, and then
    again. A plugin may need all scans, because they close the files that the plugin left open. A
    library of `NEED_LAST_SCAN` does not need the first.
    """
    plugins = sys.modules.get("seqattn.config.plugins")
    if plugins is not None and plugins.SOURCES:
        return
    if NEED_LAST_SCAN.isdisjoint(sys.modules):
        gc.freeze()
    else:
        gc.disable()


def _open_closed_streams() -> None:
    """Connect each closed standard stream to the null device, for this process and its child
    processes. Otherwise, the next files that the process opens would get the descriptors of the
    closed streams, and text printed to a closed stream would be written to one of these files."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _exit_on_signal(number: int, frame: Any) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
