"""The thesis' numbers are those of our digest of it, each at the claim that it belongs to, and pages the thesis'."""

import re
from collections.abc import Iterator, Mapping

import pytest

from paper_figs.crdt import published as p
from paper_figs.crdt.published import PAGES, PrintedNumber
from tests.paper_figs.digests import numbers_of, paper

DIGEST, THESIS = "crdt-dst.md", "001_774f1f3860598cb3.txt"
NEXT_PAPER = "## 2"  # of the digest
SET_UP = {  # constants -> where they are printed, and what the digest says with them
    "NODES": ("Table 4.1", f"topology / nodes / gossip interval | full mesh / {p.NODES} / "),
    "ROUND_MS": ("Table 4.1", f"| full mesh / {p.NODES} / {p.ROUND_MS} ms |"),
    "FILL_S": ("Table 4.1", f"(so empty->full = {p.FILL_S} s)"),
    "THRESHOLD_MS": ("Table 4.2", f"| frequency threshold (queue only) | {p.THRESHOLD_MS} ms |"),
    "C_USERS": ("4.3.4", f"| C | real, 1 h, {p.C_USERS} users,"),
    "D_CAPACITY D_RATE_RPS": ("Table 4.3", f"| {p.D_CAPACITY} tokens, {p.D_RATE_RPS} token/s |"),
    "D_GOSSIP_MS": ("Table 4.3", f"{{{', '.join(map(str, p.D_GOSSIP_MS))}}} ms |"),
    "D_SPAN_S D_EVERY_MS": ("4.3.4", f"{p.D_SPAN_S} s, one user, one request per {p.D_EVERY_MS / 1000} s"),
    "LOG_CAPACITY LOG_RATE_RPS": ("Fig. 4.2", f"Fig 4.2 (c = {p.LOG_CAPACITY}, r = {p.LOG_RATE_RPS}/s)"),
    "REST_S": ("5.1.3", f"every queue variant needs at least {p.REST_S // 60} more minute"),
    "DELAYED_GOSSIP_MS DELAY_MS": ("5.5", f"gossip every {p.DELAYED_GOSSIP_MS} ms, delay {p.DELAY_MS} ms"),
}


def digest() -> str:
    """The digest's part on the thesis, in plain text."""
    return paper(DIGEST).partition(f"\n{NEXT_PAPER}")[0].replace("**", "")


def listed(place: str) -> tuple[str, str]:
    """A place's number, and the thesis' list that has it with its page: of its contents, figures or tables."""
    before = paper(THESIS).partition("\nIntroduction\n")[0]
    contents, _, rest = before.partition("\nList of Figures\n")
    figures, _, tables = rest.partition("\nList of Tables\n")
    kind, _, number = place.rpartition(" ")
    return number, {"": contents, "Fig.": figures, "Table": tables.partition("\nListings\n")[0]}[kind]


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


PRINTED = list(printed_in({name: value for name, value in vars(p).items() if not name.startswith("_")}))
OTHERS = {"PAGES", "MEMORY", "MEASURED", "BANDWIDTH", "SPOTIFY"} | {"COUNTER", "FL", "F", "L"}  # no numbers; names


@pytest.mark.parametrize("printed", PRINTED, ids=lambda printed: f"{printed.claim}:{printed.text}")
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


@pytest.mark.parametrize("names", SET_UP)
def test_the_set_up_stands_in_the_digest(names: str) -> None:
    place, sentence = SET_UP[names]
    assert sentence in digest() and place in PAGES


def test_every_number_is_held() -> None:
    printed = {name for name in numbers_of(p) if list(printed_in({name: getattr(p, name)}))}
    assert {name for names in SET_UP for name in names.split()} == numbers_of(p) - printed - OTHERS


@pytest.mark.parametrize("place", PAGES)
def test_a_page_is_the_thesis_own(place: str) -> None:
    number, listing = listed(place)
    assert re.search(rf"^\s*{re.escape(number)}\s[^\d]*\s{PAGES[place]}$", listing, re.MULTILINE), place


def test_every_printed_number_has_a_page() -> None:
    assert {printed.where for printed in PRINTED} | {place for place, _ in SET_UP.values()} == set(PAGES)
    assert all(printed.page == PAGES[printed.where] for printed in PRINTED)
