"""Headless Chromium and Firefox without a network, and runs to write pages of.

`make test-browser` installs the browsers. Playwright runs a stock Firefox through `firefox_bridge.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, Playwright, ViewportSize, sync_playwright

from seqattn import experiments
from seqattn.config import resolve
from seqattn.config.comparing import plan_comparison
from seqattn.experiments.compare import run_comparison
from seqattn.export import live
from seqattn.report import report
from tests.browser.live_runs import LIVE_RUNS, NOT_LIVE, OWN, SMALL, LiveRuns, trace_once
from tests.browser.word_runs import WORD_RUNS, WordRuns

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--proxy-server=127.0.0.1:9"]  # fmt: skip
# Nothing listens on the port of the proxies, so there is no network.
FIREFOX_SETTINGS: dict[str, str | float | bool] = {
    "network.proxy.type": 1,
    "network.proxy.allow_hijacking_localhost": True,
    **{f"network.proxy.{kind}": "127.0.0.1" for kind in ("http", "ssl", "socks")},
    **{f"network.proxy.{kind}_port": 9 for kind in ("http", "ssl", "socks")},
}
BRIDGE = Path(__file__).with_name("firefox_bridge.py")
RUNS = {
    "squares": SMALL,
    "copy": [*SMALL, "data.kind=copy", "data.length=32", "model.bidirectional=true"],
    "transformer": [*SMALL, "model.kind=transformer", "model.model_dim=8", "model.heads=2",
                    "training.teacher_forcing.probability=1"],
    "fast_weights": [*SMALL, "model.kind=fast_weights"],
    "plain": [*SMALL, "model.attention=null"],
}  # fmt: skip


@dataclass
class Opened:
    """A page, and what it did that it must not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Check that nothing has gone wrong on the page, and that the page has requested nothing."""
        complaints, requests = [*self.complaints], [*self.requests]
        self.complaints.clear()
        self.requests.clear()
        assert not complaints
        # Firefox does not report that it reads a file.
        own = self.page.url.partition("#")[0]
        assert {url for url in requests if not url.startswith("blob:")} <= {own}

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def until(self, holds: str) -> None:
        """Wait for an expression to be true. The page's own policy forbids the browser's way."""
        for _ in range(1000):
            if self.page.evaluate(holds):
                return
            self.page.wait_for_timeout(10)
        raise AssertionError(f"never true: {holds}")

    def slide(self, selector: str, value: int) -> None:
        """As a hand on the keyboard would."""
        slider = self.page.locator(selector)
        slider.focus()
        slider.press("Home")
        for _ in range(value):
            slider.press("ArrowRight")


def find_program(*names: str) -> str:
    """Path of the first of some programs that is installed."""
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"there is no {names[0]}: make test-browser installs it"
    return found


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    path = find_program("chromium", "chromium-browser", "google-chrome")
    with playwright.chromium.launch(executable_path=path, args=FLAGS) as browser:
        yield browser


@pytest.fixture(scope="session")
def firefox(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = tmp_path_factory.mktemp("firefox") / "firefox"
    path = find_program("firefox-esr", "firefox")
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{BRIDGE}' '{path}' \"$@\"\n")
    program.chmod(0o700)
    with playwright.firefox.launch(
        channel="moz-firefox", executable_path=program, firefox_user_prefs=FIREFOX_SETTINGS
    ) as browser:
        yield browser


Open = Callable[..., Opened]
DRAWN = "html[data-ready=yes]"
"""The state of a page with all its plots."""
LIVE = "#live-body:not([hidden])"
"""The state of a page whose model answers. The plots follow when the reader makes a pause."""
VIEWPORT: ViewportSize = {"width": 1240, "height": 900}
REMEMBER = """() => {
  const {force, ...state} = seqattn.explorer.state;
  window.firstState = structuredClone(state);
}"""
RESET = """async () => {
  const {explorer} = seqattn;
  history.replaceState(null, "", location.href.split("#")[0]);
  document.getElementById("live-arithmetic").open = false;
  if (document.getElementById("live-tour-close")?.checkVisibility()) document.getElementById("live-tour-close").click();
  document.activeElement?.blur();
  window.scrollTo(0, 0);
  Object.assign(explorer.state, structuredClone(window.firstState));
  explorer.state.force.clear();
  await explorer.update();
}"""
MAX_PAGES = 4
"""Live pages that one browser keeps open; each takes some 100 MB."""
IN_FIREFOX_ALWAYS = "test_runtime.py", "test_dragging", "squares"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With SUITE=few, run few tests in Firefox: each opens a page for seconds."""
    if os.environ.get("SUITE") != "few":
        return
    left_out = [
        item for item in items
        if "firefox" in item.nodeid and not any(name in item.nodeid for name in IN_FIREFOX_ALWAYS)
    ]  # fmt: skip
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def open_page(
    browser: Browser, path: Path, until: str = DRAWN, fragment: str = "", init: str = "",
    **options: Any,
) -> Opened:  # fmt: skip
    """Open a page in a context of its own, and wait for an element.

    Args:
        until: the selector of the element.
        fragment: the fragment of the address.
        init: a script that runs before those of the page.
        options: options of the context.
    """
    page = browser.new_context(**({"viewport": VIEWPORT} | options)).new_page()
    page.add_init_script(init)
    found = Opened(page)
    page.on("console", lambda message: found.complaints.append(message.text))
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("request", lambda asked: found.requests.append(asked.url))
    page.goto(path.as_uri() + fragment)
    page.wait_for_selector(until)
    return found


def opener(browser: Browser) -> Iterator[Open]:
    """Open pages; at the end nothing may have gone wrong on a page, nor have left it."""
    all_of_them = list[Opened]()

    def begin(path: Path, **options: Any) -> Opened:
        all_of_them.append(open_page(browser, path, **options))
        return all_of_them[-1]

    yield begin
    for each in all_of_them:
        each.check()
        each.page.context.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open a page in Chromium."""
    yield from opener(browser)


@pytest.fixture(params=["browser", "firefox"], ids=["chromium", "firefox"])
def opened_in_both(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open a page in Chromium, then in Firefox: the test runs twice."""
    yield from opener(request.getfixturevalue(request.param))


class SharedPages:
    """Live pages that stay open, because a page takes seconds to load its model.

    A test of the tour's invitation, or one that replaces functions of the page, opens its own page.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser, self.pages = browser, dict[Path, Opened]()

    def __call__(
        self, path: Path, *, viewport: ViewportSize = VIEWPORT, dark: bool = False
    ) -> Opened:
        """Return a page in the state in which it opened."""
        found = self.pages.pop(path, None)
        if found is None:
            if len(self.pages) == MAX_PAGES:
                self.close(next(iter(self.pages)))
            found = open_page(self.browser, path, until=LIVE)
            found.page.evaluate(REMEMBER)
        self.pages[path] = found
        found.page.set_viewport_size(viewport)
        found.page.emulate_media(color_scheme="dark" if dark else "light")
        found.page.evaluate(RESET)
        return found

    def close(self, path: Path) -> None:
        self.pages.pop(path).page.context.close()

    def check(self) -> None:
        """Check all pages after a test."""
        for each in self.pages.values():
            each.check()


@pytest.fixture(scope="session")
def shared_pages(browser: Browser) -> SharedPages:
    return SharedPages(browser)


@pytest.fixture(scope="session")
def shared_pages_in_firefox(firefox: Browser) -> SharedPages:
    return SharedPages(firefox)


@pytest.fixture
def shared(shared_pages: SharedPages) -> Iterator[SharedPages]:
    """Return a live page in Chromium that stays open for other tests."""
    yield shared_pages
    shared_pages.check()


@pytest.fixture(params=["shared_pages", "shared_pages_in_firefox"], ids=["chromium", "firefox"])
def shared_in_both(request: pytest.FixtureRequest) -> Iterator[SharedPages]:
    """As `shared`, in Chromium, then in Firefox: the test runs twice."""
    pages: SharedPages = request.getfixturevalue(request.param)
    yield pages
    pages.check()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> folder of a run with its page."""
    torch.set_num_threads(1)
    home, found = tmp_path_factory.mktemp("runs"), {}
    for name, sets in RUNS.items():
        config = resolve(None, [*sets, f"name={name}"]).config
        folder, _ = experiments.train_one(config, home, plots=False)
        found[name] = folder.path
    file = home / "own.csv"
    file.write_text(OWN)
    own = ["name=own", "data.kind=file", f"data.path={file}", "data.source_length=5",
           "data.scaling=standard", "training.epochs=2", "training.batch_size=8"]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, own).config, home, plots=False)
    found["own"] = folder.path
    file = home / "columns.csv"
    rows = [f"{k},{t},{k + t},{k - t},{t * t}\n" for k in range(12) for t in range(6)]
    file.write_text("sequence,step,a,b,c\n" + "".join(rows))
    other = ["name=columns", "data.kind=file", f"data.path={file}", "data.source_length=4",
             "data.source_features=[a, b]", "data.target_features=[b, c]", "training.epochs=1"]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, other).config, home, plots=False)
    found["columns"] = folder.path
    for path in found.values():
        report(path, live=False)
    return found


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with its page; one of its runs has a page of its own, and one has no result."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("compared")
    file = home / "c.yaml"
    file.write_text("name: both\n")
    planned = plan_comparison(file, SMALL, ["model.attention.score=dot,uniform"], seeds=3)
    path = run_comparison(planned, home).path
    report(path / "dot" / "seed-24", live=False)
    (path / "uniform" / "seed-25" / "summary.json").unlink()
    report(path, live=False)
    return path


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that all test processes of this session share."""
    home = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        home = home.parent
    (home / name).mkdir(exist_ok=True)
    return home / name


@pytest.fixture(scope="session", autouse=True)
def traced_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tracing a model takes ten seconds, and many pages have the same models. tests/export traces
    each model."""
    with pytest.MonkeyPatch.context() as patch:
        traced = trace_once(shared_folder(tmp_path_factory, "traced"), live.trace_live)
        patch.setattr(live, "trace_live", traced)
        yield


@pytest.fixture(scope="session")
def live_runs(tmp_path_factory: pytest.TempPathFactory) -> LiveRuns:
    """Name -> folder of a run, and the live pages of runs."""
    return LiveRuns(shared_folder(tmp_path_factory, "live"), LIVE_RUNS | NOT_LIVE)


@pytest.fixture(scope="session")
def word_runs(tmp_path_factory: pytest.TempPathFactory) -> WordRuns:
    """Name -> folder of a run of symbols, and the live pages of runs."""
    return WordRuns(shared_folder(tmp_path_factory, "words"), WORD_RUNS)
