"""HTML pages that show runs and comparisons, and that work offline.

A page contains its data, style and script, and plotly. A page with a live model, which the browser
evaluates, also contains ONNX Runtime Web. Both libraries are in `vendor/`, compressed. A content
security policy allows only the scripts of the page and forbids all requests, so text from files
cannot run a script or load a resource. If a page has a live model, the policy also allows
WebAssembly and scripts from `blob:` addresses. Only a script of the page can create a `blob:`
address.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn import __version__
from seqattn.analysis.comparison import ComparisonResult, is_comparison, read_comparison
from seqattn.errors import UsageError, counted, install_command
from seqattn.plots.captions import WEIGHTS_CAPTION
from seqattn.report.content import comparison_content, run_content, runs_content
from seqattn.runs import PAGE, RunFolder, find_run
from seqattn.runs.storage import folder_lock, write_output

if TYPE_CHECKING:
    from markupsafe import Markup

MAX_SIDE_BY_SIDE = 4
OUTPUT_HINT = "write elsewhere with --output FILE"
VENDORED = {
    "plotly-script": "plotly-cartesian.min.js",
    "ort-script": "ort.wasm.bundle.min.mjs",
    "ort-wasm": "ort-wasm-simd-threaded.wasm",
}
"""The vendored files, by the ids of the HTML elements that contain them."""
TERMS = {
    "parameter-free": "parameter-free", "free-running": "free running",
    "free running": "free running", "teacher-forced": "teacher forcing",
    "noise floor": "noise floor", "mean squared error": "mean squared error",
}  # fmt: skip
"""Words of the summary and their terms in the glossary (web/src/live/glossary.ts)."""


def report(path: Path, output: Path | None = None, *, live: bool = True) -> Path:
    """Write the report page of a run, of several seeds, or of a comparison.

    Args:
        path: the folder of the run, the seeds or the comparison.
        output: the file to write; None for `report.html` in the folder.
        live: whether to include the model in the page, so that readers can change the input and the
            attention weights of the model.

    Returns:
        The path of the page.

    Raises:
        UsageError: if Jinja2 is not installed.
        CheckpointError: if the folder has no results, or if its results cannot be read.
        FolderLockedError: if `output` is None and another process writes to the folder or trains
            one of its seeds.
    """
    _require_libraries()
    is_many = path.is_dir() and is_comparison(path) and not RunFolder(path).is_run
    folder = path if is_many else find_run(path)[0].path
    with contextlib.nullcontext() if output else folder_lock(folder, remedy=OUTPUT_HINT):
        if is_many:
            result = read_comparison(path)
            if output is None:
                _check_finished(result)
            content = comparison_content(
                result, None if output is None else output.parent, live=live
            )
        else:
            content = run_content(RunFolder(folder), live=live)
        target = output or folder / PAGE
        # A path may contain bytes that are not valid text. Python represents such a byte as a lone
        # surrogate.
        write_output(target, render_page(content).encode(errors="backslashreplace"))
    return target


def report_side_by_side(runs: Sequence[Path], output: Path) -> Path:
    """Write a page that shows the forecasts of several runs for the same input, side by side.

    Args:
        runs: two to four run folders. All runs must have the same source features and the same
            target features.
        output: the file to write.

    Returns:
        The path of the page.

    Raises:
        UsageError: if Jinja2 is not installed, if there are more than four runs, if the
            features or units of the runs differ, if no source fits all models, or if the page
            cannot contain one of the models.
        CheckpointError: if a folder does not contain a finished run, or cannot be read.
    """
    _require_libraries()
    if len(runs) > MAX_SIDE_BY_SIDE:
        raise UsageError(
            f"seqattn report: shows at most {counted(MAX_SIDE_BY_SIDE, 'run')} side by side, and"
            f" {counted(len(runs), 'folder')} were given."
        )
    folders = [RunFolder(find_run(path)[0].path) for path in runs]
    write_output(output, render_page(runs_content(folders)).encode(errors="backslashreplace"))
    return output


def _check_finished(result: ComparisonResult) -> None:
    """Check that no seed is being trained, because a page written now would soon be outdated.

    Raises:
        FolderLockedError: if a seed is being trained.
    """
    for variant in result.variants:
        for seed, folder in variant.folders.items():
            if seed not in variant.summaries:
                with folder_lock(folder.path, remedy=OUTPUT_HINT):
                    pass


def render_page(content: dict[str, Any]) -> str:
    """Render the content of a page as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Without angle brackets and ampersands, the data cannot end the HTML element that contains
    # them.
    data = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        data = data.replace(char, f"\\u{ord(char):04x}")
    environment = Environment(
        loader=PackageLoader("seqattn", "report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["terms"] = _mark_terms
    files = resources.files("seqattn.report")
    return environment.get_template("page.html").render(
        content=content,
        data=data,
        caption=WEIGHTS_CAPTION,
        version=__version__,
        nonce=hashlib.sha256(data.encode()).hexdigest()[:32],
        style=(files / "page.css").read_text(encoding="utf-8"),
        script=(files / "page.js").read_text(encoding="utf-8"),
        vendored={
            element: _read_packed(name)
            for element, name in VENDORED.items()
            if content.get("live") or not element.startswith("ort-")
        },
    )


def _read_packed(name: str) -> str:
    """Return a vendored file, which is compressed with gzip, in base64."""
    packed = resources.files("seqattn.report") / "vendor" / f"{name}.gz"
    return base64.b64encode(packed.read_bytes()).decode()


def _mark_terms(text: str) -> Markup:
    """Return a text as HTML in which the terms of the glossary are marked.

    The script of the page turns the marked terms into buttons.
    """
    from markupsafe import Markup, escape

    words = re.compile("|".join(map(re.escape, TERMS)))
    marked = words.sub(
        lambda found: f'<span data-term="{TERMS[found[0]]}">{found[0]}</span>', str(escape(text))
    )
    return Markup(marked)  # noqa: S704  # the text is escaped


def _require_libraries() -> None:
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise UsageError(
            f"The pages of seqattn report need Jinja2: {install_command('report')}"
        ) from None


__all__ = ["PAGE", "render_page", "report", "report_side_by_side"]
