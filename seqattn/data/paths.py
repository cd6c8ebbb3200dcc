"""Search for the data files that a path in a config refers to."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from seqattn.data.files import SUFFIXES, check_file, format_of_suffix
from seqattn.errors import DataError


def find_files(path: str, form: str = "auto") -> list[Path]:
    """Return the files that a path refers to, sorted by path.

    A path refers to a file, to a folder with data files at any depth, or to all files that match a
    pattern such as `data/*.csv`.

    Args:
        path: the path as the user typed it.
        form: format of the files to find in a folder, or "auto" for any single format.

    Raises:
        DataError: if no file is found, if the path cannot be read, or if a folder contains data
            files of several formats.
    """
    location = Path(path)
    if any(sign in path for sign in "*?[") and not location.exists():
        files = sorted(map(Path, glob.glob(path, recursive=True)))  # noqa: PTH207 (also absolute)
        files = [file for file in files if file.is_file()]
        if not files:
            raise DataError(f"{path}: no file matches this pattern.")
        return files
    if not location.is_dir():
        check_file(location)
        return [location]
    return _find_in_folder(location, form)


def _find_in_folder(folder: Path, form: str) -> list[Path]:
    """Return the data files in a folder and its subfolders, sorted by path. Hidden files, and files
    in hidden subfolders, are left out.

    Raises:
        DataError: if there are no data files, or if the data files have several formats.
    """
    try:
        files = sorted(file for file in folder.rglob("*") if file.is_file())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error}).") from None
    kinds: dict[str, list[Path]] = {}
    for file in files:
        kind = format_of_suffix(file)
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if kind is not None and form in ("auto", kind) and not hidden:
            kinds.setdefault(kind, []).append(file)
    if not kinds:
        raise DataError(
            f"{folder}: is a folder without a data file"
            f"{'' if form == 'auto' else f' of format {form}'}; files end in"
            f" {', '.join(f'.{ending}' for ending in SUFFIXES)}."
        )
    if len(kinds) > 1:
        raise DataError(
            f"{folder}: has files of several formats ({', '.join(sorted(kinds))}). Say which:"
            f" data.format: {min(kinds)}, or give a pattern: {folder}/*.{min(kinds)}"
        )
    return next(iter(kinds.values()))


def file_series_names(path: str, files: Sequence[Path]) -> list[str]:
    """Return one name per file, for naming series that have no ids.

    A series gets the name of its file without the suffix. If several files have this name, the
    series gets the path of its file without the suffix. If these names are not unique, because some
    files differ only in their suffixes, each series gets the path of its file with the suffix.

    Args:
        path: the path as the user typed it.
        files: the files that the path refers to.
    """
    count, home = Counter(file.stem for file in files), Path(path)
    is_folder = home.is_dir()
    paths = [file.relative_to(home).as_posix() if is_folder else str(file) for file in files]
    names = [
        file.stem if count[file.stem] == 1 else path.removesuffix(file.suffix)
        for file, path in zip(files, paths, strict=True)
    ]
    return names if len(set(names)) == len(names) else paths
