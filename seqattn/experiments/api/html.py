"""The HTML that a notebook shows for a run, for several seeds or for a comparison.

The HTML has a table and, if there are results, pictures. All text is escaped, the pictures are PNG
data, and the HTML contains no script.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqattn.analysis.comparison import ComparisonResult, describe_result
from seqattn.analysis.comparison.columns import seed_results
from seqattn.analysis.comparison.tables import describe_references, variant_table
from seqattn.config.files import read_regular_file
from seqattn.errors import SeqattnError
from seqattn.runs import RunFolder
from seqattn.runs.array_files import sequence_titles

PNG = b"\x89PNG\r\n\x1a\n"
MAX_PICTURE_BYTES = 4_000_000
"""Larger pictures are not embedded, so that the notebook remains small."""
Pictures = Iterable[tuple[str, bytes]]


def as_html(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    pictures: Pictures = (),
) -> str:
    """Return HTML with a title, a table, sentences and pictures.

    Args:
        title: the title.
        headings: the headings of the columns; empty for a table without headings.
        rows: the cells of each row.
        notes: sentences below the table.
        pictures: pairs of a description and the content of a PNG file. Contents of other formats,
            and of more than `MAX_PICTURE_BYTES`, are left out.
    """
    cell = '<{0} style="text-align:left">{1}</{0}>'
    lines = ["<div>", f"<p><strong>{_text(title)}</strong></p>", "<table>"]
    if headings:
        lines.append(f"<tr>{''.join(cell.format('th', _text(name)) for name in headings)}</tr>")
    lines += [f"<tr>{''.join(cell.format('td', _text(each)) for each in row)}</tr>" for row in rows]
    lines += ["</table>", *(f"<p>{_text(note)}</p>" for note in notes)]
    lines += [
        f'<img alt="{_text(name)}" style="max-width:100%"'
        f' src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        for name, content in pictures
        if content.startswith(PNG) and len(content) <= MAX_PICTURE_BYTES
    ]
    return "\n".join([*lines, "</div>"])


def _text(text: object) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in str(text))
    return html.escape(printable)


def run_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Return rows with the results of a run, from its `summary.json`."""
    losses = {
        f"test loss (best epoch, {summary['best_epoch']})": summary["test_loss"],
        "test loss, teacher-forced": summary["test_loss_teacher_forced"],
        "noise floor": summary["noise_floor"],
        **{f"baseline: {name}": loss for name, loss in summary["baselines"].items()},
    }
    rows = [[name, f"{loss:.4f}"] for name, loss in losses.items() if loss is not None]
    accuracy = (summary["attention"] or {}).get("alignment_accuracy")
    if accuracy is not None:
        rows.append(["largest weight at the true source step", f"{accuracy:.1%}"])
    return [*rows, ["epochs", str(summary["epochs"])],
            ["parameters", f"{summary['parameters']:,}"]]  # fmt: skip


def run_pictures_of(folder: RunFolder, *, only_losses: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the pictures of a run. If the picture file is missing or too large, draw the picture.

    Args:
        folder: the folder of a finished run.
        only_losses: whether to leave out the pictures of forecasts and attention weights.
    """
    from seqattn.plots import as_bytes, run_pictures

    def losses() -> bytes:
        return as_bytes(run_pictures.loss_picture(folder, folder.read_results()))

    def predictions() -> bytes:
        summary = folder.read_results()
        arrays = folder.read_predictions(run_pictures.EXAMPLES)
        return as_bytes(run_pictures.predictions_picture(arrays, summary))

    def attention() -> bytes:
        examples = run_pictures.EXAMPLES
        titles = sequence_titles(folder.read_predictions(examples))
        arrays = folder.read_attention(examples)
        return as_bytes(run_pictures.attention_picture(arrays, titles, examples)[0])

    yield from _picture("losses of each epoch", folder.loss_picture, losses)
    if only_losses:
        return
    yield from _picture("forecasts of test sequences", folder.predictions_picture, predictions)
    if folder.attention.exists():
        yield from _picture("attention weights", folder.attention_picture, attention)


def _picture(
    name: str, file: Path, draw: Callable[[], bytes], *, is_current: bool = True
) -> Iterator[tuple[str, bytes]]:
    """Yield the content of a picture file, or of a new picture if the file is missing, too large or
    not current. A picture that cannot be drawn is left out."""
    try:
        is_usable = is_current and file.is_file() and file.stat().st_size <= MAX_PICTURE_BYTES
        yield name, file.read_bytes() if is_usable else draw()
    except (SeqattnError, OSError):
        return


def result_html(result: ComparisonResult, title: str, pictures: Mapping[str, str]) -> str:
    """Return the HTML of a comparison or of several seeds.

    Args:
        result: the results.
        title: the title.
        pictures: a description of each picture, by its file name in a comparison folder.
    """
    headings, rows = variant_table(result.variants)
    notes = [note for note in (describe_references(result), *describe_result(result)) if note]
    return as_html(title, headings, rows, notes, _result_pictures(result, pictures))


def _result_pictures(
    result: ComparisonResult, pictures: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    from seqattn.plots.comparison_pictures import PICTURES

    variants = [variant for variant in result.variants if variant.losses]
    if not any(variant.summaries for variant in variants):
        return
    for file, name in pictures.items():

        def draw(file: str = file) -> bytes:
            return PICTURES[file](result, variants) or b""

        path = result.path / file
        yield from _picture(name, path, draw, is_current=_shows_result(path, result))


def _shows_result(picture: Path, result: ComparisonResult) -> bool:
    """Return whether the picture file of a comparison was drawn from a result.

    The tables are written before the pictures. So if a call is stopped, the tables or pictures may
    describe fewer runs than the result. The function returns True if `seeds.csv` describes the
    result, and if the picture is not older than this table.
    """
    table = result.path / "seeds.csv"
    try:
        if picture.stat().st_mtime_ns < table.stat().st_mtime_ns:
            return False
        return read_regular_file(table) == seed_results(result).csv().encode()
    except OSError:
        return False
