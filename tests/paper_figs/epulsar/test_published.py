"""The numbers of the ePulsar paper that figures use are those of its digest."""

import re

import pytest

from paper_figs.epulsar import published
from tests.paper_figs.digests import digest, numbers_of

WORDS = {  # a number -> the digest's words around it
    "ERROR_MS": "per-pair RTT estimation error < 3.5 ms",
    "ERROR_PERCENT": "stays < 6 % of it",
    "FEWEST_NODES": "2-128 nodes",
    "MOST_NODES": "2-128 nodes",
    "SETTLED_MIN": "NC warm-up | 10 min",
    "STABLE_MIN": "60 min quoted as convergence",
    "AGENT_CPU_PERCENT": "CPU < 1 %, memory < 15 MB",
    "AGENT_MEMORY_MB": "CPU < 1 %, memory < 15 MB",
    "QUERY_S": "broker NC query | 5 s; 5 s; 5 s",
    "REPORT_S": "client NC report; broker NC query | 5 s; 5 s; 5 s",
    "GAME_BOUND_MS": "bound | 100 ms E2E",
    "GAME_ACCESS_MS": "broker <-> game server in a city 5 ms",
    "GAME_CLIENTS": "1024 clients over the cities",
    "GAME_GROUPS": "128 random groups",
    "GAME_CITIES": "5 cities, 1 broker each",
    "SWARM_BOUND_MS": "bound | 40 ms E2E",
    "SWARMS": "16 swarms x 8 UAVs (1 leader)",
    "SWARM_MEMBERS": "16 swarms x 8 UAVs (1 leader)",
    "SWARM_ZONES": "4 zones, 8 swarms x 8 UAVs",
    "PERMUTATIONS": "1000 random permutations",
    "SWARM_RUN_MIN": "200 msgs/s per UAV, 1 KB, 10 min",
    "GAME_RUN_MIN": "300 msgs/s per avatar, 10 min",
    "MOVED_TOPICS": "concurrent topics (128 in 7a)",
    "EXECUTORS": "executor threads (16 in 7a)",
    "WAN_MS": "one-way WAN broker<->Load Manager (40 ms in 7b)",
    "KNEE_KRPS": "R_out > 1500 K msgs/s (p95 E2E knee)",
    "CODE_LOCATE_S": "1 s / 1 s defaults",
    "CODE_REPORT_MS": "every 1500 ms",
    "CODE_PLACE_MS": "fixed rate 2500 ms",
    "CODE_GUARD_S": '("recently unloaded") | 5 s',
    "CODE_CENTROID_BYTES": "about 840 B/topic",
    "CODE_PAIRS_8_KB": "2.9 kB (8)",
    "CODE_PAIRS_16_KB": "5.8 kB (16)",
}


@pytest.mark.parametrize("name", WORDS)
def test_the_digest_has_the_words_of_each_number(name: str) -> None:
    assert WORDS[name].replace("*", "") in digest("epulsar.md").replace("*", "")


@pytest.mark.parametrize("name", WORDS)
def test_the_words_have_the_number(name: str) -> None:
    assert getattr(published, name) in [float(number) for number in re.findall(r"\d+(?:\.\d+)?", WORDS[name])]


def test_every_number_of_the_file_is_looked_up() -> None:
    assert set(WORDS) == numbers_of(published)
