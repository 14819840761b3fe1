"""The numbers that the SRTM papers print: each stands in the digest, in the sentence that it is from."""

import pytest

from paper_figs.srtm import published as p
from tests.paper_figs.digests import digest, numbers_of


def _row(size: int) -> str:
    """A group size of Table I, as the digest writes it."""
    rounds, seconds = p.TABLE_1[size]
    return f"{size}: {','.join(map(str, rounds))}; {seconds}"


THOUSANDS = ",".join(f"{load / 1000:.0f}" for load in p.INITIAL_LOADS_RPS)
SENTENCES = {  # constants -> what the digest says with them
    "SLO_MS": f"stays under the SLO ({p.SLO_MS:g} ms)",
    "BROKERS": f"two carrying {p.BROKERS} brokers of 2 cores",
    "PUBLISHERS BATCH": f"Setting: {p.PUBLISHERS:,} publishers, 10 msg/s, batch {p.BATCH}, empty brokers",
    "PUBLISHER_RPS": f"too), {p.PUBLISHER_RPS:g} msg/s each unless said",
    "FIG4_PUBLISHERS": f"| Fig. 4 | {p.FIG4_PUBLISHERS:,} publishers: p99 very large at k=1",
    "REPORT_FIG6A_P99_MS": f"p99 grows with k; {p.REPORT_FIG6A_P99_MS} ms at k={p.BROKERS}",
    "INITIAL_LOADS_RPS": f"with initial loads {THOUSANDS} kmsg/s",
    "FITS_ONE": f"Conc = Max-Min up to {p.FITS_ONE / 1000:g}k publishers",
    "FIG6_PUBLISHERS BROKER_3_P99_MS": f"{p.FIG6_PUBLISHERS / 1000:g}k publishers: broker 3's publishers p99 "
    f"{p.BROKER_3_P99_MS['conc']:.2f} ms under Conc, {p.BROKER_3_P99_MS['max-min']:.2f} ms under Max-Min",
    "LARGEST_GROUP ITS_BROKERS": f"every group size up to {p.LARGEST_GROUP}; the number of brokers grows with group "
    f"size, {p.ITS_BROKERS} at {p.LARGEST_GROUP}",
    "SPREAD_GROUP LARGEST_SPREAD_MS": f"group {p.SPREAD_GROUP}, spread 0-{p.LARGEST_SPREAD_MS} ms",
    "TABLE_1": " | ".join(_row(size) for size in p.TABLE_1),
    "ROUND_S": f"(a round = {p.ROUND_S} s of traffic",
    "OVERHEAD_S": f"total = about {p.ROUND_S + p.OVERHEAD_S} s per round",
}


SMALL = "when variations in arrival times are small (a few percents of the average message inter-arrival time)"


@pytest.mark.parametrize("names", SENTENCES)
def test_the_digest_says_so(names: str) -> None:
    assert SENTENCES[names] in digest("srtm.md")


def test_every_number_is_held() -> None:
    assert {name for names in SENTENCES for name in names.split()} | {"SMALL_SPREAD_PERCENT"} == numbers_of(p)


def test_small_spreads_are_a_few_percent() -> None:
    assert SMALL in digest("000_08a92cf3fe13331a.txt") and 3 <= p.SMALL_SPREAD_PERCENT <= 5


def test_the_overhead_of_a_round_is_what_the_seconds_leave() -> None:
    left = [seconds / sum(rounds) - p.ROUND_S for rounds, seconds in p.TABLE_1.values()]
    assert sorted(left)[len(left) // 2] == pytest.approx(p.OVERHEAD_S, abs=0.1)
