"""Claims on sliding logs, data sets C and D, and the outlook: published tables bear them out, spoiled ones do not."""

from typing import Any

import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.container import BarContainer

from analysis.verdicts import Judgement, judge, t_interval
from paper_figs.crdt import ablations, fig5_15, fig5_16, outlook
from paper_figs.crdt.data_set_c import slopes, while_they_come
from paper_figs.crdt.grids import C_SMALLER
from paper_figs.crdt.published import C_USERS
from paper_figs.crdt.variants import COUNTER, FL, LOG, QUEUE
from paper_figs.series import case_of
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    ends_of,
    parametrised,
    repeated,
    reversed_over,
    scaled,
    swapped,
)

ONCE = [0.0, 1.0, 2.0, 3.0, 4.0]  # repetitions


def on(name: str, change: Any, *arguments: Any, **where: Any) -> Any:
    """A perturbation of the one table called ``name``."""
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


# --- Figs. 4.1, 4.2 ---------------------------------------------------------------------------------


def saturated() -> pd.DataFrame:
    """By hand: both four at once, then one a second, or four every four seconds; 400 requests a second are offered."""
    seconds = [0, 0, 0, 0, *range(1, 17)]
    bursts = [4 * k for k in range(5) for _ in range(4)]
    rows = []
    for repetition in range(5):
        for system, at in (("crdt-queue", seconds), (LOG, bursts)):
            number = [400 * second + at[:n].count(second) for n, second in enumerate(at)]
            rows += [{"system": system, "repetition": repetition, "request_id": request, "at_s": float(second)}
                     for request, second in zip(number, at, strict=True)]  # fmt: skip
    return pd.DataFrame(rows)


def log_tables() -> Frames:
    bursts = [{"system": system, "burst": burst, "rejected_count": burst if system == LOG else 0}
              for system in (LOG, "crdt-queue") for burst in range(1, 9)]  # fmt: skip
    sent = [{"system": system, "data_set": name, "sent_bytes": value}
            for name in ("B-barely", "B-substantial")
            for system, value in ((LOG, 8e4), ("crdt-queue", 1e5))]  # fmt: skip
    return {
        "crdt-fig4.1/admitted": saturated(),
        "crdt-fig4.2/bursts": repeated(bursts, (), noise=0.0),
        "crdt-fig4.2/sent": repeated(sent, ("sent_bytes",)),
    }


def without_the_last(table: pd.DataFrame) -> pd.DataFrame:
    """The log admits one request fewer."""
    return table[~((table.system == LOG) & (table.request_id == table.request_id.max()))]


def the_same(table: pd.DataFrame) -> pd.DataFrame:
    """The log admits what the bucket admits."""
    bucket = table[table.system == "crdt-queue"]
    return pd.concat([bucket, bucket.assign(system=LOG)])


# --- Figs. 5.13, 5.14 -------------------------------------------------------------------------------


def usage_tables() -> Frames:
    rows = [{"variant": COUNTER, "state_byte_seconds": 1e6, "sent_bytes": 1e6},
            {"variant": FL, "state_byte_seconds": 0.136e6, "sent_bytes": 1.000025e6}]  # fmt: skip
    return {"crdt-fig5.13/runs": repeated(rows, ("state_byte_seconds", "sent_bytes"))}


def user_tables() -> Frames:
    users = pd.DataFrame([
        {"variant": variant, "repetition": repetition, "t_s": float(t), "user_count": min(t, 80),
         "state_bytes": bytes_each * min(t, 80) + 10 * ((7 * t + repetition) % 5)}
        for variant, bytes_each in ((COUNTER, 500.0), (FL, 50.0)) for repetition in range(5) for t in range(100)
    ])  # fmt: skip
    return {"crdt-fig5.14/runs": slopes(users)}


# --- Figs. 5.15, 5.16, outlook ----------------------------------------------------------------------


def d_tables() -> Frames:
    values = {300: (8.0, 37.0), 450: (6.0, 50.0), 900: (0.0, 100.0)}
    rows = [{"mode": fig5_15.PLAIN, "gossip_ms": at, "rejected_count": count, "first_s": first}
            for at, (count, first) in values.items()]  # fmt: skip
    return {"crdt-fig5.15/by_repetition": repeated(rows, ("rejected_count", "first_s"))}


def spread_tables() -> Frames:
    """Doubling in every round."""
    points = [(300, 300.0 * k, 2.0**k) for k in range(1, 5)] + [(450, 900.0, 4.0), (900, 900.0, 2.0)]
    rows = [{"mode": fig5_16.ALIGNED, "nodes": 30, "gossip_ms": gossip_ms, "lag_ms": lag_ms, "known_count": known,
             "known_share": known / 30} for gossip_ms, lag_ms, known in points]  # fmt: skip
    rows += [{"mode": fig5_16.RANDOM, "nodes": nodes, "gossip_ms": 300, "lag_ms": 900.0, "known_count": 8.0,
              "known_share": 8 / nodes} for nodes in (8, 15, 30)]  # fmt: skip
    chain = [{"life_ms": 1_290.0, "rejected_count": 1.0}, {"life_ms": 1_300.0, "rejected_count": 0.0}]
    return {
        "crdt-fig5.16/spread": repeated(rows, ("known_count", "known_share"), noise=0.005),
        "crdt-fig5.16/chain": repeated(chain, (), noise=0.0),
    }


def outlook_tables() -> Frames:
    hops = [{"delay_ms": delay_ms, "node": f"n{n}", "missed_count": missed}
            for delay_ms, counts in ((0, (0, 0, 0, 0)), (250, (1, 2, 1, 1)))
            for n, missed in enumerate(counts)]  # fmt: skip
    delays = [{"variant": variant, "delay_ms": delay_ms, "rejected_count": count}
              for variant, counts in ((COUNTER, (8.0, 7.0)), (QUEUE, (7.0, 1.0)))
              for delay_ms, count in zip((0, 600), counts, strict=True)]  # fmt: skip
    admitted = {COUNTER: (2.0, 4.0, 2.0), FL: (2.0, 20.0, 2.5)}
    rejoin = [{"variant": variant, "fate": fate, "admitted_count": count}
              for variant, counts in admitted.items()
              for fate, count in zip(outlook.FAULTS, counts, strict=True)]  # fmt: skip
    return {
        **spread_tables(),
        "crdt-outlook/hops": repeated(hops, (), noise=0.0),
        "crdt-outlook/delays": repeated(delays, ("rejected_count",)),
        "crdt-outlook/rejoin": repeated(rejoin, ("admitted_count",)),
    }


CASES = [
    Case("T23", log_tables, {
        "the log admits fewer": on("crdt-fig4.1/admitted", without_the_last),
        "the same requests": on("crdt-fig4.1/admitted", the_same),
        "roles swapped in bursts": on("crdt-fig4.2/bursts", swapped, "system", LOG, "crdt-queue"),
        "no more rejections later": on("crdt-fig4.2/bursts", scaled, "rejected_count", 1 / 8, burst=8),
    }),
    Case("T24", log_tables, {
        "the log sends more": on("crdt-fig4.2/sent", scaled, "sent_bytes", 2.0, system=LOG),
        "in one data set": on("crdt-fig4.2/sent", scaled, "sent_bytes", 2.0, system=LOG, data_set="B-barely"),
    }),
    Case("T18", usage_tables, {
        "more memory than the counter": on("crdt-fig5.13/runs", scaled, "state_byte_seconds", 10.0, variant=FL),
        "bandwidth four times": on("crdt-fig5.13/runs", scaled, "sent_bytes", 4.0, variant=FL),
    }, published=Judgement.DIRECTION_ONLY),
    Case("T27", user_tables, {
        "a user costs the queue more": on("crdt-fig5.14/runs", scaled, "bytes_each", 20.0, variant=FL),
        "memory falls with users": on("crdt-fig5.14/runs", scaled, "correlation", -1.0, variant=COUNTER),
    }, published=Judgement.DIRECTION_ONLY),
    Case("T19", d_tables, {
        "shorter intervals later": on("crdt-fig5.15/by_repetition", reversed_over, "gossip_ms"),
        "no difference": on("crdt-fig5.15/by_repetition", scaled, "first_s", 50 / 37, gossip_ms=300),
    }),
    Case("T20", spread_tables, {
        "half as many know": on("crdt-fig5.16/spread", scaled, "known_share", 0.5, mode=fig5_16.ALIGNED),
        "one interval off": on("crdt-fig5.16/spread", scaled, "known_share", 1.5, gossip_ms=900),
        "intervals reversed": on("crdt-fig5.16/spread", reversed_over, "gossip_ms"),
    }),
    Case("T21", spread_tables, {
        "a fourth round of no use": on("crdt-fig5.16/spread", scaled, "known_count", 0.5, lag_ms=1_200.0),
        "dead too early": on("crdt-fig5.16/chain", scaled, "rejected_count", 0.0, life_ms=1_290.0),
        "adds five instead of eight": on("crdt-fig5.16/spread", scaled, "known_count", 13 / 16, lag_ms=1_200.0),
    }),
    Case("T22", outlook_tables, {
        "more nodes, more collisions": on("crdt-fig5.16/spread", reversed_over, "nodes"),
        "delay hurts the counter more": on("crdt-outlook/delays", swapped, "variant", COUNTER, QUEUE),
        "the counter catches up later": on("crdt-outlook/rejoin", swapped, "variant", COUNTER, FL),
        "copying does not help": on("crdt-outlook/rejoin", scaled, "admitted_count", 8.5, variant=FL,
                                    fate=outlook.COPY),
    }),
    Case("T26", outlook_tables, {
        "four rounds": on("crdt-outlook/hops", scaled, "missed_count", 2.0, delay_ms=250),
        "none": on("crdt-outlook/hops", scaled, "missed_count", 0.0, delay_ms=250),
    }),
]  # fmt: skip


def test_of_a_node_that_is_never_told_nobody_says_what_it_missed() -> None:
    found = outlook_tables()
    hops = found["crdt-outlook/hops"]
    found["crdt-outlook/hops"] = hops.drop(index=hops[(hops.delay_ms == 250) & (hops.node == "n3")].index[0])
    result = judge(claim_called("T26"), found)
    assert result.judgement is Judgement.UNDECIDED and "a node that was told" in result.problem


def test_shares_of_rounds_missed_have_the_intervals_of_their_runs() -> None:
    tables = {name.partition("/")[2]: frame for name, frame in outlook_tables().items() if "outlook" in name}
    hops = tables["hops"][tables["hops"].repetition < 3]
    odd = (hops.repetition == 0) & (hops.delay_ms == 250)
    drawing = outlook.draw({**tables, "hops": hops.assign(missed_count=hops.missed_count.mask(odd, 1))})
    shown = t_interval([100.0, 75.0, 75.0]), t_interval([0.0, 25.0, 25.0])
    ends = ends_of(drawing.axes[0])
    heights = [
        bar.get_height() for bars in drawing.axes[0].containers if isinstance(bars, BarContainer) for bar in bars
    ]
    assert heights == pytest.approx([100, 0, 0, 0, 0, shown[0].mean, shown[1].mean, 0])
    assert (0.0, 100.0) in ends, "no share is below 0 or above 100 %"
    pyplot.close(drawing)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "name"), parametrised(CASES))
def test_spoiled_tables(case: Case, name: str) -> None:
    check_spoiled(case, name)


# --- tables -----------------------------------------------------------------------------------------


def test_slopes_are_those_of_the_time_in_which_users_come() -> None:
    users = pd.DataFrame({"variant": COUNTER, "repetition": 0, "t_s": [0.0, 1, 2, 3, 4], "user_count": [1, 2, 3, 4, 4],
                          "state_bytes": [100.0, 200, 300, 400, 0]})  # fmt: skip
    assert while_they_come(users).t_s.max() == 3
    (row,) = slopes(users).to_dict("records")
    assert row["bytes_each"] == pytest.approx(100) and row["correlation"] == pytest.approx(1)


def test_a_run_that_rejects_nothing_counts_as_if_it_did_at_the_end() -> None:
    values = {"silent_share": 0, "false_admit_count": 0, "false_reject_count": 0, "excess_tokens": 0.0,
              "memory_bytes": 1.0, "sent_bytes": 1.0}  # fmt: skip
    rows = [{"mode": fig5_15.PLAIN, "gossip_ms": 300, "repetition": 0, "first_s": first, "rejected_count": count,
             **values} for first, count in ((40.0, 6), (float("nan"), 0))]  # fmt: skip
    (row,) = fig5_15.by_draws(pd.DataFrame(rows)).to_dict("records")
    assert (row["first_s"], row["rejected_count"], row["silent_share"], row["draw_count"]) == (70.0, 3.0, 0.5, 2)


def test_modes_of_rounds() -> None:
    assert [
        case_of({"phase": phase, "choice": choice}, fig5_16.MODES)
        for phase, choice in ((None, None), ("aligned", None), ("aligned", "all"))
    ] == list(fig5_16.MODES)


@pytest.mark.parametrize(("hop_ms", "missed"), [(0, 0), (200, 0), (250, 1), (375, 1), (450, 2)])
def test_rounds_missed_are_a_nodes_own_rounds_before_it_passes_an_element_on(hop_ms: float, missed: int) -> None:
    known = pd.DataFrame([{"repetition": 0, "delay": "250ms", "node": f"n{n}", "knows_ms": 100.0 + hop_ms * n}
                          for n in range(1, outlook.LINE + 1)])  # fmt: skip
    found = outlook.hops(known)
    assert list(found.missed_count) == [missed] * (outlook.LINE - 2) and set(found.delay_ms) == {250}


@pytest.mark.parametrize("delay_ms", [0, 100, 250, 600])
def test_they_are_those_while_the_message_was_under_way(delay_ms: int) -> None:
    for wait_ms in range(5, outlook.DELAYED_GOSSIP_MS, 10):  # from a node's being told, at 0, to its next round
        rounds_ms = [wait_ms - outlook.DELAYED_GOSSIP_MS * n for n in range(10)]
        missed = sum(-delay_ms < round_ms <= 0 for round_ms in rounds_ms)
        known = pd.DataFrame([{"repetition": 0, "delay": f"{delay_ms}ms", "node": f"n{n}",
                               "knows_ms": float(wait_ms + delay_ms) * n} for n in range(1, 4)])  # fmt: skip
        assert set(outlook.hops(known).missed_count) == {missed}, wait_ms


def test_every_switch_is_an_option_of_its_system_and_found_again_in_its_run() -> None:
    from core.registry import configure
    from systems.limiting import crdt_counter, crdt_queue

    sound = {name: None for name in ablations.FACTORS} | {"choice": "pending"}
    for place, switch in enumerate(ablations.SWITCHES):
        system = crdt_counter.SYSTEM if switch.base == COUNTER else crdt_queue.SYSTEM
        config = configure(system.key, system.config, dict(switch.options))
        default = system.config()
        assert all(getattr(config, name) != getattr(default, name) for name in switch.options)
        run = {**sound, **dict(switch.options), "variant": switch.base, "load": switch.load}
        assert case_of(run, ablations.ROWS) == place
        assert case_of({**sound, "variant": switch.base, "load": switch.load}, ablations.ROWS) == -1


def test_the_smaller_sets_have_the_traffic_of_the_full_one_for_each_user() -> None:
    for options in C_SMALLER.values():
        assert int(options["requests"]) / int(options["users"]) == 500_000 / C_USERS
