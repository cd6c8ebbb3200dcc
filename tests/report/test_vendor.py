"""The vendored files of ONNX Runtime Web are those of the manifest."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct

import pytest

from scripts.vendor_onnxruntime import FILES, NOTICES, VENDOR, pack_file

MANIFEST = json.loads((VENDOR / "manifest.json").read_text())


def test_nothing_else_is_vendored() -> None:
    assert tuple(MANIFEST["files"]) == FILES
    assert tuple(MANIFEST["notices"]) == NOTICES
    expected = {"manifest.json", *NOTICES, *(f"{name}.gz" for name in FILES)}
    assert {path.name for path in VENDOR.iterdir()} == expected
    assert (MANIFEST["name"], MANIFEST["licence"]) == ("onnxruntime-web", "MIT")


@pytest.mark.parametrize("name", FILES)
def test_a_packed_file_has_the_hashes_of_the_manifest(name: str) -> None:
    entry = MANIFEST["files"][name]
    packed = (VENDOR / f"{name}.gz").read_bytes()
    content = gzip.decompress(packed)
    assert hashlib.sha256(packed).hexdigest() == entry["packed_sha256"]
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert len(content) == entry["bytes"]
    (time,) = struct.unpack("<I", packed[4:8])
    assert time == 0, "the packed file depends on the time of its compression"
    assert pack_file(name, content) == packed


def test_the_script_is_of_the_version_of_the_manifest() -> None:
    script = gzip.decompress((VENDOR / f"{FILES[0]}.gz").read_bytes())
    assert f"ONNX Runtime Web v{MANIFEST['version']}".encode() in script[:100]


@pytest.mark.parametrize("name", NOTICES)
def test_the_notices_are_unchanged(name: str) -> None:
    content = (VENDOR / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == MANIFEST["notices"][name]["sha256"]
