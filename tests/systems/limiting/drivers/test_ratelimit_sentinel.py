"""ratelimit-sentinel: what its processes are told; and a real fail-over, on loopback."""

from itertools import takewhile
from pathlib import Path

import pytest

from core.errors import SpecError
from systems.limiting.deployed import quota_of
from systems.limiting.drivers.ratelimit_sentinel import DRIVER, Config
from tests.live import needs
from tests.systems.limiting.drivers.on_loopback import around_a_crash, keeps_its_word, on_paper

OPTIONS = {"capacity": 6, "rate": "6", "server": "n2", "replica": "n3"}


def test_a_majority_of_sentinels_watches_the_first_redis_and_services_ask_them() -> None:
    config = Config(5, "5", down_after="250ms")
    told = DRIVER.servers(on_paper(), quota_of(config), config)
    assert [f"{each.name}-{each.node}" for each in told[:5]] == [
        *("redis-n1", "replica-n3", "sentinel-n1", "sentinel-n2", "sentinel-n3"),
    ]
    assert "replicaof 10.0.0.1 6379\n" in told[1].files["redis.conf"]
    watching = told[3].files["redis.conf"]
    assert "sentinel monitor main 10.0.0.1 6379 2\n" in watching
    assert "sentinel down-after-milliseconds main 250\nsentinel failover-timeout main 180000\n" in watching
    assert told[3].command[-1] == "--sentinel" and told[5].command == ("ratelimit",)
    assert told[5].environment["REDIS_URL"] == "main,10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379"


def test_a_replica_beside_the_first_redis_is_refused() -> None:
    quota = quota_of(Config(5, "5"))
    for config in (Config(replica="n1"), Config(server="n3")):
        with pytest.raises(SpecError, match="set replica to another node"):
            DRIVER.check(quota, config, ["n1", "n2", "n3"])
    with pytest.raises(SpecError, match="replica = 'n9'"):
        DRIVER.check(quota, Config(replica="n9"), ["n1", "n2", "n3"])
    with pytest.raises(SpecError, match="down_after = '0s'"):
        DRIVER.check(quota, Config(down_after="0s"), ["n1", "n2", "n3"])
    with pytest.raises(SpecError, match="failover_timeout = '1us'"):
        DRIVER.check(quota, Config(failover_timeout="1us"), ["n1", "n2", "n3"])


def test_it_is_not_ready_before_all_know_each_other() -> None:
    pong, healthy = b"+PONG\r\n", b"HTTP/1.1 200 OK\r\n\r\n"
    there = {
        **{"n1/redis": pong, "n3/replica": b"master_link_status:up\r\n" + pong, "n1/ratelimit": healthy},
        **{f"{node}/sentinel": b"+OK 3 usable Sentinels.\r\n" + pong for node in ("n1", "n2", "n3")},
    }
    assert DRIVER.ready(on_paper(), there) == ""
    assert DRIVER.ready(on_paper(), there | {"n3/replica": b"master_link_status:down\r\n" + pong}) != ""
    alone = {"n2/sentinel": b"-NOQUORUM 1 usable Sentinels.\r\n" + pong}
    assert DRIVER.ready(on_paper(), there | alone) == "n2/sentinel does not know the others"
    assert DRIVER.ready(on_paper(), there | {"n1/ratelimit": b""}) == "no answer of n1/ratelimit"


# --- live ------------------------------------------------------------------------------------------------------------


@needs("ratelimit-sentinel")
@pytest.mark.slow
def test_the_real_one_keeps_its_word(tmp_path: Path) -> None:
    keeps_its_word(DRIVER, tmp_path, **OPTIONS | {"replica": "n1"})


@needs("ratelimit-sentinel")
@pytest.mark.slow
def test_where_the_first_redis_is_killed_the_replica_takes_its_place(tmp_path: Path) -> None:
    """Some seconds, in which the node decides alone; then there are verdicts again."""
    users, options = [f"u{i}" for i in range(520)], {"down_after": "1s", "timeout": "500ms", "on_failure": "closed"}
    options["failover_timeout"] = "3s"  # both Sentinels left may vote for themselves, and again after twice that
    for number in range(3):
        folder = tmp_path / str(number)
        _, after = around_a_crash("ratelimit-sentinel", folder, "n2", users, 26, **OPTIONS | options)
        if not any("+tilt" in log.read_text() for log in folder.rglob("sentinel-n*.log")):
            break  # one whose own timer was 2 s late takes part in no fail-over for 30 s
    decisions = [each.decision for each in after]
    assert len([*takewhile("reject".__eq__, decisions)]) >= 5
    assert decisions[-40:].count("admit") > 20, "a node of a busy machine may still decide alone now and then"
