"""Random bytes into every reader: config, data, pairs of texts, checkpoint, metrics, arrays.

What is read must be read, or refused with an error of ours; anything else is a failure. Half of the
inputs are good files with bytes changed, cut out, doubled or put in; some are nothing but noise.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.faults import Tally
from tests.faults.processes import nurtured

CONFIG = """# yaml-language-server: $schema=x
name: fuzz
data: {n_train: 16, n_validation: 8, n_test: 8}
model:
  hidden_dim: 3
  attention: {score: general}
training: {epochs: 2, batch_size: 8, teacher_forcing: {probability: 0.5}}
"""


def good_files(home: Path) -> dict[str, bytes]:
    """A small file of every kind, by name."""
    from seqattn.config import Grammar, Squares, resolve
    from seqattn.data import load_data
    from seqattn.data.writing import write_pairs, write_sequences
    from seqattn.experiments import train_one
    from seqattn.runs import RunFolder

    (home / "fuzz.yaml").write_text(CONFIG)
    folder, _ = train_one(resolve(home / "fuzz.yaml").config, home, plots=False)
    part = load_data(Squares(n_train=12, variable_length=True, source_length=3)).train
    found = {"c.yaml": CONFIG.encode()}
    for form in ("csv", "tsv", "jsonl", "npz", "parquet", "arrow"):
        found[f"long.{form}"] = write_sequences(part, form, wide=False, is_continuation=True)[0]
        if form in ("csv", "parquet"):
            found[f"wide.{form}"] = write_sequences(part, form, wide=True, is_continuation=True)[0]
    np.save(home / "a.npy", part.source.astype(np.float32))
    found["a.npy"] = (home / "a.npy").read_bytes()
    for path in (folder.best, folder.last, folder.metrics, folder.predictions, folder.attention):
        found[path.name] = path.read_bytes()
    assert isinstance(folder, RunFolder)
    pairs = write_pairs(load_data(Grammar(n_train=40)).train)[0]
    rows = [line.split("\t") for line in pairs.decode().splitlines()]
    records = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    found["pairs.tsv"] = pairs
    found["pairs.csv"] = pairs.replace(b"\t", b";")
    found["pairs.jsonl"] = "\n".join(map(json.dumps, records)).encode()
    found["pairs.tsv.gz"], found["pairs.tsv.xz"] = gzip.compress(pairs), lzma.compress(pairs)
    pd.DataFrame(records).to_parquet(home / "pairs.parquet")
    found["pairs.parquet"] = (home / "pairs.parquet").read_bytes()
    return found


def reader_of(name: str) -> Callable[[Path], Any]:
    """What reads a file of that name."""
    from seqattn.config import Text, resolve
    from seqattn.data import load_data
    from seqattn.data.files import read_chunks
    from seqattn.data.reading import Reading
    from seqattn.runs import RunFolder
    from seqattn.runs.storage import read_arrays
    from seqattn.training import load_model

    match name:
        case "c.yaml":
            return lambda path: resolve(path)
        case "metrics.csv":
            return lambda path: RunFolder(path.parent).read_metrics()
        case "predictions.npz" | "attention.npz":
            return read_arrays
        case "best.safetensors" | "last.safetensors":
            return load_model
        case _ if name.startswith("pairs"):
            return lambda path: load_data(Text(path=str(path), alignment="links"))
        case _:
            return lambda path: [len(piece) for piece in read_chunks(path, Reading())]


def damaged(content: bytes, numbers: np.random.RandomState) -> bytes:
    """A file with something wrong in it, most often a little."""
    raw = bytearray(content)
    at, size = int(numbers.randint(len(raw) + 1)), int(numbers.geometric(0.2))
    noise = numbers.bytes(size)
    match int(numbers.randint(7)):
        case 0:
            return bytes(raw[:at])
        case 1:
            raw[at:at] = noise
        case 2:
            del raw[at : at + size]
        case 3:
            raw[at:at] = raw[at : at + 10 * size]
        case 4:
            return numbers.bytes(int(numbers.randint(200)))
        case 5:
            signs = b"0123456789,.;-+eE\n\r\t\"' []{}:&*!|>%@`#naNAinf\x00\xff\xef\xbb\xbf"
            raw[at : at + 1] = signs[(k := int(numbers.randint(len(signs)))) : k + 1]
        case _:
            for _ in range(size):
                if raw:
                    raw[int(numbers.randint(len(raw)))] = int(numbers.randint(256))
    return bytes(raw)


def fuzz(seconds: float, seed: int, home: Path) -> Tally:
    """In this process."""
    import torch

    from seqattn.errors import SeqattnError

    torch.set_num_threads(1)
    tally, numbers = Tally(), np.random.RandomState(seed)
    files = good_files(home)
    readers = {name: reader_of(name) for name in files}
    names, counts = sorted(files), Counter[str]()
    place = home / "inputs"
    place.mkdir()
    for name, content in files.items():  # what is whole must be read, or nothing is shown
        (place / name).write_bytes(content)
        readers[name](place / name)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        name = names[int(numbers.randint(len(names)))]
        # One kind in eight gets another kind's bytes: a file under a wrong name.
        other = names[int(numbers.randint(len(names)))] if numbers.randint(8) == 0 else name
        file = place / name
        file.write_bytes(damaged(files[other], numbers))
        with tally.case(name):
            try:
                readers[name](file)
                counts["read"] += 1
            except SeqattnError:
                counts["refused"] += 1
            except Exception as error:
                kept = home / f"failed-{tally.tried}-{name}"
                kept.write_bytes(file.read_bytes())
                raise AssertionError(f"{type(error).__name__}: {error} ({kept})") from None
    tally.remarks.append(
        f"The readers rejected {counts['refused']:,} inputs and accepted {counts['read']:,} inputs."
    )
    return tally


def run(seconds: float, seed: int = 0) -> Tally:
    """In a process of its own, so that one that dies is a failure like any other."""
    with tempfile.TemporaryDirectory() as home, nurtured() as (nursery, _):
        plan = {"function": f"{__name__}:write_tally"}
        done = nursery.run([str(seconds), str(seed), home], Path(home), plan)
        if done.code != 0:
            last = done.err.strip().splitlines()[-1:] or ["no message"]
            return Tally(tried=1, failures=[f"the reader ended with {done.code}: {last[0]}"])
        return Tally(**json.loads((Path(home) / "tally.json").read_text()))


def write_tally() -> None:
    """`fuzz` as the arguments of the process say, its result in tally.json."""
    length, number, where = sys.argv[1:]
    tally = fuzz(float(length), int(number), Path(where))
    (Path(where) / "tally.json").write_text(json.dumps(asdict(tally)))
