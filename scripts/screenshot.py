"""Save a picture of a page of `seqattn report`, once its plots are drawn.

python scripts/screenshot.py outputs/squares/report.html report.png
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

BROWSERS = "chromium", "chromium-browser", "google-chrome"


def find_browser() -> str:
    """Return the path of an installed Chromium or Chrome; exit with a message if there is none."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise SystemExit("Chromium is not installed: make test-browser installs it.")
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path, help="the HTML file")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    parser.add_argument("--width", type=int, default=1100, help="pixels (default 1100)")
    parser.add_argument("--height", type=int, default=1340, help="pixels (default 1340)")
    arguments = parser.parse_args()
    program = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        size = {"width": arguments.width, "height": arguments.height}
        page = browser.new_page(viewport=size)
        page.goto(arguments.page.resolve().as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        page.screenshot(path=arguments.picture)
        browser.close()


if __name__ == "__main__":
    main()
