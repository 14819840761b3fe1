"""Is what a run says of itself so?  Its tables and manifest against what others have seen: a sentence for each lie."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as parquet

from core.clients import Joined, Role
from core.records import Json
from core.units import MILLISECOND_NS, SECOND_NS, duration_ns
from harness.nemesis.disturber import NOT_THERE, Strike
from harness.nemesis.fates import Fates, clients_fates, limiter_fates, topic_fates
from harness.nemesis.schedule import ClockStep, Kill, words_of
from studies import load_study
from studies.api import Point
from studies.distribution.asked import TRIALS_MAXIMUM
from testbed.trust.evidence import INVALID
from workloads.api import Offer

MARGIN_NS = 20 * MILLISECOND_NS  # by which the ends of the load and of a freeze may be known wrongly
_FATES = ("not_sent", "unacknowledged", "undelivered", "delivered", "duplicated")
_OWN_AGENTS = ("node", "broker", "publish", "subscribe", "users")  # a run may name the node or host instead


def counted(point: Point, kept: Path, judge_at_ns: int) -> Fates:
    """The fates of what a spec offers; ``judge_at_ns``: where the judged round of a topic begins."""
    spec, offer = point.spec, load_study(point.spec.study).offer
    if offer is Offer.MESSAGES:
        load_ns = duration_ns(spec.round)
        return topic_fates(kept, point.schedule.block(judge_at_ns, judge_at_ns + load_ns).message_count)
    if offer is Offer.REQUESTS:
        return limiter_fates(kept, _requested(point))
    return _all_born(clients_fates(kept), point, duration_ns(str(spec.study_options["duration"])))


def _all_born(fates: Fates, point: Point, load_ns: int) -> Fates:
    """Told as strange where producers, each from the start to the end, have not as many messages as their rates say."""
    due, doubt = _produced(point, load_ns)
    if abs(due - fates.offered) <= doubt:
        return fates
    return fates._replace(strange=(*fates.strange, f"{due} messages were due, clients know of {fates.offered}"))


def _produced(point: Point, load_ns: int) -> tuple[int, int]:
    """Messages of producers by their rates, and how many more or fewer there may be."""
    rates_rps = {topic.name: topic.rate_rps for topic in point.schedule.topics}
    joined = [change for change in point.schedule.happenings(load_ns) if isinstance(change, Joined)]
    producing = [rates_rps[change.topic] for change in joined if change.role is Role.PRODUCER]
    return round(sum(producing) * load_ns / SECOND_NS), len(producing)  # each begins within its first period


def account_wrong(point: Point, folder: Path, numbers: Json) -> list[str]:
    """Where a run's account is not of all that its spec offers.  For runs whose actors' own files are not kept."""
    spec, offer, doubt = point.spec, load_study(point.spec.study).offer, 0
    fates = {name: int(numbers.get(f"{name}_count", 0)) for name in _FATES}
    told, summed = int(numbers.get("offered_count", 0)), sum(fates.values())
    if offer is Offer.MESSAGES:
        load_ns = duration_ns(spec.round)
        judge_at_ns = TRIALS_MAXIMUM * load_ns
        due = point.schedule.block(judge_at_ns, judge_at_ns + load_ns).message_count
    elif offer is Offer.REQUESTS:
        due = len(_requested(point))
        told = summed = parquet.read_table(folder / "requests.parquet", columns=["decision"]).num_rows
    else:
        due, doubt = _produced(point, duration_ns(str(spec.study_options["duration"])))
    problems = [f"{due} were due, the run says that {told} were offered"] if abs(told - due) > doubt else []
    return problems + ([f"the run's fates sum to {summed}, offered were {told}"] if summed != told else [])


def _requested(point: Point) -> list[int]:
    until_ns = duration_ns(str(point.spec.study_options["duration"]))
    load = point.schedule.requests(point.topology.node_names(), until_ns)
    return [request.id for of in load.values() for request in of if request.at_ns <= until_ns]


def told_wrong(study: str, folder: Path, numbers: Json, fates: Fates) -> list[str]:
    """Where the run's own tables, or the ``fidelity`` of its manifest, say something else."""
    offer = load_study(study).offer
    told: dict[str, float] = {name.removesuffix("_count"): value for name, value in numbers.items()}
    mine: dict[str, int] = {"offered": fates.offered, **fates.counts}
    if offer is Offer.REQUESTS:
        rows = parquet.read_table(folder / "requests.parquet", columns=["decision"])["decision"].to_pylist()
        told = {"offered": len(rows), **Counter(rows)}
        mine = {
            "offered": fates.offered,
            "lost": fates.counts["not_sent"] + fates.counts["no_verdict"],
            "decided": fates.counts["admit"] + fates.counts["reject"] + fates.counts["verdict_lost"],
        }
        told["decided"] = told.get("admit", 0) + told.get("reject", 0)
    elif offer is Offer.CLIENTS:
        came = fates.counts["had"] + fates.counts["acknowledged"]
        mine = {name: mine[name] for name in ("offered", "not_sent", "unacknowledged")} | {"came": came}
        told["came"] = sum(told.get(name, 0) for name in ("undelivered", "delivered", "duplicated"))
    else:
        mine |= _rows_of(folder, fates)
        told |= _rows_told(folder)
    return [
        f"{name}: the run says {told.get(name, 0):g}, counted were {count}"
        for name, count in mine.items()
        if told.get(name, 0) != count
    ]


def _rows_of(folder: Path, fates: Fates) -> dict[str, int]:
    came = fates.counts["delivered"] + fates.counts["duplicated"]
    return {"rows of messages": fates.offered, "rows received": came}


def _rows_told(folder: Path) -> dict[str, int]:
    table = parquet.read_table(folder / "messages.parquet", columns=["received_at_ns"])["received_at_ns"]
    return {"rows of messages": len(table), "rows received": len(table) - table.null_count}


def unnamed(strikes: Iterable[Strike], reasons: Sequence[str], load_ns: tuple[int, int], scale_ns: int) -> list[str]:
    """Who was disturbed while the load went on, for longer than the result's scale, and is not named.

    ``load_ns``: from and until, CLOCK_REALTIME.
    """
    silent = []
    for strike in strikes:
        if strike.why_not:
            continue
        begin_ns, end_ns = load_ns
        if isinstance(strike.trouble, ClockStep):
            within = begin_ns <= strike.begin_ns < end_ns and abs(strike.trouble.by_ns) > scale_ns
            if within and not any("the clock was set" in reason for reason in reasons):
                silent.append("a step of the clock is not named")
            continue
        if isinstance(strike.trouble, Kill):
            matters = begin_ns <= strike.begin_ns < end_ns
        else:
            until_ns = end_ns if strike.end_ns is None else min(end_ns, strike.end_ns)
            matters = until_ns - max(begin_ns, strike.begin_ns) > scale_ns + MARGIN_NS
        if matters and not is_named(strike.trouble.process, reasons):
            silent.append(f"{type(strike.trouble).__name__.lower()} of {strike.trouble.process} is not named")
    return silent


def missed(strikes: Sequence[Strike], faults: Sequence[Json], load_ns: int, has_result: bool) -> list[str]:
    """Who should have been disturbed and was not, and no earlier strike, and no fault of the spec, is the reason.

    After the load, and in a run that ends with an error, processes go without us; a name that nobody ever had is told.
    """
    told = []
    for strike in strikes:
        at_ns = strike.trouble.at_ns if strike.tried_ns is None else strike.tried_ns
        matters = strike.why_not == NOT_THERE or (strike.why_not and has_result and at_ns < load_ns)
        if matters and not _was_ended(strike, strikes, faults):
            told.append(f"not done: {words_of(strike.trouble)}: {strike.why_not}")
    return told


def _was_ended(late: Strike, strikes: Sequence[Strike], faults: Sequence[Json]) -> bool:
    """Whether we had killed it by then, or a crash of its node had."""
    if late.tried_ns is None or isinstance(late.trouble, ClockStep):
        return False
    process, at_ns = late.trouble.process, late.tried_ns
    whose = process.partition("-")[2]
    killed = [
        strike for strike in strikes
        if isinstance(strike.trouble, Kill) and strike.trouble.process == process and not strike.why_not
    ]  # fmt: skip
    crashed = [
        row for row in faults
        if row["kind"] == "crash" and duration_ns(str(row["at"])) <= at_ns
        and (whose == row["node"] or whose.startswith(f"{row['node']}-"))  # as of serf-broker1-agent
    ]  # fmt: skip
    return bool(crashed) or any(strike.tried_ns is None or strike.tried_ns <= at_ns for strike in killed)


def unbelieved(strikes: Iterable[Strike], validity: str, load_ns: tuple[int, int]) -> list[str]:
    """Who was killed while the load went on, untold, in a run that is not invalid."""
    return [
        f"{strike.trouble.process} was killed, and the run is {validity}"
        for strike in strikes
        if isinstance(strike.trouble, Kill) and not strike.why_not and load_ns[0] <= strike.begin_ns < load_ns[1]
        and validity != INVALID
    ]  # fmt: skip


def is_named(process: str, sentences: Iterable[str]) -> bool:
    """Whether a process is in one of the sentences; of our own agents their node or host will do."""
    kind, _, whose = process.partition("-")
    names = [process, *([whose] if kind in _OWN_AGENTS else [])]
    words = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])")
    return any(words.search(sentence) for sentence in sentences)
