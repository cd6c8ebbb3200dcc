"""Write ONNX Runtime Web, which runs the model in the report page, to seqattn/report/vendor.

    python scripts/vendor_onnxruntime.py                    # the version of the manifest, verified
    python scripts/vendor_onnxruntime.py --version 1.31.0   # another version, with a new manifest

`npm pack` fetches the package onnxruntime-web. That package contains no licence text, so
`pip download` fetches the Python package of the same version, which has the licence and the notices
of the whole project. The script writes nothing if a hash differs from the manifest.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "seqattn" / "report" / "vendor"
NAME = "onnxruntime-web"
PYTHON_NAME = "onnxruntime"
FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
NOTICES = ("LICENSE", "ThirdPartyNotices.txt")


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def fetch_files(version: str) -> dict[str, bytes]:
    """Return the files and notices of a version, by name, as npm and pip deliver them."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run(["npm", "pack", "--silent", f"{NAME}@{version}"], cwd=home, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--dest", home, f"{PYTHON_NAME}=={version}"], check=True)  # fmt: skip
        (archive,), (wheel,) = home.glob("*.tgz"), home.glob("*.whl")
        found = dict[str, bytes]()
        with tarfile.open(archive) as package:
            for name in FILES:
                member = package.extractfile(f"package/dist/{name}")
                assert member is not None, f"{name} is a folder"
                found[name] = member.read()
        with zipfile.ZipFile(wheel) as package:
            for name in NOTICES:
                found[name] = package.read(f"{PYTHON_NAME}/{name}")
        return found


def pack_file(name: str, content: bytes) -> bytes:
    """Compress a file without a timestamp, or return the packed file if it has this content.

    Different versions of zlib compress to different bytes.
    """
    packed = VENDOR / f"{name}.gz"
    if packed.exists() and gzip.decompress(packed.read_bytes()) == content:
        return packed.read_bytes()
    return gzip.compress(content, 9, mtime=0)


def find_differences(found: dict[str, bytes], manifest: dict[str, object]) -> list[str]:
    """Return a sentence for each file whose hash differs from the manifest."""
    wanted = dict[str, str]()
    for group in (manifest["files"], manifest["notices"]):
        assert isinstance(group, dict)
        wanted |= {name: entry["sha256"] for name, entry in group.items()}
    return [
        f"{name} has the SHA-256 {sha256(content)}; the manifest has {wanted.get(name)}."
        for name, content in found.items()
        if sha256(content) != wanted.get(name)
    ]


def main() -> int:
    """Fetch, verify and write the files; return 1 if a hash differs from the manifest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--version", help="fetch this version and write a new manifest")
    version = parser.parse_args().version
    manifest_path = VENDOR / "manifest.json"
    manifest = None if version else json.loads(manifest_path.read_text())
    found = fetch_files(version or manifest["version"])
    if manifest and (differences := find_differences(found, manifest)):
        print(*differences, "Nothing was written.", sep="\n", file=sys.stderr)
        return 1
    VENDOR.mkdir(exist_ok=True)
    packed = {name: pack_file(name, found[name]) for name in FILES}
    for name, content in packed.items():
        (VENDOR / f"{name}.gz").write_bytes(content)
    for name in NOTICES:
        (VENDOR / name).write_bytes(found[name])
    written = {
        "name": NAME,
        "version": version or manifest["version"],
        "licence": "MIT",
        "files": {name: {"sha256": sha256(found[name]), "bytes": len(found[name]),
                         "packed_sha256": sha256(packed[name])} for name in FILES},
        "notices": {name: {"sha256": sha256(found[name])} for name in NOTICES},
    }  # fmt: skip
    manifest_path.write_text(json.dumps(written, indent=2) + "\n")
    for name, content in packed.items():
        print(f"{name}: {len(found[name]):,} bytes, packed {len(content):,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
