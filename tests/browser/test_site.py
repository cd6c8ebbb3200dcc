"""The site of the documentation in a browser, from files alone. `make docs` builds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.conftest import ROOT

SITE = ROOT / "build" / "site"
SOURCES = [ROOT / "mkdocs.yml", ROOT / "scripts" / "docs_hooks.py", *(ROOT / "docs").rglob("*")]
PAGES = sorted(page.stem for page in (ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, which is not older than its pages."""
    index = SITE / "index.html"
    assert index.exists(), "there is no site: make docs builds it"
    newest = max(path.stat().st_mtime for path in SOURCES if path.is_file())
    assert index.stat().st_mtime >= newest, "the site is older than its pages: make docs builds it"
    return SITE


@dataclass
class Opened:
    """A page, and what went wrong on it or left the disk."""

    page: Page
    wrong: list[str] = field(default_factory=list)


@pytest.fixture
def tab(browser: Browser) -> Iterator[Opened]:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(10_000)
    found = Opened(page)
    page.on("console", lambda line: found.wrong.append(line.text))
    page.on("pageerror", lambda error: found.wrong.append(str(error)))
    page.on("requestfailed", lambda asked: found.wrong.append(f"failed: {asked.url}"))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:", "blob:"))
        else found.wrong.append(f"asked the network: {asked.url}"),
    )  # fmt: skip
    yield found
    page.context.close()
    assert found.wrong == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_from_a_file_and_fits_a_phone(name: str, site: Path, tab: Opened) -> None:
    tab.page.goto((site / f"{name}.html").as_uri())
    assert tab.page.locator("article h1").count() == 1
    for width in (1280, 400):
        tab.page.set_viewport_size({"width": width, "height": 900})
        wide = tab.page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} pixels wide in a window of {width}"
    broken = tab.page.evaluate(
        "[...document.querySelectorAll('article img')].filter((i) => !i.naturalWidth).map((i) => i.src)"
    )
    assert broken == []


def test_equations_are_drawn_without_a_script(site: Path, tab: Opened) -> None:
    for name, least in (("mechanisms", 30), ("statistics", 15), ("attention-in-ten-minutes", 5)):
        tab.page.goto((site / f"{name}.html").as_uri())
        found = tab.page.locator("article math")
        assert found.count() >= least, name
        assert "$" not in re.sub(r"\$[A-Z_]+", "", tab.page.locator("article").inner_text())
        for k in range(found.count()):
            box = found.nth(k).bounding_box()
            assert box is not None
            assert box["width"] > 4
            assert box["height"] > 4


@pytest.mark.parametrize(
    ("words", "page"), [("Hodges-Lehmann", "statistics.html"), ("sparsemax", "mechanisms.html")]
)
def test_the_search_finds_words_without_a_network(
    words: str, page: str, site: Path, tab: Opened
) -> None:
    tab.page.goto((site / "index.html").as_uri())
    tab.page.wait_for_timeout(500)
    tab.page.locator("input.md-search__input").click()
    tab.page.locator("input.md-search__input").type(words, delay=20)
    result = tab.page.locator(f"a.md-search-result__link[href*='{page}']").first
    result.wait_for(timeout=10_000)
    result.click()
    tab.page.wait_for_url(f"**/{page}*")
    assert words.lower() in tab.page.locator("article").inner_text().lower()


class LinkParser(HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses = list[str]()
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value is None:
                continue
            if key in ("id", "name"):
                self.anchors.add(value)
            elif key in ("href", "src") and tag != "base":
                self.addresses.append(value)


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor(site: Path) -> None:
    pages = {path: LinkParser(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) >= 50
    wrong = list[str]()
    for path, found in pages.items():
        if path.name == "404.html":  # a server shows it at any address
            continue
        for address in found.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                wrong.append(f"{path.name}: {address}: no such file")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.name}: {address}: no such anchor")
    assert wrong == []


def test_the_page_of_commands_has_every_option(site: Path) -> None:
    from typer.main import get_command

    from seqattn.cli import app

    text = (site / "commands.html").read_text()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        leaves = {f"{name} {sub}": one for sub, one in getattr(command, "commands", {}).items()}
        for words, one in (leaves or {name: command}).items():
            assert f'id="seqattn-{words.replace(" ", "-")}"' in text, words
            for option in one.params:
                flag = next((each for each in option.opts if each.startswith("--")), "")
                assert flag in text, f"{words}: {flag}"
