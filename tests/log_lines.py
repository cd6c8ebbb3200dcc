"""What processes of tests/runs/test_logging.py run. It imports no torch: each of them would wait for it."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

PRELOADED = ("numpy", "pydantic", "yaml", "filelock", "seqattn.config")
"""What `seqattn.runs` imports and what takes time. None of it makes a logger."""


def log_many(home: Path, worker: int) -> None:
    """Write 20 lines into the log of a run of its own, and 20 into that of one which others share."""
    from seqattn.runs import RunFolder

    for k in range(20):
        for name in ("shared", str(worker)):
            RunFolder(home / name).log_line(f"{worker} {k}")


def serve() -> None:
    """Fork a process for each script that a line of the input names, and print its exit status.

    A line is the JSON of the script, its argument and the files for its output and errors.
    """
    for module in PRELOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        script, argument, out, err = json.loads(line)
        child = os.fork()
        if child == 0:
            run_script(script, argument, out, err)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


def run_script(script: str, argument: str, out: str, err: str) -> NoReturn:
    """What `python -c script argument` does, up to its end."""
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["-c", argument]
    code = 1
    try:
        assert not {"seqattn.runs", "torch"} & sys.modules.keys(), "the script is to import it"
        exec(compile(script, "-c", "exec"), {"__name__": "__main__"})
        code = 0
    except BaseException:
        traceback.print_exc()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
