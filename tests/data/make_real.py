"""Write the files of tests/data/real: tables as people have them.

    python -m tests.data.make_real [FOLDER]

Every file has a random generator of its own, seeded by its name, so one file can be added or changed
without changing the others. Two files hold real numbers: yearly sunspots (SILSO, Royal Observatory of
Belgium, version 1) and airline passengers (Box and Jenkins, 1976, series G). All others are made up.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path

import numpy as np

from tests.data import real_formats, real_tables  # noqa: F401  (it fills FILES)
from tests.data.real_columns import FILES


def content(name: str) -> bytes:
    """The bytes of one file."""
    made = FILES[name](np.random.default_rng(zlib.crc32(name.encode())))
    if isinstance(made, bytes):
        return made
    if name == "crlf.csv":
        made = made.replace("\n", "\r\n")
    encodings = {"bom.csv": "utf-8-sig", "utf16.csv": "utf-16", "latin1.csv": "latin-1"}
    data = made.encode(encodings.get(name, "utf-8"))
    if name.endswith(".gz"):
        return gzip.compress(data, mtime=0)
    if name.endswith(".zst"):
        return real_formats.by_duckdb(made, ".csv.zst", "FORMAT csv, COMPRESSION zstd")
    return data


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "real"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_bytes(content(name))
    print(f"{len(FILES)} files in {folder}")


if __name__ == "__main__":
    main()
