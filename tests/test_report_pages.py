"""The report as people use it, in a real browser from disk: every page, two widths, dark, keyboard, print."""

from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By

from tests.analysis.report.reports import written
from tests.browser import browser, complaints, look, needs_browser
from tests.pages import index_problems, page_problems, printed_text, shown, wait

pytestmark = [pytest.mark.slow, needs_browser()]
TIP = "(document.getElementById('vg-tooltip-element')?.textContent ?? '')"  # made when the first is shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("sent") / "a folder & more")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def press(driver: Chrome, *keys: str) -> None:
    ActionChains(driver).send_keys(*keys).perform()


def focused(driver: Chrome) -> str:
    return driver.execute_script("const at = document.activeElement; return at.name || at.id || at.textContent")


def test_every_page_fits_is_quiet_and_has_no_serious_fault(driver: Chrome, folder: Path) -> None:
    pages = sorted(folder.glob("*.html"))
    assert len(pages) == 5
    assert [problem for page in pages for problem in page_problems(driver, page)] == []
    assert index_problems(driver, folder) == []


def test_a_page_that_is_too_wide_speaks_and_has_faults_is_found(driver: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    head = "<meta name=viewport content='width=device-width'><title>x</title>"
    page.write_text(f"{head}<p style='width: 900px; color: #eee'>pale</p><script>oops()</script>")
    found = "\n".join(page_problems(driver, page))
    assert "pixels too wide" in found and "oops" in found and "color-contrast" in found


def test_the_filter_works_by_keyboard_and_its_state_is_in_the_address(driver: Chrome, folder: Path) -> None:
    look(driver, folder / "index.html")
    assert len(shown(driver)) == 6
    driver.find_element(By.ID, "theme").send_keys(Keys.TAB)
    for _ in range(40):
        if focused(driver) == "verdict":
            break
        press(driver, Keys.TAB)
    assert focused(driver) == "verdict"
    press(driver, Keys.SPACE)  # reproduced
    assert shown(driver) == ["R1", "R4"] and driver.current_url.endswith("#verdict=reproduced")
    while focused(driver) != "text":
        press(driver, Keys.TAB)
    press(driver, "sentence of R4")
    assert shown(driver) == ["R4"] and driver.find_element(By.ID, "shown").text == "1 of 6 claims"
    address = driver.current_url.partition("#")[2]
    look(driver, folder / "index.html", fragment=f"#{address}")
    assert shown(driver) == ["R4"], "a view can be sent"
    look(driver, folder / "index.html", fragment="#paper=crdt&testbed=mininet&fitted=no")
    assert shown(driver) == ["T5"]


def test_arrow_keys_walk_the_dots(driver: Chrome, folder: Path) -> None:
    look(driver, folder / "index.html")
    first = driver.find_element(By.CSS_SELECTOR, ".dot")
    first.send_keys(Keys.ARROW_RIGHT)
    press(driver, Keys.ARROW_RIGHT)
    at = driver.execute_script("return document.activeElement.getAttribute('aria-label')")
    assert at == "R3 direction only"
    press(driver, Keys.END, Keys.ENTER)
    assert driver.current_url.endswith("paper-crdt.html#T6")


def test_the_choice_of_dark_is_kept(driver: Chrome, folder: Path) -> None:
    def ground() -> str:
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    look(driver, folder / "index.html", scheme="light")
    light = ground()
    driver.find_element(By.ID, "theme").send_keys(Keys.ENTER)
    dark = ground()
    look(driver, folder / "paper-srtm.html", scheme="light")
    assert dark != light and ground() == dark
    driver.find_element(By.ID, "theme").send_keys(Keys.ENTER)
    assert ground() == light


def test_a_figures_systems_can_be_switched_off_and_points_lead_to_runs(driver: Chrome, folder: Path) -> None:
    look(driver, folder / "figure-fig-a.html")
    wait(driver, "return (document.getElementById('view').dataset.drawn || 0) > 0")
    drawn = driver.find_element(By.ID, "view")
    table = driver.find_element(By.NAME, "table")
    assert table.get_property("value") == "p99" and drawn.get_attribute("data-drawn") == "78"
    labels = [label.text for label in driver.find_elements(By.CSS_SELECTOR, "#series label")]
    assert labels == ["lb", "SRTM"]
    driver.find_element(By.CSS_SELECTOR, "#series input[value=srtm]").send_keys(Keys.SPACE)
    wait(driver, "return document.getElementById('view').dataset.drawn === '39'")
    assert focused(driver) == "series-key", "the keyboard stays where it was"
    driver.find_element(By.NAME, "table").send_keys("runs")
    wait(driver, "return document.getElementById('view').dataset.drawn === '3'")
    points = driver.find_elements(By.CSS_SELECTOR, "#view .mark-symbol path")
    ActionChains(driver).move_to_element(points[0]).click().perform()
    wait(driver, "return document.getElementById('behind').textContent.includes('aa11')")
    wait(driver, f"return {TIP}.includes('p99_ms') && {TIP}.includes('1.25')")
    driver.find_element(By.CSS_SELECTOR, "#behind a").click()
    wait(driver, "return document.getElementById('runs').open")
    assert complaints(driver) == []


def test_what_spans_decades_opens_on_logarithmic_axes_and_the_reader_has_the_last_word(
    driver: Chrome, folder: Path
) -> None:
    def log() -> bool:
        return driver.find_element(By.NAME, "log").is_selected()

    look(driver, folder / "figure-fig-a.html")
    wait(driver, "return (document.getElementById('view').dataset.drawn || 0) > 0")
    assert not log()
    driver.find_element(By.NAME, "table").send_keys("decades")
    wait(driver, "return document.getElementById('view').dataset.drawn === '3'")
    assert driver.find_element(By.NAME, "y").get_property("value") == "delay_ms" and log()
    labels = "[...document.querySelectorAll('#view .role-axis-label text')].map((text) => text.textContent)"
    wait(driver, f"return {labels}.includes('100') && {labels}.includes('0.1')")
    driver.find_element(By.NAME, "log").send_keys(Keys.SPACE)
    wait(driver, f"return !{labels}.includes('0.1')")
    assert not log()
    driver.find_element(By.NAME, "y").send_keys("wait_ms")
    wait(driver, f"return !{labels}.includes('600')")
    assert not log() and complaints(driver) == []


def test_an_infinite_value_makes_the_mean_infinite_and_is_told(driver: Chrome, folder: Path) -> None:
    look(driver, folder / "figure-fig-a.html")
    wait(driver, "return (document.getElementById('view').dataset.drawn || 0) > 0")
    driver.find_element(By.NAME, "table").send_keys("overload")
    wait(driver, "return document.getElementById('view').dataset.drawn === '6'")
    said = "[...document.querySelectorAll('#view .role-mark text')].map((text) => text.textContent)"
    wait(driver, f"return {said}.join() === 'inf (1 of 2)'")
    assert len(driver.find_elements(By.CSS_SELECTOR, "#view .mark-symbol path")) == 5
    (line,) = driver.find_elements(By.CSS_SELECTOR, "#view .mark-line path")
    assert (line.get_attribute("d") or "").count("L") == 1, "from 2 to 3 brokers: at 1 there is no mean of finite ones"
    word = driver.find_element(By.CSS_SELECTOR, "#view .role-mark text")
    ActionChains(driver).move_to_element(word).perform()
    wait(driver, f"return {TIP}.includes('mean p99_ms') && {TIP}.includes('inf (1 of 2)')")
    assert complaints(driver) == []


def test_a_digitised_curve_and_what_live_runs_used_are_drawn(driver: Chrome, folder: Path) -> None:
    look(driver, folder / "figure-fig-a.html")
    symbols = "document.querySelectorAll('#view .mark-symbol path').length"
    wait(driver, f"return {symbols} === 78 + 2")  # ours, and the digitised
    driver.find_element(By.NAME, "only arrivals").send_keys("periodic")
    wait(driver, f"return {symbols} === 72")  # of which the curve says nothing
    driver.find_element(By.NAME, "table").send_keys("what")
    wait(driver, "return document.getElementById('view').dataset.drawn === '6'")
    assert [label.text for label in driver.find_elements(By.CSS_SELECTOR, "#series label")] == ["node-n1", "node-n2"]


def test_print_is_complete(driver: Chrome, folder: Path) -> None:
    look(driver, folder / "figure-fig-a.html")
    text, size = printed_text(driver)
    for part in ("aa11", "limit < 20", "Numbers: p99", "settings", "because of & that", "Φ <cr>", "2.5"):
        assert part in text, part
    assert "Dark or light" not in text and size > 10_000
    look(driver, folder / "index.html", fragment="#verdict=contradicted")
    assert len(shown(driver)) == 1
    text, _ = printed_text(driver)
    assert all(f"sentence of {name}" in text for name in ("R1", "R2", "R3", "R4", "T5", "T6"))


def test_all_is_readable_without_scripts(driver: Chrome, folder: Path) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        look(driver, folder / "index.html")
        body = driver.find_element(By.TAG_NAME, "body").text
        assert all(f"sentence of {name}" in body for name in ("R1", "T6")) and "14.1 ms [13.9, 14.3]" in body
        assert "Dark or light" not in body, "what would do nothing is not shown"
        look(driver, folder / "figure-fig-a.html")
        assert "§ drawn & done" in driver.find_element(By.TAG_NAME, "body").text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
