"""Mutations of inputs: bytes, fields, numbers, names, nesting, truncation, compression, and two inputs made one."""

import gzip
import json
import random
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from core import limits
from studies import STUDIES
from systems import SYSTEMS
from testbed.topologies.topology import TOPOLOGIES
from workloads import WORKLOADS

LENGTH_MAXIMUM = 200_000  # of an input: longer ones say no more
NAMES = (STUDIES, SYSTEMS, TOPOLOGIES, WORKLOADS)  # one is exchanged for another of its registry


def _limits() -> list[int]:
    """All counts that ``core.limits`` just allows."""
    metas = [meta for kind in vars(limits).values() for meta in getattr(kind, "__metadata__", ())]
    counts = [value for value in vars(limits).values() if type(value) is int]
    return sorted({*counts, *(int(meta.le) for meta in metas if meta.le is not None)})


NUMBERS = (
    *(str(limit + by) for limit in _limits() for by in (-1, 0, 1)),
    *("0", "-1", "1", "3", "255", "65536", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
    *(
        "99999999999",
        "100000000",
        "99999999999999999999999",
        "1e305",
        "-1e305",
        "1e-320",
        "1e9999",
        "nan",
    ),
    *("inf", "-inf", "0.1", "1/3", "1/0", "0x10", "1_000", "٣", "", "1" * 5000),
)
WORDS = (
    *(
        "99999999999999h",
        "1h",
        "0s",
        "-5ms",
        "1ns",
        "0.5ns",
        "10min",
        "true",
        "null",
        "''",
        "[]",
        "{}",
        "[[]]",
        '"',
        "\\",
    ),
    *("~nobody/x", "../..", "/", "\n", "\r", "\t", ",", ";", "=", "*", "#", " ", "\0", "\ufeff", "\u2028", "é", "😀"),
    *("1979-05-27", "07:32:00", "lb", "srtm", "leases", "poisson", "virtual", "local", "mininet", "moon", "x.py:Y"),
)
BYTES = (b"\xff", b"\xe9", b"\x80", b"\xed\xa0\x80", b"\x00", b"\xc1", b"\xdf", b"\x1f\x8b", b"PAR1", b"\xa0")
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
_FIELD = re.compile(rb"[^\s,;=\[\]{}\"']+")
_NAME = re.compile(rf"(?<![\w.-])(?:{'|'.join(name for names in NAMES for name in names)})(?![\w.-])".encode())
_DEPTHS = (2, 60, 3_000, 50_000)
_PAIRS = (
    (b"[", b"]"),
    (b"{", b"}"),
    (b'{"a":', b"}"),
    (b"(", b")"),
    (b"\x91", b""),
    (b"\x81\xa1a", b""),
    (b"*1\r\n", b""),
)

Data = bytes
Mutation = Callable[[Data, random.Random], Data]


def mutated(inputs: Sequence[Data], rng: random.Random) -> Data:
    """One of ``inputs`` after one to six mutations; ``rng`` may be Hypothesis' own."""
    data = rng.choice(inputs)
    for _ in range(rng.randint(1, 6)):
        mutation = rng.choice(MUTATIONS)
        data = mutation(data, rng)[:LENGTH_MAXIMUM]
    return _spliced(data, rng.choice(inputs), rng) if rng.random() < 0.1 else data


def values_mutated(inputs: Sequence[Data], rng: random.Random) -> Data:
    """One of ``inputs`` with one to six values of its JSON changed, so that it mostly stays JSON; else ``mutated``."""
    try:
        value = json.loads(rng.choice(inputs))
    except (ValueError, RecursionError):
        return mutated(inputs, rng)
    if rng.random() < 0.2:
        return mutated(inputs, rng)
    for _ in range(rng.randint(1, 6)):
        value = _changed(value, rng)
    return json.dumps(value).encode()[:LENGTH_MAXIMUM]


def words_mutated(inputs: Sequence[Data], rng: random.Random) -> Data:
    """One of ``inputs`` with one to three of its words changed: names in the first line, or values; or ``mutated``."""
    first, *words = rng.choice(inputs).split(b"\n")
    if not words or rng.random() < 0.3:
        return mutated(inputs, rng)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(-1, len(words))
        if at < 0:
            first = _renamed(first, rng)
        else:
            key, equals, value = words[at].partition(b"=")
            words[at] = key + equals + rng.choice(_OF_VALUES)(value, rng)
    return b"\n".join([first, *words])[:LENGTH_MAXIMUM]


def _changed(value: Any, rng: random.Random) -> Any:
    """``value`` with a value in it dropped, doubled, in the place of another, or made another."""
    if not isinstance(value, list | dict) or not value or rng.random() < 0.02:
        return _other(value, rng)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, changed = rng.choice(keys), value.copy()
    way = rng.randrange(8)
    if way == 0:
        del changed[key]
    elif way == 1:
        changed[key] = value[rng.choice(keys)]
    elif way == 2 and isinstance(changed, list):
        changed.insert(rng.choice(keys), value[key])
    else:
        changed[key] = _changed(value[key], rng)
    return changed


def _other(value: Any, rng: random.Random) -> Any:
    """A number or a word, as JSON has it or as text; or what text is with another number in it."""
    word = rng.choice((*NUMBERS, *WORDS))
    if isinstance(value, str) and rng.random() < 0.5:
        return _NUMBER.sub(lambda place: word.encode(), value.encode(), count=1).decode()
    try:
        return json.loads(word, parse_constant=str)
    except ValueError:
        return word


def _place(data: Data, rng: random.Random) -> int:
    return rng.randint(0, len(data))


def _slice(data: Data, rng: random.Random) -> tuple[int, int]:
    begin = _place(data, rng)
    return begin, min(len(data), begin + rng.choice((1, 2, 4, 16, 64, 1_000)))


def _flip(data: Data, rng: random.Random) -> Data:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _any_byte(data: Data, rng: random.Random) -> Data:
    at = _place(data, rng)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + rng.randint(0, 1) :]


def _inserted(choices: Sequence[Data]) -> Mutation:
    def insert(data: Data, rng: random.Random) -> Data:
        at = _place(data, rng)
        return data[:at] + rng.choice(choices) + data[at:]

    return insert


def _without(data: Data, rng: random.Random) -> Data:
    begin, end = _slice(data, rng)
    return data[:begin] + data[end:]


def _twice(data: Data, rng: random.Random) -> Data:
    begin, end = _slice(data, rng)
    return data[:end] + data[begin:end] * rng.choice((1, 2, 100)) + data[end:]


def _cut(data: Data, rng: random.Random) -> Data:
    return data[: _place(data, rng)]


def _replaced(pattern: re.Pattern[Data], choices: Sequence[Data]) -> Mutation:
    def replace(data: Data, rng: random.Random) -> Data:
        places = list(pattern.finditer(data))
        if not places:
            return data
        place = rng.choice(places)
        return data[: place.start()] + rng.choice(choices) + data[place.end() :]

    return replace


def _renamed(data: Data, rng: random.Random) -> Data:
    places = list(_NAME.finditer(data))
    if not places:
        return data
    place = rng.choice(places)
    others = [name for names in NAMES if place[0].decode() in names for name in names]
    return data[: place.start()] + rng.choice(others).encode() + data[place.end() :]


def _swapped(data: Data, rng: random.Random) -> Data:
    places = list(_FIELD.finditer(data))
    if len(places) < 2:
        return data
    first, second = sorted(rng.sample(range(len(places)), 2))
    a, b = places[first], places[second]
    return data[: a.start()] + b[0] + data[a.end() : b.start()] + a[0] + data[b.end() :]


def _lines_mixed(data: Data, rng: random.Random) -> Data:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(
        [*lines[:at], *lines[at + 1 :], lines[at]] if rng.random() < 0.5 else lines[:at] + lines[at + 1 :]
    )


def _nested(data: Data, rng: random.Random) -> Data:
    (left, right), depth = rng.choice(_PAIRS), rng.choice(_DEPTHS)
    begin, end = _slice(data, rng)
    return data[:begin] + left * depth + data[begin:end] + right * depth + data[end:]


def _packed(data: Data, rng: random.Random) -> Data:
    return gzip.compress(data, 1, mtime=0)


def _unpacked(data: Data, rng: random.Random) -> Data:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return data


def _spliced(data: Data, other: Data, rng: random.Random) -> Data:
    return data[: _place(data, rng)] + other[_place(other, rng) :]


_OF_VALUES: tuple[Mutation, ...] = (
    _replaced(_NUMBER, [number.encode() for number in NUMBERS]),
    lambda data, rng: rng.choice(NUMBERS).encode(),
    lambda data, rng: rng.choice(WORDS).encode(),
    _renamed,
)
MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _any_byte, _without, _twice, _cut, _swapped, _renamed, _lines_mixed, _nested, _packed, _unpacked),
    _inserted(BYTES),
    _inserted([word.encode() for word in (*NUMBERS, *WORDS)]),
    *[_replaced(_NUMBER, [number.encode() for number in NUMBERS])] * 3,
    *[_replaced(_FIELD, [word.encode() for word in (*NUMBERS, *WORDS)])] * 3,
)
