"""What must hold of every page of a report in a real browser, however it is made: asked by fast and by long tests."""

import base64
from collections.abc import Sequence
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser import WIDTHS, complaints, faults, look

INDEX_BYTES, INDEX_ELEMENTS = 500_000, 5_000
SEEN_BY_AXE = ((WIDTHS["phone"], "light"), (WIDTHS["desk"], "dark"))
_SIDEWAYS = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
_READY = "return document.readyState === 'complete' && (!document.getElementById('view') || %s)"
_DRAWN = "document.getElementById('view').dataset.drawn !== undefined"


def wait(driver: Chrome, script: str, seconds: float = 60.0) -> None:
    """Until a script's value is true; AssertionError where it never is."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, seconds).until(lambda each: each.execute_script(script), script)


def page_problems(driver: Chrome, page: Path, seen_by_axe: Sequence[tuple[int, str]] = SEEN_BY_AXE) -> list[str]:
    """What is wrong with a page at both widths, in light and in dark; by default axe sees each of the four once."""
    problems = []
    for width, scheme in ((WIDTHS["phone"], "light"), (WIDTHS["desk"], "light"), (WIDTHS["desk"], "dark")):
        look(driver, page, width, scheme)
        wait(driver, _READY % _DRAWN)
        where = f"{page.name} at {width}, {scheme}"
        wide = driver.execute_script(_SIDEWAYS)
        problems += [f"{where}: {wide} pixels too wide"] * (wide > 0)
        problems += [f"{where}: says {text}" for text in complaints(driver)]
        if (width, scheme) in seen_by_axe:
            problems += [f"{where}: {text}" for text in faults(driver)]
    return problems


def index_problems(driver: Chrome, folder: Path) -> list[str]:
    """Whether the index is small, and what a keyboard cannot do there."""
    index = folder / "index.html"
    look(driver, index)
    count = driver.execute_script("return document.getElementsByTagName('*').length")
    problems = [f"the index has {count} elements"] * (count > INDEX_ELEMENTS)
    size = index.stat().st_size
    return problems + [f"the index has {size} bytes"] * (size > INDEX_BYTES)


def shown(driver: Chrome) -> list[str]:
    """The claims that the filter leaves."""
    rows = driver.find_elements(By.CSS_SELECTOR, "table.claims tbody tr:not(.is-hidden) td:first-child")
    return [row.text for row in rows]


def printed_text(driver: Chrome) -> tuple[str, int]:
    """What a page shows in print, closed parts too, and the size of its PDF in bytes."""
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    text = driver.execute_script("return document.body.innerText")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    return str(text), len(pdf)
