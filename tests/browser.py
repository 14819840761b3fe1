"""A real browser for tests: Debian's Chromium, driven by Selenium, without network; and axe-core.

Where one of them is missing, tests are skipped with the reason; never where ``RATEBED_NEEDS`` names ``browser``.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from core.errors import MachineError
from tests.live import demanded

ROOT = Path(__file__).resolve().parent.parent
AXE = ROOT / ".axe" / "axe_playwright_python" / "axe.min.js"
WIDTHS = {"phone": 390, "desk": 1280}


def needs_browser() -> pytest.MarkDecorator:
    """Skip where this machine has no Chromium, no driver of it, or no axe-core."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    missing += ["axe-core"] if not AXE.is_file() else []
    reason = f"this machine has no {', '.join(missing)} (./bootstrap.sh test, as root on Debian)"
    if missing and "browser" in demanded():
        raise MachineError("tests of the report's pages must not be skipped here", reason)
    return pytest.mark.skipif(bool(missing), reason=reason)


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """A Chromium of its own that keeps what pages say on the console."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):  # fmt: skip
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(180)  # axe looks at thousands of elements, beside others' work
    try:
        yield driver
    finally:
        driver.quit()


def look(driver: Chrome, page: Path, width: int = 1280, scheme: str = "light", fragment: str = "") -> None:
    """Open a page at a width in a colour scheme, as a phone or a screen would."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get("about:blank")  # else another fragment opens nothing anew
    driver.get(page.as_uri() + fragment)


def complaints(driver: Chrome) -> list[str]:
    """What pages said on the console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def faults(driver: Chrome) -> list[str]:
    """What axe-core finds serious or critical on the page that is open."""
    driver.execute_script(AXE.read_text())
    found = driver.execute_async_script(
        "const done = arguments[0], asked = {preload: false, resultTypes: ['violations']};"
        "axe.run(document, asked).then(found => done(found.violations))"
    )
    return [
        f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
