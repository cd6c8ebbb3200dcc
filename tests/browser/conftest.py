"""A headless Chromium, and runs to write pages of. `make test-browser` installs what this needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, sync_playwright

from seqattn import experiments
from seqattn.config import resolve
from seqattn.config.comparing import plan_comparison
from seqattn.experiments.compare import compare
from seqattn.report import report

SMALL = ["training.epochs=3", "data.n_train=64", "data.n_validation=16", "data.n_test=24",
         "training.record_attention=1"]  # fmt: skip
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
RUNS = {
    "squares": SMALL,
    "copy": [*SMALL, "data.kind=copy", "data.length=32", "model.bidirectional=true"],
    "transformer": [*SMALL, "model.kind=transformer", "model.model_dim=8", "model.heads=2",
                    "training.teacher_forcing.probability=1"],
    "fast_weights": [*SMALL, "model.kind=fast_weights"],
    "plain": [*SMALL, "model.attention=null"],
}  # fmt: skip
OWN = "sequence,step,<b>speed</b>\n" + "".join(
    f"{k},{t},{10 + k % 3 + t * (1 + k % 2)}\n" for k in range(30) for t in range(8)
)


@dataclass
class Opened:
    """A page, and what it did that it must not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    assert found, "there is no Chromium: make test-browser installs it"
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=found, args=FLAGS) as browser,
    ):
        yield browser


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Open a page; at the end nothing may have gone wrong on it, nor have left it."""
    all_of_them = list[Opened]()

    def begin(path: Path, **options: Any) -> Opened:
        options = {"viewport": {"width": 1240, "height": 900}, **options}
        page = browser.new_context(**options).new_page()
        found = Opened(page)
        all_of_them.append(found)
        page.on("console", lambda message: found.complaints.append(message.text))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("request", lambda asked: found.requests.append(asked.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        return found

    yield begin
    for each in all_of_them:
        assert not each.complaints
        assert each.requests == [each.page.url.partition("#")[0]]
        each.page.context.close()


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
        report(path)
    return found


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with its page; one of its runs has a page of its own, and one has no result."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("compared")
    file = home / "c.yaml"
    file.write_text("name: both\n")
    planned = plan_comparison(file, SMALL, ["model.attention.score=dot,uniform"], seeds=3)
    path = compare(planned, home).path
    report(path / "dot" / "seed-24")
    (path / "uniform" / "seed-25" / "summary.json").unlink()
    report(path)
    return path
