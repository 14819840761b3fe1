"""What an answer says: sentences and rows for people, a document for machines."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import astuple
from math import isfinite

from analysis.advice import Choice, Relation, Turn
from analysis.verdicts import Interval
from core.records import Json
from core.units import SECOND_NS
from harness.experiment import RunSpec
from ratebed.advising.answer import MARGIN, MEASURES, Advice, Judged, JudgedLimiter
from ratebed.advising.grid import LEFT_OUT
from ratebed.advising.question import ANYWHERE, HOME, Question
from ratebed.rows import columns
from workloads.service_requests import AS_LOGGED

BEST = "BEST"
HEAD = ("limiter", "settings", "over-admitted %", "wrongly rejected %", "bytes a request", "wait, ms", "")
_COMES = {
    ANYWHERE: "each request comes to any node",
    HOME: "each user asks one node",
    AS_LOGGED: "requests come to the nodes that the log names",
}


def is_decided(advice: Advice) -> bool:
    """Whether one limiter is recommended."""
    return bool(advice.base.ranking.best)


def headline(advice: Advice) -> str:
    """The answer in a sentence or two."""
    limit, ranking = advice.base.condition.limit.text, advice.base.ranking
    if ranking.answer is Choice.UNFIT:
        return f"The log cannot decide: {advice.question.judging} requests are too few to judge by."
    if ranking.answer is Choice.TIE:
        exact = f"an exact limiter rejects {_percent(advice.base.rejected_share)} % of its requests"
        return f"The log cannot decide at {limit}: nobody is near the limit ({exact}), and no limiter is surely worse."
    if ranking.answer is Choice.OPEN:
        lost = "the difference is lost in the intervals: more seeds may tell (--repetitions)"
        return f"The log cannot decide at {limit} between {listed(ranking.names)}: {lost}."
    if ranking.answer is Choice.EQUAL_COST:
        return f"The log cannot decide at {limit} between {listed(ranking.names)}: they err, send and wait alike."
    best = advice.base.outcome(ranking.best)
    said = f"{ranking.best} at {limit}{_with(best)}: {_reason(advice.base, best)}"
    wait = best.interval("p99_ms").mean
    return said + (f" Who asks it waits up to {_number(wait)} ms (99th percentile)." if wait >= 1 else "")


def _reason(judged: Judged, best: JudgedLimiter) -> str:
    good = [each.name for each in judged.ranking.standings if each.relation in (Relation.LEADER, Relation.AS_GOOD)]
    others = [name for name in good if name != best.setting.name]
    if not others:
        return "it errs least."
    return f"{listed(good)} err alike, within {_percent(MARGIN)} % of the requests, and of these it costs least."


def _with(outcome: JudgedLimiter) -> str:
    return f" with {_settings(outcome)}" if _settings(outcome) else ""


def _settings(outcome: JudgedLimiter) -> str:
    """The limiter's options as a user sets them, but for the limit itself."""
    options = outcome.spec.system_options.items()
    return ", ".join(f"{name}={_plain(value)}" for name, value in options if name not in ("capacity", "rate"))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- what was asked ------------------------------------------------------------------------------


def about(advice: Advice) -> list[str]:
    """What was looked at, and how it is judged."""
    asked = advice.question
    cities = [name.strip() for name in asked.asked.places.split(",")][: asked.nodes]
    which = f"from {asked.asked.start} on" if asked.asked.start else "the busiest"
    part = "all" if asked.requests == asked.log_requests else f"{asked.requests:,} ({which})"
    said = [
        f"{part} of {asked.log_requests:,} requests of {asked.users:,} users in {2 * asked.half_ns / SECOND_NS:g} s "
        "run: the first half tunes, the second judges",
        f"{asked.nodes} nodes in {', '.join(cities)}; {_COMES[asked.arrivals]}",
        f"columns: {', '.join(f'{role}={name}' for role, name in asked.columns.items())}",
        *asked.notes,
        _limits(asked),
        *(f"{each.factor} {each.value}: nobody sends and waits so little there" for each in advice.unmet),
        objective(advice),
        f"intervals: 95 %, {advice.repetitions} seeds: how requests come to nodes and what the network does, not "
        "what other days bring",
    ]
    return said


def _limits(asked: Question) -> str:
    first, *others = asked.limits
    share = f"an exact limiter rejects {_percent(first.rejected_share)} % of the part"
    if asked.asked.limit:
        return f"limit: {first.text} ({share})"
    tried = ", ".join(limit.text for limit in sorted(asked.limits, key=lambda each: each.count))
    typical = f"around the {asked.typical} that the user of a typical request asks for in its busiest such period"
    return f"limits: {tried}, {typical}; judged in full at {first.text} ({share}, the nearest to 5)" if others else (
        f"limit: {first.text}, what the user of a typical request asks for in its busiest such period ({share})"
    )  # fmt: skip


def objective(advice: Advice) -> str:
    """By what limiters are judged."""
    budget = advice.budgets[advice.base.condition.limit]
    return (
        "objective: least of the larger error, over-admission or false rejection, in % of the requests, at equal "
        f"bytes: the best setting of each that sends at most {_number(budget)} bytes a request; errors within "
        f"{_percent(MARGIN)} % count as equal, then bytes decide, then the wait"
    )


# --- rows ----------------------------------------------------------------------------------------


def rows(judged: Judged) -> list[tuple[str, ...]]:
    """A row a limiter as ``HEAD`` says, best first; those that are not ranked last."""
    remark = {standing.name: standing.relation.value for standing in judged.ranking.standings}
    remark |= {judged.ranking.best: BEST} if judged.ranking.best else {}
    table: list[tuple[str, ...]] = []
    for each in sorted(judged.outcomes, key=_order(judged)):
        name = each.setting.name
        percents = (spread(each.interval(measure), 100.0) for measure in MEASURES[:2])
        others = (spread(each.interval(measure)) for measure in MEASURES[2:])
        table.append((name, _settings(each), *percents, *others, remark.get(name, each.refused)))
    return table + [(name, "", "", "", "", "", "cannot work here") for name in judged.absent]


def order_of(judged: Judged) -> list[str]:
    """The limiters as they stand in the table."""
    return [each.setting.name for each in sorted(judged.outcomes, key=_order(judged))]


def _order(judged: Judged) -> Callable[[JudgedLimiter], tuple[int, str]]:
    """The best, the others as ranked, the rest."""
    place = {standing.name: number for number, standing in enumerate(judged.ranking.standings, 1)}

    def key(outcome: JudgedLimiter) -> tuple[int, str]:
        name = outcome.setting.name
        return (0 if name == judged.ranking.best else place.get(name, len(place) + 1)), name

    return key


def turn_rows(advice: Advice) -> list[tuple[str, ...]]:
    """A row a condition: what it is, who is best there, with which error, and whether the answer turns."""
    table: list[tuple[str, ...]] = []
    for judged, its in advice.others:
        best = judged.ranking.best
        who = best or f"open: {listed(judged.ranking.names)}"
        if judged.ranking.answer is Choice.TIE:
            who = "all alike"
        error = _error(judged, best) if best else ""
        usual = _error(judged, advice.base.ranking.best) if its.turns else ""
        table.append((its.factor, its.value, who, error, usual, "TURNS" if its.turns else ""))
    return table


TURN_HEAD = ("factor", "value", "best", "larger error %", "of the answer %", "")


def _error(judged: Judged, name: str) -> str:
    standing = next((each for each in judged.ranking.standings if each.name == name), None)
    if standing is not None:
        return spread(standing.loss, 100.0)
    return "cannot work" if name in judged.absent else judged.outcome(name).refused


def turned(advice: Advice) -> str:
    """Where the ranking turns, in a sentence."""
    if not advice.others or not advice.base.ranking.best:
        return ""
    turning = [f"{its.factor} {its.value}" for _, its in advice.others if its.turns]
    return f"The answer turns with {listed(turning)}." if turning else "The answer does not turn with any of these."


def command(advice: Advice, out: str = "out") -> str:
    """What runs the recommended limiter, or the one that errs least, again."""
    name = advice.base.ranking.best or advice.base.ranking.standings[0].name
    return command_of(advice.base.outcome(name).spec, advice.repetitions, advice.seed, out)


def command_of(spec: RunSpec, repetitions: int, seed: int, out: str) -> str:
    """``ratebed run`` of one point with its seeds; axes are said that are not as usual."""
    words = ["ratebed", "run", "--system", spec.system, "--workload", spec.workload, "--topology", spec.topology]
    usual = RunSpec(system=spec.system, workload=spec.workload)
    for axis in ("slo", "round"):
        if getattr(spec, axis) != getattr(usual, axis):
            words += ["--set", f"{axis}={getattr(spec, axis)}"]
    words += ["--repetitions", str(repetitions), "--seed", str(seed)]
    words += ["--out", shlex.quote(out)] if out != "out" else []
    for axis in ("system", "workload", "topology", "study"):
        for name, value in getattr(spec, f"{axis}_options").items():
            words += ["--set", shlex.quote(f"{axis}.{name}={_typed(value)}")]
    return " ".join(words)


def _typed(value: object) -> str:
    """As ``--set`` reads it back: text that looks like a number is quoted."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return value
    return json.dumps(value)


def lines(advice: Advice, out: str) -> list[str]:
    """All of it, for a terminal."""
    said = [headline(advice), "", *columns(HEAD, rows(advice.base)), ""]
    if advice.others:
        said += [*columns(TURN_HEAD, turn_rows(advice)), "", turned(advice)]
    said += ["", *(f"  {line}" for line in about(advice)), f"  {LEFT_OUT}", ""]
    return [*said, f"again: {command(advice, out)}"]


# --- for machines --------------------------------------------------------------------------------


def document(advice: Advice, out: str) -> Json:
    """Every number that is shown; shares are of the requests, spans in ns, waits in ms."""
    asked = advice.question
    return {
        "answer": headline(advice),
        "decided": is_decided(advice),
        "best": advice.base.ranking.best or None,
        "objective": objective(advice),
        "log": {
            "path": asked.asked.path,
            "requests": asked.log_requests,
            "requests_run": asked.requests,
            "users": asked.users,
            "start_ns": asked.start_ns,
            "half_ns": asked.half_ns,
            "columns": dict(asked.columns),
            "notes": list(asked.notes),
            "arrivals": asked.arrivals,
            "nodes": asked.nodes,
            "cities": asked.asked.places,
        },
        "limits": [
            {"limit": limit.text, "count": limit.count, "period_ns": limit.period_ns,
             "exactly_rejected_share": limit.rejected_share, "bytes_a_request": advice.budgets[limit]}
            for limit in asked.limits
        ],
        "typical_count": asked.typical,
        "margin_share": MARGIN,
        "repetitions": advice.repetitions,
        "seed": advice.seed,
        "usual": _judged(advice.base),
        "others": [_judged(judged) | _turn(its) for judged, its in advice.others],
        "unmet": [{"factor": each.factor, "value": each.value} for each in advice.unmet],
        "turns": turned(advice),
        "command": command(advice, out),
    }  # fmt: skip


def _turn(its: Turn) -> Json:
    return {"factor": its.factor, "value": its.value, "turns": its.turns}


def _judged(judged: Judged) -> Json:
    more = {standing.name: standing for standing in judged.ranking.standings}
    return {
        "limit": judged.condition.limit.text,
        "answer": judged.ranking.answer.value,
        "names": list(judged.ranking.names),
        "exactly_rejected_share": judged.rejected_share,
        "cannot_work": list(judged.absent),
        "limiters": [
            {
                "name": each.setting.name,
                "system": each.spec.system,
                "settings": each.spec.system_options,
                "ranked": each.refused == "",
                "refused": each.refused,
                "relation": more[each.setting.name].relation.value if each.setting.name in more else None,
                "larger_error_share": interval_json(more[each.setting.name].loss)
                if each.setting.name in more
                else None,
                "more_than_leader_share": interval_json(more[each.setting.name].more)
                if each.setting.name in more
                else None,
                **{measure: interval_json(each.interval(measure)) for measure in MEASURES},
            }
            for each in sorted(judged.outcomes, key=_order(judged))
        ],
    }


def interval_json(interval: Interval) -> Json:
    """Mean, ends and count; null: the ends of a single value, and what is infinite."""
    *ends, count = astuple(interval)
    mean, low, high = (end if isfinite(end) else None for end in ends)
    return {"mean": mean, "low": low, "high": high, "count": count}


def spread(interval: Interval, factor: float = 1.0) -> str:
    """``1.2 ± 0.1``."""
    half = factor * (interval.high - interval.mean)
    around = f" ± {_number(half)}" if isfinite(half) else ""
    return f"{_number(factor * interval.mean)}{around}"


def _percent(share: float) -> str:
    return _number(100 * share)


def _number(value: float) -> str:
    """Three digits are enough: 1,120, 54.4, 0.13, 0."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")
