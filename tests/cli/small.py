"""What the tests of several commands need: a small config, rows of CSV, sequences."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tests.conftest import SMALL

SETS = [word for override in SMALL for word in ("--set", override)]
MY_CSV = "sequence,step,x,y\nfirst,1,-1,-1\nfirst,2,-1,1\nlonger,5,1,1\nlonger,6,1,-1\nlonger,7,-1,-1\nshort,0,1,1\n"


def small_config(folder: Path, text: str = "name: mine\n") -> Path:
    file = folder / "my.yaml"
    file.write_text(text)
    return file


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))
