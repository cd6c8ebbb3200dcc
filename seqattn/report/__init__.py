"""A run or a comparison as one HTML page that works offline.

The page has everything in it: its data, its style, its script, and plotly's (the extra `report`).
A policy in its head forbids every request and every script but those two, so a name from a file
cannot run or load anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from seqattn import __version__
from seqattn.analysis.comparison import ComparisonResult, is_comparison, read_comparison
from seqattn.errors import UsageError
from seqattn.report.content import comparison_content, run_content
from seqattn.runs import PAGE, RunFolder, find_run
from seqattn.runs.output_files import write_output
from seqattn.runs.storage import folder_lock

ELSEWHERE = "write elsewhere with --output FILE"
INSTALL = 'The pages of seqattn report need plotly and Jinja2: pip install "seqattn[report]"'


def report(path: Path, output: Path | None = None) -> Path:
    """Write the page of a run, of many seeds, or of a comparison.

    Args:
        path: its folder.
        output: where to; report.html in the folder without.

    Returns:
        where the page is.

    Raises:
        UsageError: plotly or Jinja2 is missing.
        CheckpointError: nothing to report is there, or it cannot be read.
        FolderLockedError: what is reported is being written, and the page would stay in its folder.
    """
    _ask_for_libraries()
    many = path.is_dir() and is_comparison(path) and not RunFolder(path).is_run
    home = path if many else find_run(path)[0].path
    with contextlib.nullcontext() if output else folder_lock(home, remedy=ELSEWHERE):
        if many:
            result = read_comparison(path)
            if output is None:
                _refuse_unfinished(result)
            content = comparison_content(result, None if output is None else output.parent)
        else:
            content = run_content(RunFolder(home))
        target = output or home / PAGE
        # A path may hold bytes that are no text; Python has lone surrogates for them.
        write_output(target, page(content).encode(errors="backslashreplace"))
    return target


def _refuse_unfinished(result: ComparisonResult) -> None:
    """A page in the folder is of what is in the folder, so no seed may be in training.

    Raises:
        FolderLockedError: one is.
    """
    for variant in result.variants:
        for seed, folder in variant.folders.items():
            if seed not in variant.summaries:
                with folder_lock(folder.path, remedy=ELSEWHERE):
                    pass


def page(content: dict[str, Any]) -> str:
    """Content as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    # No angle bracket or ampersand stays in the data: nothing in it can end the element it is in.
    data = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    environment = Environment(
        loader=PackageLoader("seqattn", "report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    files = resources.files("seqattn.report")
    return environment.get_template("page.html").render(
        content=content,
        data=data,
        version=__version__,
        nonce=hashlib.sha256(data.encode()).hexdigest()[:32],
        style=(files / "page.css").read_text(encoding="utf-8"),
        script=(files / "page.js").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
    )


def _ask_for_libraries() -> None:
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
    except ImportError:
        raise UsageError(INSTALL) from None


__all__ = ["INSTALL", "PAGE", "page", "report"]
