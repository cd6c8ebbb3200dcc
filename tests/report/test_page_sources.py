"""The sources of the page's script: exact versions, and no address of a package registry."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

WEB = ROOT / "seqattn" / "report" / "web"
FILES = sorted(
    path for path in WEB.rglob("*") if path.is_file() and "node_modules" not in path.parts
)


def test_versions_are_exact_and_the_lock_has_them() -> None:
    wanted = json.loads((WEB / "package.json").read_text())["devDependencies"]
    locked = json.loads((WEB / "package-lock.json").read_text())["packages"]
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert locked[f"node_modules/{name}"]["version"] == version
    assert len(locked) > 100
    for name, entry in locked.items():
        assert name == "" or entry["integrity"].startswith("sha512-"), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(WEB).as_posix())
def test_no_source_has_an_address(path: Path) -> None:
    text = path.read_text().replace(
        '"http://www.w3.org/2000/svg"', ""
    )  # a name, which is not fetched
    assert "://" not in text
    assert '"resolved"' not in text


def test_the_bundle_is_readable_and_says_where_it_comes_from() -> None:
    script = (WEB.parent / "page.js").read_text()
    assert script.startswith("// Built by `make page` from seqattn/report/web/src.")
    assert max(map(len, script.splitlines())) < 1000
    for source in WEB.glob("src/**/*.ts"):
        text = source.read_text()
        assert text.startswith("// "), f"{source} has no words about itself"
