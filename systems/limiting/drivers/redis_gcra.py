"""redis-gcra: a real Redis decides for all nodes, with GCRA in a script.

What Stripe's and many others' limiters come to.  Against ``centralised``, its model, it shows what a real server adds:
its network stack, its event loop, its clock of microseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from core.errors import SpecError
from systems.limiting.deployed import Cluster, DeployedConfig, Driver, Entry, Process, Quota, deployed, resp
from systems.limiting.drivers.redis_server import PONG, PORT, PROGRAMS, VERSIONS, redis
from systems.parts.limit import limit_of

EXACT = 2**53  # the integers that a Lua number, a double, holds exactly
LONGEST_RUN_US = 24 * 3_600 * 10**6  # since the server's origin: what stays exact
ORIGIN = "ratebed:origin"  # a key: the second of Redis' clock at which the first node greeted it

# KEYS: the user's, the origin's.  The value: the instant, in ticks since the origin, at which the bucket is full again.
# Every quantity is an integer below 2^53, so that doubles are exact; Lua prints but 14 digits of itself, hence %.0f.
SCRIPT = """
local ticks_per_us, token_ticks = tonumber(ARGV[1]), tonumber(ARGV[2])
local capacity, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
if cost > capacity then return 0 end
local time = redis.call('TIME')
local now = ((tonumber(time[1]) - tonumber(redis.call('GET', KEYS[2]))) * 1000000 + tonumber(time[2])) * ticks_per_us
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + cost * token_ticks
if full_at - now > capacity * token_ticks then return 0 end
local life_ms = math.ceil((full_at - now) / (ticks_per_us * 1000)) + 1
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', string.format('%.0f', life_ms))
return 1
"""
BEGIN = "return redis.call('SET', KEYS[1], redis.call('TIME')[1], 'NX')"


@dataclass(frozen=True)
class Config(DeployedConfig):
    """Options; those of ``centralised``."""


def script_limit(capacity: int, rate: str) -> tuple[int, int]:
    """Ticks a microsecond and ticks a token; SpecError where a day's instants outgrow a double's integers."""
    token_ticks, ticks_per_us = (10**6 / limit_of(capacity, rate).rate_rps).as_integer_ratio()
    if LONGEST_RUN_US * ticks_per_us + 2 * capacity * token_ticks >= EXACT:
        raise SpecError(f"redis-gcra: capacity = {capacity}, rate = {rate!r}", "give a rate of fewer digits")
    return ticks_per_us, token_ticks


class RedisGcra(Driver):
    """See ``Driver``."""

    key, summary, config = "redis-gcra", "a real Redis decides for all nodes", Config
    programs, versions, wire, contract = PROGRAMS, VERSIONS, "resp", "bucket"

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:
        script_limit(config.capacity, config.rate)

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        return [redis(cluster)]

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        greeting = resp("AUTH", cluster.secret), resp("SCRIPT", "LOAD", SCRIPT), resp("EVAL", BEGIN, 1, ORIGIN)
        return Entry(cluster.addresses[cluster.main], cluster.port_of(cluster.main, "redis", PORT), greeting)

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        return "" if PONG in answers[f"{cluster.main}/redis"] else "Redis does not answer PING"

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        arguments = (*script_limit(config.capacity, config.rate), config.capacity, cost)
        return resp("EVALSHA", _HASH, 2, f"u:{user}", ORIGIN, *arguments)  # no user has ORIGIN

    def verdict(self, answer: Any) -> bool | None:
        return answer == 1 if answer in (0, 1) else None


_HASH = sha1(SCRIPT.encode()).hexdigest()
DRIVER = RedisGcra()
SYSTEM = deployed(DRIVER)
