"""Build the wheel and the source distribution, and check which files they contain.

    python scripts/check_package.py

The files are written to build/package. hatchling is installed into a temporary environment.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "package"
PAGE_FILES = ("page.css", "page.html", "page.js")
MAX_WHEEL_BYTES = 6 * 2**20  # 0.7 MB of them are the CMU Pronouncing Dictionary
SDIST_FILES = ("docs/index.md", "configs/squares.yaml", "CITATION.cff", "SECURITY.md", "mkdocs.yml")
FORBIDDEN = ("node_modules/", "__pycache__/", ".venv/", "shipped/real/", "seqattn.schema.json")


def build_package() -> tuple[Path, Path]:
    """Build the package, and return the paths of the wheel and of the source distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for old in OUTPUT.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as home:
        venv.create(home, with_pip=True)
        python = Path(home) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        *project["build-system"]["requires"]], check=True)  # fmt: skip
        subprocess.run([python, "-m", "hatchling", "build", "--directory", OUTPUT], cwd=ROOT,
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    (wheel,), (sdist,) = OUTPUT.glob("*.whl"), OUTPUT.glob("*.tar.gz")
    return wheel, sdist


def find_faults(wheel: Path, sdist: Path) -> list[str]:
    """Return a sentence for each missing or forbidden file, and for a wheel that is too large."""
    wheel_names = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        sdist_names = {name.partition("/")[2] for name in archive.getnames()}
    report = ROOT / "seqattn" / "report"
    vendored = [path.relative_to(report).as_posix() for path in (report / "vendor").glob("*")]
    configs = ROOT / "configs"
    shipped = [path.relative_to(configs).as_posix() for path in configs.rglob("*.*")
               if path.suffix != ".json" and path.parent.name != "real"]  # fmt: skip
    faults = [f"The wheel has no shipped config {name}." for name in shipped
              if f"seqattn/config/shipped/{name}" not in wheel_names]  # fmt: skip
    for kind, names in (("wheel", wheel_names), ("source distribution", sdist_names)):
        wanted = [f"seqattn/report/{name}" for name in (*PAGE_FILES, *vendored)]
        faults += [f"The {kind} has no {name}." for name in wanted if name not in names]
        faults += [f"The {kind} contains {name}." for name in sorted(names)
                   if any(part in f"{name}/" for part in FORBIDDEN)]  # fmt: skip
    if sources := sorted(name for name in wheel_names if name.startswith("seqattn/report/web/")):
        faults.append(f"The wheel contains sources of the page, such as {sources[0]}.")
    if "seqattn/report/web/src/main.ts" not in sdist_names:
        faults.append("The source distribution has no sources of the page.")
    for wanted in SDIST_FILES:
        if wanted not in sdist_names:
            faults.append(f"The source distribution has no {wanted}.")
    if (size := wheel.stat().st_size) > MAX_WHEEL_BYTES:
        faults.append(f"The wheel has {size:,} bytes; at most {MAX_WHEEL_BYTES:,} are allowed.")
    return faults


def main() -> int:
    """Build and check the package; return 1 if there is a fault."""
    wheel, sdist = build_package()
    faults = find_faults(wheel, sdist)
    print(*faults, sep="\n", file=sys.stderr)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {sdist.name}: {sdist.stat().st_size:,}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
