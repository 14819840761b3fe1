"""The thesis' numbers are those of our digest of it, each at the claim that it belongs to."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from paper_figs.crdt import published
from paper_figs.crdt.published import PrintedNumber

DIGEST = Path(__file__).resolve().parents[4] / "shared" / "papers" / "crdt-dst.md"
THESIS = "## 2"  # where the digest's next paper begins


def digest() -> str:
    """The digest's part on the thesis, in plain text."""
    if not DIGEST.exists():
        pytest.skip(f"needs the digest of the thesis: {DIGEST} is not there")
    return DIGEST.read_text().partition(f"\n{THESIS}")[0].replace("**", "")


def place_of(printed: PrintedNumber, text: str) -> str:
    """Where a number must stand: its claim's row of the digest; what belongs to no claim, anywhere."""
    if not printed.claim:
        return text
    (row,) = re.findall(rf"^\| {printed.claim} \|.*$", text, re.MULTILINE)
    return str(row)


def printed_in(values: Mapping[str, object]) -> Iterator[PrintedNumber]:
    """All printed numbers of a table, or of its tables."""
    for value in values.values():
        if isinstance(value, PrintedNumber):
            yield value
        elif isinstance(value, Mapping):
            yield from printed_in(value)


public = {name: value for name, value in vars(published).items() if not name.startswith("_")}


@pytest.mark.parametrize("printed", list(printed_in(public)), ids=lambda printed: f"{printed.claim}:{printed.text}")
def test_a_printed_number_stands_in_the_digest(printed: PrintedNumber) -> None:
    row = place_of(printed, digest())
    assert re.search(rf"(?<![\d.]){re.escape(printed.text.removesuffix(' %'))}(?![\d.]\d)", row), (printed, row)
    assert not printed.claim or printed.where in row


@pytest.mark.parametrize("change", ["96.8 %", "9.69 %", "6.9 %"])
def test_another_number_does_not(change: str) -> None:
    with pytest.raises(AssertionError):
        test_a_printed_number_stands_in_the_digest(PrintedNumber("T8", "5.2.1", change, (0.968,)))


def test_a_number_at_another_claim_does_not() -> None:
    with pytest.raises(AssertionError):
        test_a_printed_number_stands_in_the_digest(PrintedNumber("T11", "5.2.2", "96.9 %", (0.969,)))
