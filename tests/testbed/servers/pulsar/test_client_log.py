"""Downtimes from the log of Pulsar's client: lines as 3.13 writes them."""

from testbed.servers.pulsar.client_log import Downtime, downtimes

A, B = "persistent://t/a/t", "persistent://t/b/t"
MS = 1_000_000


def line(at: str, text: str) -> str:
    return f"2025-11-25 15:30:{at} INFO  [140] File:1 | {text}\n"


def closed(at: str, number: int, role: str = "producer") -> str:
    return line(at, f"[1 -> 2] Broker notification of Closed {role}: {number}, assignedBrokerUrl: pulsar://2:6650")


def made(at: str, topic: str, role: str = "producer") -> str:
    return line(at, f"[{topic}, clients1.0] Created {role} on broker [1 -> 2] ")


def lost(at: str, topic: str, others: str = ", clients1.0") -> str:
    return line(at, f"[{topic}{others}] Schedule reconnection in 0.1 s")


def spans_ms(log: str) -> list[tuple[str, str, float | None]]:
    return [
        (span.topic, span.role, None if span.end_ns is None else (span.end_ns - span.begin_ns) / MS)
        for span in downtimes(log, {"producer": [A, B], "consumer": [A, B, A]})
    ]


def test_a_client_is_cut_off_from_closed_to_made() -> None:
    log = made("00.100", A) + made("00.200", B) + closed("01.000", 1) + closed("01.010", 0) + made("01.052", A)
    assert spans_ms(log + made("01.300", B)) == [(B, "producer", 300), (A, "producer", 42)]


def test_one_that_is_closed_again_was_not_back_and_one_that_never_came_back_has_no_end() -> None:
    log = closed("01.000", 0) + closed("01.500", 0) + made("02.000", A) + closed("03.000", 0)
    assert spans_ms(log) == [(A, "producer", 1000), (A, "producer", None)]


def test_roles_are_told_apart() -> None:
    log = closed("01.000", 0, "consumer") + made("01.100", A) + made("01.200", A, "consumer")
    assert spans_ms(log) == [(A, "consumer", 200)]
    again = closed("02.000", 2, "consumer") + made("02.100", A, "consumer")
    assert spans_ms(log + again)[1:] == [(A, "consumer", 100)], "the third that was made is of A again"


def test_a_broker_that_says_no_word_is_missed_by_its_clients() -> None:
    log = made("00.100", A) + made("00.200", A, "consumer") + lost("01.000", A) + lost("01.010", A, ", clients1, 0")
    log += lost("01.500", A) + made("02.000", A) + lost("02.500", B) + made("03.000", B)
    assert spans_ms(log) == [(A, "producer", 1000), (A, "consumer", None)], "B had none to lose"
    told = made("00.100", A) + closed("01.000", 0) + lost("01.001", A) + made("01.100", A)
    assert spans_ms(told) == [(A, "producer", 100)], "the broker's word came first"


def test_who_never_came_back_was_away_at_least_until_the_end() -> None:
    assert Downtime(A, "producer", 5 * MS, None).span_ns(9 * MS) == 4 * MS
    assert Downtime(A, "producer", 5 * MS, 7 * MS).span_ns(9 * MS) == 2 * MS
