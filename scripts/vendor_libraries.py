"""Write the JavaScript libraries of the report page to seqattn/report/vendor.

    python scripts/vendor_libraries.py                    # the versions of the manifest, verified
    python scripts/vendor_libraries.py --version plotly.js-cartesian-dist-min=4.2.0

The second command fetches another version of one library, and writes a new manifest. `npm pack`
fetches the packages. The package onnxruntime-web contains no licence text, so `pip download`
fetches the Python package of the same version, which has the licence and the notices of the whole
project. The script writes nothing if a hash differs from the manifest.
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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).resolve().parents[1] / "seqattn" / "report" / "vendor"


@dataclass(frozen=True)
class Library:
    """What is vendored of an npm package.

    Attributes:
        files: name of a file -> its path in the package. The files are stored compressed.
        notices: name of a licence text, as it is stored -> its path in the package that has it.
        notices_from: the Python package that has the notices; None if the npm package has them.
    """

    files: Mapping[str, str]
    notices: Mapping[str, str]
    notices_from: str | None = None


LIBRARIES = {
    "onnxruntime-web": Library(
        {
            name: f"package/dist/{name}"
            for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
        },
        {name: f"onnxruntime/{name}" for name in ("LICENSE", "ThirdPartyNotices.txt")},
        "onnxruntime",
    ),
    # The bundle "cartesian" is a third of plotly: it has lines and heatmaps, but no maps and no 3D.
    "plotly.js-cartesian-dist-min": Library(
        {"plotly-cartesian.min.js": "package/plotly-cartesian.min.js"},
        {"plotly.LICENSE": "package/LICENSE"},
    ),
}


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def fetch_files(package: str, version: str) -> dict[str, bytes]:
    """Return the files and notices of a package, by name, as npm and pip deliver them."""
    library = LIBRARIES[package]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=home, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        (archive,) = home.glob("*.tgz")
        paths = {**library.files, **(library.notices if library.notices_from is None else {})}
        found = dict[str, bytes]()
        with tarfile.open(archive) as members:
            for name, path in paths.items():
                member = members.extractfile(path)
                assert member is not None, f"{name} is a folder"
                found[name] = member.read()
        if library.notices_from is not None:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                            "--dest", home, f"{library.notices_from}=={version}"],
                           check=True)  # fmt: skip
            (wheel,) = home.glob("*.whl")
            with zipfile.ZipFile(wheel) as entries:
                found |= {name: entries.read(path) for name, path in library.notices.items()}
        return found


def pack_file(name: str, content: bytes) -> bytes:
    """Compress a file without a timestamp, or return the packed file if it has this content.

    Different versions of zlib compress to different bytes.
    """
    packed = VENDOR / f"{name}.gz"
    if packed.exists() and gzip.decompress(packed.read_bytes()) == content:
        return packed.read_bytes()
    return gzip.compress(content, 9, mtime=0)


def find_differences(found: dict[str, bytes], entry: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each file whose hash differs from the package's entry of the
    manifest."""
    wanted = {name: each["sha256"] for name, each in (entry["files"] | entry["notices"]).items()}
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
    parser.add_argument("--version", metavar="PACKAGE=VERSION",
                        help="fetch this version, and write a new manifest")  # fmt: skip
    changed, _, new = (parser.parse_args().version or "").partition("=")
    manifest_path = VENDOR / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    if changed and not (changed in LIBRARIES and new):
        parser.error(f"--version takes PACKAGE=VERSION with a package of {', '.join(LIBRARIES)}")
    versions = {package: manifest.get(package, {}).get("version") for package in LIBRARIES}
    versions |= {changed: new} if changed else {}
    found = {package: fetch_files(package, version) for package, version in versions.items()}
    differences = [
        sentence
        for package, files in found.items()
        if package != changed
        for sentence in find_differences(files, manifest[package])
    ]
    if differences:
        print(*differences, "Nothing was written.", sep="\n", file=sys.stderr)
        return 1
    written = dict[str, Any]()
    for package, library in LIBRARIES.items():
        files = found[package]
        packed = {name: pack_file(name, files[name]) for name in library.files}
        for name, content in packed.items():
            (VENDOR / f"{name}.gz").write_bytes(content)
            print(f"{name}: {len(files[name]):,} bytes, packed {len(content):,}")
        for name in library.notices:
            (VENDOR / name).write_bytes(files[name])
        written[package] = {
            "version": versions[package],
            "licence": "MIT",
            "files": {name: {"sha256": sha256(files[name]), "bytes": len(files[name]),
                             "packed_sha256": sha256(packed[name])} for name in library.files},
            "notices": {name: {"sha256": sha256(files[name])} for name in library.notices},
        }  # fmt: skip
    manifest_path.write_text(json.dumps(written, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
