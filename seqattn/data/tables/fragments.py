"""Many Parquet and Arrow files, a stretch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seqattn.data.files.options import ReadOptions
from seqattn.data.files.piece import Piece
from seqattn.data.tables.connection import call, connected, first_line
from seqattn.data.tables.table import arrow_rows, typed_table
from seqattn.errors import DataError

KINDS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
"""What a file's name ends in."""


@dataclass(frozen=True, eq=False)
class Fragment:
    """Some rows of one file of many: a row group of a Parquet file with a sequence a row, else all.

    Attributes:
        path: the file.
        rows: first row and how many; None: the whole file.
        name: for messages.
        options: how it is read.
        is_long: whether a row is a point.
        is_named: whether its sequences have names of their own.
        alone: what its sequence is called where it has but one.
    """

    path: Path
    rows: tuple[int, int] | None
    name: str
    options: ReadOptions
    is_long: bool
    is_named: bool
    alone: str

    def pieces(self) -> Iterator[Piece]:
        """
        Raises:
            DataError: with row and column, and what would do.
        """
        from seqattn.data.tables import pieces, understand

        kind = KINDS[self.path.suffix.lower()]
        with typed_table(self.path, self.name, kind, self.rows) as table:
            understood = understand(table, self.options)
            for piece in pieces(table, understood, self.options, whole=False):
                yield (
                    piece
                    if self.is_named or not self.is_long
                    else replace(piece, ids=(self.alone,))
                )


def files_of(path: Path, form: str = "auto") -> list[Path]:
    """The Parquet and Arrow files of a folder and of those below it, by name; or one such file.

    Args:
        form: only parquet, or only arrow; auto: both.

    Raises:
        DataError: there is none.
    """
    wanted = [end for end, kind in KINDS.items() if form in ("auto", kind)]
    try:
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        files = [file for file in files if file.suffix.lower() in wanted and file.is_file()]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not files:
        what = "has no" if path.exists() else "no such folder; it would hold"
        raise DataError(f"{path}: {what} files that end in {', '.join(wanted)}.")
    return files


def fragments_of(files: Sequence[Path], options: ReadOptions, home: Path) -> Iterator[Fragment]:
    """What Parquet and Arrow files are read in; those without a row are left out. The roles of the
    first file hold for all.

    Args:
        home: the folder that they lie in, or the one file.

    Raises:
        DataError: one of them is broken.
    """
    from seqattn.data.tables import understand

    stems = Counter(file.stem for file in files)
    settled: ReadOptions | None = None
    is_long = is_named = True
    for file in files:
        alone = file.stem
        if stems[alone] > 1:
            alone = file.relative_to(home).with_suffix("").as_posix()
        kind = KINDS[file.suffix.lower()]
        groups = _row_groups(file, kind)
        if sum(groups) == 0 and (kind == "parquet" or not arrow_rows(file)):
            continue
        if settled is None:
            with typed_table(file, str(file), kind) as table:
                if not len(table):
                    continue
                understood = understand(table, options)
                settled = options
                if understood.roles is not None:
                    roles = understood.roles
                    settled = replace(
                        options, layout="long", series=roles.series, features=roles.features,
                        time=None if roles.time is None else roles.time.names,
                    )  # fmt: skip
                    is_named = bool(roles.series)
                else:
                    assert understood.wide is not None
                    is_long, is_named = False, understood.wide.series is not None
                    settled = replace(options, layout="wide")
        if is_long or len(groups) < 2:
            yield Fragment(file, None, str(file), settled, is_long, is_named, alone)
            continue
        first = 0
        for k, n in enumerate(groups):
            if n:
                name = f"{file}, row group {k + 1} of {len(groups)}"
                yield Fragment(file, (first, n), name, settled, False, is_named, alone)
            first += n


def _row_groups(file: Path, kind: str) -> list[int]:
    """Rows of each row group of a Parquet file; nothing of another."""
    import duckdb

    if kind != "parquet":
        return []
    with connected(str(file)) as connection:
        try:
            found = connection.execute(
                "SELECT DISTINCT row_group_id, row_group_num_rows FROM"
                f" {call('parquet_metadata', file)} ORDER BY 1"
            ).fetchall()
        except (duckdb.Error, OSError) as error:
            raise DataError(f"{file}: is no whole Parquet file ({first_line(error)}).") from None
    return [int(n) for _, n in found]
