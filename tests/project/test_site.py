"""The site of the documentation as far as it can be held without building it; `make docs` builds it,
and tests/browser/test_site.py opens it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import seqattn
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+://|mailto:")


def in_order(nav: Any) -> list[str]:
    """The pages of a nav section."""
    if isinstance(nav, str):
        return [nav]
    parts = nav if isinstance(nav, list) else list(nav.values())
    return [page for part in parts for page in in_order(part)]


def anchors(page: Path) -> set[str]:
    """Of the headings, as Python-Markdown makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    words = [re.sub(r"[^\w\s-]", "", heading).strip().lower()
             for heading in re.findall(r"^#+ (.+)", text, re.MULTILINE)]  # fmt: skip
    return {re.sub(r"[-\s]+", "-", each) for each in words}


def test_the_nav_has_each_page_once() -> None:
    nav = in_order(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(nav) == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if ELSEWHERE.match(link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target) if target else page
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file), link


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_pages_of_the_site_link_to_pages_and_configs_only(page: Path) -> None:
    """Anything else would be a link out of the site."""
    for link in LINK.findall(page.read_text()):
        if not ELSEWHERE.match(link):
            file = (page.parent / link.partition("#")[0]).resolve()
            assert file.is_relative_to(DOCS) or file.is_relative_to(ROOT / "configs"), link


def test_nothing_of_the_site_is_fetched() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["theme"]["font"] is False
    assert config["use_directory_urls"] is False
    for address in [*config["extra"]["polyfills"], *config["extra_css"]]:
        assert (DOCS / address).is_file(), address


def test_the_api_page_has_each_public_name() -> None:
    named = re.findall(r"^::: seqattn\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(set(seqattn.__all__) - {"__version__"})


def test_the_versions_of_the_site_s_tools_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [re.split(r"[\[>=]", each)[0] for each in project["optional-dependencies"]["docs"]]
    pinned = [
        line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()
    ]
    assert needed
    assert set(needed) <= set(pinned)


def test_the_readme_of_a_package_index_has_no_broken_link_or_picture() -> None:
    """A package index shows the README without the repository around it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join((ROOT / part["path"]).read_text() for part in hook["fragments"])
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    assert text.startswith("# seqattn\n")
    assert "Attention in ten minutes" in text
    assert "```python" in text
    left = [link for link in LINK.findall(text) if not ELSEWHERE.match(link)]
    assert left == []
    assert not re.search(r"^!", text, re.MULTILINE)
    assert "Made by `seqattn train" not in text
