"""Measure the live page of `seqattn report` in headless Chromium, for `bench.py --only page`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seqattn import experiments
from seqattn.config import resolve
from seqattn.report import report

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "squares": ("squares.yaml", [], 33),
    "copy 32, width 64": (
        None,
        ["data.kind=copy", "data.length=32", "model.hidden_dim=64", "training.epochs=1"],
        100,
    ),
}
"""Name -> config file, overrides, and the goal for a drag step in ms."""
MOVES = 60
DRAG = """async (count) => {
  // Resolves after the next task, so that the wait does not depend on the frames of the screen.
  const {port1, port2} = new MessageChannel();
  const nextTask = () => new Promise((resolve) => {
    port1.onmessage = resolve;
    port2.postMessage(0);
  });
  const box = document.querySelector(".source-point").getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const send = (target, kind, dx) => target.dispatchEvent(new PointerEvent(kind, {
    clientX: x + dx, clientY: y, button: 0, isPrimary: true, bubbles: true, cancelable: true}));
  const {explorer} = window.seqattn, taken = [];
  send(document.querySelector(".source-point"), "pointerdown", 0);
  for (let k = 1; k <= count; k += 1) {
    const before = explorer.scene, began = performance.now();
    send(window, "pointermove", 8 + 20 * Math.sin(k));
    while (explorer.scene === before || !explorer.isIdle) await nextTask();
    document.body.getBoundingClientRect();  // includes the layout
    taken.push(performance.now() - began);
  }
  send(window, "pointerup", 8 + 20 * Math.sin(count));
  return {taken, sinceStart: performance.now()};
}"""


def bench_pages(folder: Path, repeats: int, add_row: Callable[..., None]) -> None:
    """Measure the size of pages, the time to the first answer, and the duration of a drag step.

    Args:
        folder: where the runs and pages are written.
        repeats: how often each page is opened.
        add_row: function that takes the name of a row, two lists of values (the first stays empty),
            a list of values for the last column, and the goal.

    Raises:
        SystemExit: if Playwright or Chromium is not installed.
    """
    try:
        from playwright.sync_api import sync_playwright
        from screenshot import find_browser
    except ImportError:
        raise SystemExit('The row "page" needs Playwright: pip install playwright') from None
    program = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, (file, sets, goal) in PAGES.items():
            path = ROOT / "configs" / file if file else None
            config = resolve(
                path, [*sets, "name=" + name.replace(" ", "-").replace(",", "")]
            ).config
            run, _ = experiments.train_one(config, folder, plots=False)
            page = report(run.path)
            megabytes = page.stat().st_size / 2**20
            add_row(f"page: {name}, MB", [], [megabytes], [megabytes], "< 12")
            loads, drags = [], []
            for _ in range(repeats):
                first, moves = open_and_drag(browser, page)
                loads.append(first)
                drags.append(statistics.median(moves))
            add_row(f"page: {name}, to the first answer, s", [], loads, loads, "<= 1.5")
            add_row(f"page: {name}, a drag step, ms", [], drags, drags, f"< {goal}")
        browser.close()


def open_and_drag(browser: Any, path: Path) -> tuple[float, list[float]]:
    """Open a page and drag its first source point.

    Returns:
        the seconds from the start of the navigation until the page has answered its first drag, and
        the milliseconds that each later move takes.
    """
    page = browser.new_context(viewport={"width": 1240, "height": 900}).new_page()
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector("#live-body:not([hidden])")  # the plots may still be missing
    first: float = page.evaluate(DRAG, 1)["sinceStart"] / 1000
    page.wait_for_selector("html[data-ready=yes]")
    moves: list[float] = page.evaluate(DRAG, MOVES)["taken"]
    page.context.close()
    return first, moves
