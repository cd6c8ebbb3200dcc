"""The vendored libraries of the report page are those of the manifest."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct

import pytest

from scripts.vendor_libraries import LIBRARIES, VENDOR, pack_file
from seqattn.report import VENDORED

MANIFEST = json.loads((VENDOR / "manifest.json").read_text())
FILES = {name: entry for each in MANIFEST.values() for name, entry in each["files"].items()}
NOTICES = {name: entry for each in MANIFEST.values() for name, entry in each["notices"].items()}


def test_nothing_else_is_vendored() -> None:
    assert MANIFEST.keys() == LIBRARIES.keys()
    for package, library in LIBRARIES.items():
        assert MANIFEST[package]["files"].keys() == library.files.keys()
        assert MANIFEST[package]["notices"].keys() == library.notices.keys()
        assert MANIFEST[package]["licence"] == "MIT"
    expected = {"manifest.json", *NOTICES, *(f"{name}.gz" for name in FILES)}
    assert {path.name for path in VENDOR.iterdir()} == expected


def test_the_page_embeds_every_vendored_file() -> None:
    assert set(VENDORED.values()) == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_packed_file_has_the_hashes_of_the_manifest(name: str) -> None:
    entry = FILES[name]
    packed = (VENDOR / f"{name}.gz").read_bytes()
    content = gzip.decompress(packed)
    assert hashlib.sha256(packed).hexdigest() == entry["packed_sha256"]
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert len(content) == entry["bytes"]
    (time,) = struct.unpack("<I", packed[4:8])
    assert time == 0, "the packed file depends on the time of its compression"
    assert pack_file(name, content) == packed


@pytest.mark.parametrize(
    ("package", "name", "words"),
    [
        ("onnxruntime-web", "ort.wasm.bundle.min.mjs", "ONNX Runtime Web v{}"),
        ("plotly.js-cartesian-dist-min", "plotly-cartesian.min.js", "plotly.js (cartesian - minified) v{}"),
    ],
)  # fmt: skip
def test_a_script_is_of_the_version_of_the_manifest(package: str, name: str, words: str) -> None:
    script = gzip.decompress((VENDOR / f"{name}.gz").read_bytes())
    assert words.format(MANIFEST[package]["version"]).encode() in script[:100]


@pytest.mark.parametrize("name", NOTICES)
def test_the_notices_are_unchanged(name: str) -> None:
    content = (VENDOR / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == NOTICES[name]["sha256"]
