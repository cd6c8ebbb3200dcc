"""Checkpoints with flipped bits, cut short, or that are something else; payloads of all kinds."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.faults import Tally
from tests.faults.memory import bounded_memory
from tests.faults.processes import one_state
from tests.faults.readers import reader_of


def a_checkpoint(home: Path) -> tuple[Path, bytes]:
    """A whole one, and its content."""
    from seqattn.training import save_state

    state, config, spec = one_state(2)
    file = home / "last.safetensors"
    save_state(file, state, config, spec)
    return file, file.read_bytes()


def _refused(file: Path) -> bool:
    from seqattn.errors import CheckpointError
    from seqattn.training import load_model

    try:
        load_model(file)
    except CheckpointError:
        return True
    return False


def flipped(count: int, seed: int = 0) -> Tally:
    """One bit of a checkpoint is another; half of them in its header."""
    tally, numbers = Tally(), np.random.RandomState(seed)
    with tempfile.TemporaryDirectory() as place:
        file, content = a_checkpoint(Path(place))
        assert not _refused(file)
        header = 8 + int.from_bytes(content[:8], "little")
        for case in range(count):
            at = int(numbers.randint(header if case % 2 else len(content)))
            raw = bytearray(content)
            raw[at] ^= 1 << int(numbers.randint(8))
            file.write_bytes(raw)
            with tally.case(f"byte {at}"):
                assert _refused(file), "it was read"
    return tally


def cut(every: int = 1) -> Tally:
    """Cut at every length of the header and at every per cent of what follows."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        file, content = a_checkpoint(Path(place))
        header = 8 + int.from_bytes(content[:8], "little")
        lengths = [*range(0, header + 1, every)]
        lengths += [header + (len(content) - header) * k // 100 for k in range(0, 100, every)]
        for length in lengths:
            file.write_bytes(content[:length])
            with tally.case(f"{length} of {len(content)} bytes"):
                assert _refused(file), "it was read"
    return tally


class Payload:
    """A pickle of it makes a file when it is opened."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.made,))


READ = (
    "c.yaml", "metrics.csv", "predictions.npz", "best.safetensors", "x.csv", "x.jsonl", "x.npz",
    "x.npy", "x.parquet", "x.arrow",
)  # fmt: skip
MAX_MIB = 250
"""Of which the first of a process takes half for what it imports."""


def payloads() -> Tally:
    """Pickles under every name that is read, headers that lie, and words that are code elsewhere:
    refused or taken for words, nothing run, and no memory taken."""
    from seqattn.errors import SeqattnError

    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        made = home / "it-was-run"
        plain = [pickle.dumps(Payload(made), protocol) for protocol in (0, 2, 4, 5)]
        buffer = io.BytesIO()
        torch.save({"weight": Payload(made)}, buffer)
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w") as archive:
            archive.writestr("data.pkl", plain[-1])
            archive.writestr("source.npy", plain[-1])
        objects, array = io.BytesIO(), io.BytesIO()
        held = np.array([Payload(made)], dtype=object)
        np.savez(objects, source=held)
        np.save(array, held, allow_pickle=True)
        contents = {f"pickle {i}": raw for i, raw in enumerate(plain)}
        contents |= {
            "torch.save": buffer.getvalue(), "zip": zipped.getvalue(),
            "object npz": objects.getvalue(), "object npy": array.getvalue(),
        }  # fmt: skip
        with bounded_memory(tally, MAX_MIB):
            for what, raw in contents.items():
                for name in READ:
                    with tally.case(f"{what} as {name}"):
                        (home / name).write_bytes(raw)
                        read = True
                        try:
                            reader_of(name)(home / name)
                        except SeqattnError:
                            read = False
                        assert not made.exists(), "it was run"
                        assert not read, "it was read"
            for what, raw in lying_headers():
                with tally.case(what):
                    file = home / "best.safetensors"
                    file.write_bytes(raw)
                    assert _refused(file), "it was read"
            for word in WORDS:
                with tally.case(f"{word!r} as a name"):
                    _named(home, word, made)
    return tally


def lying_headers() -> Iterator[tuple[str, bytes]]:
    """Safetensors files that promise what they do not hold, with a checksum that is right."""
    from seqattn.runs.checkpoint_file import VERSION

    none = "0" * 64

    def file(header: Any, body: bytes = b"\0" * 64, length: int | None = None) -> bytes:
        raw = header if isinstance(header, bytes) else json.dumps(header).encode()
        whole = struct.pack("<Q", len(raw) if length is None else length) + raw + body
        return whole.replace(none.encode(), hashlib.sha256(whole).hexdigest().encode())

    described = {"version": VERSION, "kind": "model", "config": {}, "epoch": 1, "checksum": none}
    entries = {"__metadata__": {"seqattn": json.dumps(described)}}

    def tensor(**changes: Any) -> dict[str, Any]:
        return {**entries, "w": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} | changes}

    for length in (0, 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1):
        yield f"a header of {length} bytes", file({}, length=length)
    yield "offsets beyond the end", file(tensor(data_offsets=[0, 2**40], shape=[2**38]))
    yield "offsets backwards", file(tensor(data_offsets=[64, 0]))
    yield "negative offsets", file(tensor(data_offsets=[-64, 0]))
    yield "a shape that overflows", file(tensor(shape=[2**32, 2**32, 4]))
    yield "a negative shape", file(tensor(shape=[-16]))
    yield "a shape of another size", file(tensor(shape=[3]))
    yield "a type that is none", file(tensor(dtype="OBJECT"))
    yield "two tensors in one place", file({**tensor(), "v": tensor()["w"]})
    yield "100,000 brackets", file(b"[" * 100_000)
    yield "100,000 braces", file(b'{"a":' * 100_000)
    yield "a key twice", file(b'{"w":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},"w":1}')
    yield "metadata that is no text", file({"__metadata__": {"seqattn": 3}, **tensor()})
    yield "metadata of 10 MB", file({"__metadata__": {"seqattn": "[" * 10_000_000}})


WORDS = (
    "__import__('os').system('touch it-was-run')", "!!python/object/apply:os.system [x]", "{{7*7}}",
    "${jndi:ldap://x/a}", "[bold red]x[/]", "\x1b[31mred\x1b]0;title\x07", "$x^$", r"$\frac{1}{0$",
    "../../../etc/passwd", "file:///etc/passwd", "%s%n%x", "'; DROP TABLE x; --", "\u202egnp.exe",
    "=cmd|' /C calc'!A0", "a" * 900,
)  # fmt: skip


def _named(home: Path, word: str, made: Path) -> None:
    """Features and ids of that name: trained on, predicted, drawn, inspected."""
    from seqattn.cli.output import escape_controls
    from seqattn.config import OwnFile, resolve
    from seqattn.data import DataSpec, load_data
    from seqattn.data.writing import forecast_arrays
    from seqattn.models import FeatureSpec, build_model
    from seqattn.plots import as_bytes
    from seqattn.plots.run_pictures import attention_picture, predictions_picture
    from seqattn.runs import attention_arrays
    from seqattn.runs.array_files import sequence_titles
    from seqattn.training import load_model

    lines = [
        json.dumps({"id": f"{word}{k}", "source": [[0.1, k], [k, 1]], "target": [[k, 0]]})
        for k in range(8)
    ]
    file = home / "n.jsonl"
    file.write_text("\n".join(lines))
    plain = {"kind": "file", "path": str(file), "features": [word, "other"]}
    splits = load_data(OwnFile.model_validate(plain))
    part = splits.test
    assert word in part.features
    spec = DataSpec.of(splits.train)
    config = resolve(None, ["model.hidden_dim=2"]).config
    weights = build_model(config.model, FeatureSpec.of(spec), 1).state_dict()
    checkpoint = home / "best.safetensors"
    _best(checkpoint, weights, config, spec)
    read = load_model(checkpoint)
    assert read.spec.source_features == part.features
    shown = escape_controls(word)
    assert "\x1b" not in shown and "\u202e" not in shown
    arrays = forecast_arrays(part, part.target, with_target=True)
    summary = {"scaled": False, "features": list(part.target_features)}
    picture = predictions_picture({k: np.asarray(v) for k, v in arrays.items()}, summary)
    assert len(as_bytes(picture, "png")) > 1000
    where = attention_arrays(
        np.full((len(part), 1, 1, 1, 2), 0.5), ids=part.ids, source_lengths=part.source_lengths,
        target_lengths=part.target_lengths, meaning="distribution",
    )  # fmt: skip
    titles = sequence_titles({k: np.asarray(v) for k, v in arrays.items()})
    figure, _ = attention_picture(where, titles, 2)
    assert len(as_bytes(figure, "png")) > 1000
    assert not made.exists(), "it was run"


def _best(path: Path, weights: Any, config: Any, spec: Any) -> None:
    from seqattn.runs import EpochRecord
    from seqattn.training import RunState, save_best

    history = [EpochRecord(1, 0.1, 0.1, 0.1, 0.01, 0.5, 1.0)]
    state = RunState({}, history=history, epoch=1, best_epoch=1, best_weights=dict(weights))
    save_best(path, state, config, spec)
