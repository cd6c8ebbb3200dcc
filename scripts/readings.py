"""What the reader makes of each table under tests/fixtures, to compare two versions of the code.

    python scripts/readings.py --write outputs/readings.json    # with the old code
    python scripts/readings.py --check outputs/readings.json    # with the new code

For each file and each set of flags in expected.yaml, the record has the digest of the names,
values, lengths and times of the sequences, the roles of the columns, the notes and the printed
section, or the message of the error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from seqattn.data import inspect as reader  # noqa: E402
from seqattn.data.reading import name_origin  # noqa: E402
from seqattn.errors import SeqattnError  # noqa: E402
from tests.real_files import load_cases, options_of  # noqa: E402


def read(path: Path, flags: str) -> dict[str, Any]:
    """Return what the reader makes of a file, without the folder of the file."""
    try:
        with name_origin("options"):
            report = reader.inspect_file(path, reader.Reading(**options_of(flags)))
    except SeqattnError as error:
        kind, message = type(error).__name__, str(error).replace(f"{path.parent}/", "")
        return {"error": f"{kind}: {message}"}
    chunk, found = report.chunk, report.reading
    digest = hashlib.sha256(repr(chunk.ids).encode())
    for ragged, _ in chunk.cells():
        digest.update(np.ascontiguousarray(ragged.values).tobytes())
        digest.update(ragged.offsets.tobytes())
    if chunk.order is not None:
        digest.update(np.ascontiguousarray(chunk.order).tobytes())
    return {
        "sequences": digest.hexdigest()[:16], "series": list(found.series_columns),
        "time": ",".join(found.time_columns) or None,
        "features": list(found.features or ()), "ignored": dict(report.ignored),
        "frequency": report.frequency, "notes": list(report.notes),
        "section": report.section.replace(f"{path.parent}/", ""),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the record to this file")
    parser.add_argument("--check", type=Path, help="compare with the record in this file")
    arguments = parser.parse_args()
    folders = sorted(path.parent for path in (ROOT / "tests/fixtures").glob("*/expected.yaml"))
    found = {case.name: read(case.path, case.flags)
             for folder in folders for case in load_cases(folder)}  # fmt: skip
    if arguments.write:
        arguments.write.write_text(json.dumps(found, indent=1, ensure_ascii=False))
    if arguments.check:
        before = json.loads(arguments.check.read_text())
        different = [name for name in before if found.get(name) != before[name]]
        for name in different:
            print(name)
            old, new = before[name], found.get(name, {})
            for key in sorted({*old, *new}):
                if old.get(key) != new.get(key):
                    print(f"  {key}\n    - {old.get(key)}\n    + {new.get(key)}")
        print(f"{len(before) - len(different)} of {len(before)} readings are equal.")
        raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
