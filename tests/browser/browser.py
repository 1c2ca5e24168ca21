"""Looks at the page of `--emit report` in headless Chromium."""

import sys
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

MAX_OPEN_SECS = 2.0
SECTIONS = ["timeline", "memory", "layer", "ops", "time", "stages", "communication", "peak", "instructions"]


def check_parts(page: Page) -> None:
    """All sections are there, each picture says what it shows."""
    for part in SECTIONS:
        assert page.locator(f"section#{part}").count() == 1, f"no section {part}"
    pictures = page.locator("figure svg")
    assert pictures.count() >= 4
    for index in range(pictures.count()):
        alt = pictures.nth(index).get_attribute("aria-label")
        assert alt and len(alt) > 20, f"picture {index} says nothing: {alt}"


def check_width(page: Page, width: int) -> None:
    """The page scrolls down only; what is wider scrolls by itself."""
    page.set_viewport_size({"width": width, "height": 900})
    inner = page.evaluate("document.documentElement.scrollWidth")
    assert inner <= width, f"the page is {inner} wide in a window of {width}"
    smallest = page.evaluate("Math.min(...[...document.querySelectorAll('svg text')].map(it => it.getBoundingClientRect().height))")
    assert smallest >= 8, f"type of {smallest} pixels in a window of {width}"


def check_keyboard(page: Page) -> None:
    """Tab reaches links, pictures that scroll and the filter; the filter hides rows."""
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
    assert {"A.", "DIV.wide", "INPUT."} <= reached, reached
    rows = page.locator("#instructions tbody tr")
    before = rows.count()
    page.locator("#filter").focus()
    page.keyboard.type("no instruction is called so")
    assert before > 0 and page.locator("#instructions tbody tr:visible").count() == 0
    page.locator("#filter").fill("")


def main() -> None:
    browser_path, page_path, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        start = time.monotonic()
        page.goto(page_path.resolve().as_uri())
        took = time.monotonic() - start
        check_parts(page)
        for width in (1200, 400):
            check_width(page, width)
            page.screenshot(path=out / f"page_{width}.png", full_page=True)
        check_keyboard(page)
        browser.close()
    assert not said, f"the console says {said}"
    assert len(asked) == 1, f"the page asks for {asked[1:]}"
    assert took < MAX_OPEN_SECS, f"it opens in {took:.1f} s"
    print(f"browser: {page_path.stat().st_size / 1e3:.0f} kB, opens in {took:.2f} s, no message, no request")


if __name__ == "__main__":
    main()
