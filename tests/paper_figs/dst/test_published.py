"""The numbers that the DST paper prints: each stands in the digest, in the sentence that it is from."""

import pytest

from paper_figs.dst import published as p
from paper_figs.dst.drawing import as_printed
from tests.paper_figs.digests import digest, numbers_of


def _row(item: str, of: dict[str, str], unit: str = "") -> str:
    return f"| {item} | {of['dst-1']}{unit} | {of['dst-2']}{unit} |"


SENTENCES = {  # constants -> what the digest says with them
    "SERVERS CLIENTS CYCLES CYCLE": f"{p.SERVERS} servers, {p.CLIENTS} clients assigned at random, "
    f"{p.CLIENTS // p.SERVERS} per server, unit weights, {p.CYCLES} cycles, g = {p.CYCLE},",
    "OPTIMAL_CYCLE": _row("Table 3: optimal dt", p.OPTIMAL_CYCLE),
    "PHI_CR": _row(f"Table 4: Phi_cr (g = {p.CYCLE})", p.PHI_CR),
    "PHI_SS": _row(f"Table 4: Phi_ss (g = {p.CYCLE})", p.PHI_SS),
    "OVERTHROTTLING": _row("Table 4: over-throttling", p.OVERTHROTTLING, " %"),
}


@pytest.mark.parametrize("names", SENTENCES)
def test_the_digest_says_so(names: str) -> None:
    assert SENTENCES[names] in digest("crdt-dst.md")


def test_every_number_is_held() -> None:
    assert {name for names in SENTENCES for name in names.split()} == numbers_of(p)


@pytest.mark.parametrize(("printed", "half"), [("0.4226", 5e-5), ("6.2", 0.05), ("12", 0.5)])
def test_half_a_digit(printed: str, half: float) -> None:
    check = as_printed("", 0.0, printed)
    assert (check.high - check.low) / 2 == pytest.approx(half)
