"""Advice for a trace: which distributor meets the objective on the fewest brokers.

The points are those of the figure ``srtm-trace``: LB, Conc, Max-Min and SRTM search on the trace, and what they found
is judged on the minute after their search.  Who does not place all, or whose 99th percentile is not surely within
1.05 x SLO, is not ranked.  Of the others the fewest brokers win; within half a broker, the shortest violation of the
SLO during the search, then the lowest percentile.

A trace is played round and round.  Where it starts over so soon that the minute that judges was in the search, nobody
is best: who fits itself to messages is not judged by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.advice import Candidate, Choice, Ranking, Turn, rank, turn
from analysis.verdicts import t_interval
from core.errors import SpecError
from core.records import Json
from core.units import MILLISECOND_NS, SECOND_NS, duration_ns, duration_text
from harness.code_version import id_of
from harness.experiment import ROUND, SCALES, RunSpec, repeated
from paper_figs import load_figure
from paper_figs.srtm.p99 import SLO_MARGIN, per_run
from paper_figs.srtm.trace import SYSTEMS, looks_like
from ratebed import interrupts
from ratebed.advising import words
from ratebed.advising.answer import run_all, stop_spark
from ratebed.advising.page import section_of, table_of, written
from ratebed.options import RunRequest
from ratebed.rows import columns as in_columns
from studies.distribution.asked import TRIALS_MAXIMUM
from systems.api import Outcome as SearchOutcome
from workloads import load as load_workload

if TYPE_CHECKING:
    import pandas as pd

    from workloads.trace import TraceSchedule

ULB, ULB_UNIT = "ulb-wsn", "ms"
UNIT = "s"  # of a CSV's instants
MARGIN_BROKERS = 0.5  # ours
MINUTE_NS = duration_ns(ROUND)  # a round of the search, and what judges
FACTORS = (0.5, 2.0)  # of the SLO, beside itself
OBJECTIVE = (
    f"objective: the fewest brokers of those whose 99th percentile, judged on the minute after the search, is within "
    f"{SLO_MARGIN:g} x SLO; within half a broker the shortest violation during the search, then the lowest percentile"
)
HEAD = ("distributor", "brokers", "p99, ms", "above the SLO while searching, s", "rounds", "")
TURN_HEAD = ("factor", "value", "best", "")
_SHOWN = ("broker_count", "p99_ms", "violation_s", "round_count")


@dataclass(frozen=True)
class TraceAsked:
    """A trace and its SLO; ``speed`` and ``replicas``: 0 = as the figure for sensors of ULB, else 1.

    ``columns`` and ``instant_unit``: empty = not said.
    """

    path: str
    slo: str
    columns: str = ""
    instant_unit: str = ""
    speed: float = 0.0
    replicas: int = 0

    def __post_init__(self) -> None:
        try:
            if duration_ns(self.slo) < 1:
                raise ValueError("not above 0")
        except ValueError as error:
            raise SpecError(f"--slo {self.slo!r}: {error}", "give a span such as 5ms") from None
        if self.speed < 0 or self.replicas < 0:
            raise SpecError(f"--speed {self.speed:g}, --replicas {self.replicas}", "give numbers above 0")


@dataclass(frozen=True)
class _AtSlo:
    """What all did under one SLO."""

    slo: str
    rows: "Mapping[str, pd.DataFrame]"  # system -> a row a repetition
    refused: Mapping[str, str]  # who is not ranked, and why
    ranking: Ranking | None
    seen: tuple[str, ...]  # who searched on the very minute that judges


def advise_trace(asked: TraceAsked, request: RunRequest) -> tuple[list[str], Json, bool]:
    """Lines, the document, and whether it is decided."""
    from core.java import find_java

    points = points_of(asked)
    pass_ns = pass_of(points[0])
    slo_ns = duration_ns(asked.slo)
    slos = [asked.slo, *(duration_text(round(slo_ns * factor)) for factor in FACTORS)]
    specs = {
        (slo, point.system): repeated([msgspec.structs.replace(point, slo=slo)], request.repetitions, request.seed)
        for slo in slos
        for point in points
    }
    find_java()
    interrupts.writes_to(request.out)
    run_all([spec for each in specs.values() for spec in each], request, "judging")
    measured = _measured([spec for each in specs.values() for spec in each], request)
    stop_spark(request)
    rows = {key: measured.loc[[id_of(spec) for spec in each]] for key, each in specs.items()}
    at_slos = [_at_slo(slo, {name: rows[slo, name] for name in SYSTEMS}, pass_ns) for slo in slos]
    return _said(asked, request, at_slos, specs, pass_ns)


def points_of(asked: TraceAsked) -> list[RunSpec]:
    """The figure's points on this trace."""
    experiment = load_figure("srtm-trace").experiment
    options: dict[str, object] = {option.name: option.default for option in experiment.options}
    path = str(Path(asked.path).absolute())
    options |= {"trace": path, "columns": asked.columns, "instant-unit": asked.instant_unit or UNIT}
    options |= _format_of(asked, path)
    usual = options["format"] == ULB
    options["speed"] = asked.speed or (options["speed"] if usual else 1.0)
    options["replicas"] = asked.replicas or (options["replicas"] if usual else 1)
    return experiment.points(SCALES["quick"], options)


def _format_of(asked: TraceAsked, path: str) -> Json:
    """By the file's looks, but for what was said of its columns: that counts more."""
    looks = looks_like(path)
    if looks == ULB and asked.columns:
        return {"format": "csv", "separator": " "}
    if looks == ULB and asked.instant_unit not in ("", ULB_UNIT):
        what = (
            f"--instant-unit {asked.instant_unit}: {path} looks like a log of ULB's sensors, whose instants are in ms"
        )
        raise SpecError(what, "leave it out, or say --columns publisher=NUMBER,instant=NUMBER as well")
    return {"format": looks}


def pass_of(point: RunSpec) -> int:
    """How long a copy of the point's trace takes until it starts over, in ns."""
    workload = load_workload(point.workload)
    try:
        made: TraceSchedule = workload.make(workload.configure(point.workload_options), point.seed)
    except SpecError as error:
        fix = "mend it, or say --columns publisher=NUMBER,instant=NUMBER"
        raise SpecError(error.what, fix if "format=csv" in error.fix else error.fix) from None
    return made.pass_ns


def was_searched(pass_ns: int, round_count: int) -> bool:
    """Whether the minute that judges, after the longest search that there may be, is in one of so many rounds."""
    since_ns = TRIALS_MAXIMUM * MINUTE_NS % pass_ns  # all copies have gone round as often
    return round_count > 0 and (since_ns < round_count * MINUTE_NS or since_ns + MINUTE_NS > pass_ns)


def _measured(specs: list[RunSpec], request: RunRequest) -> "pd.DataFrame":
    from analysis.spark import java_answers, session
    from analysis.tables import load

    folders = [request.out / "runs" / run_id for run_id in dict.fromkeys(map(id_of, specs))]
    with request.store.in_use() as store, java_answers():
        return per_run(load(session(request.master, request.spark_conf), folders, store), {}).set_index("run_id")


def _at_slo(slo: str, rows: "Mapping[str, pd.DataFrame]", pass_ns: int) -> _AtSlo:
    slo_ms = duration_ns(slo) / MILLISECOND_NS
    refused = {}
    for name, its in rows.items():
        if (its.outcome != SearchOutcome.PLACED.value).any():
            refused[name] = str(its.outcome[its.outcome != SearchOutcome.PLACED.value].iloc[0]).replace("_", " ")
        elif not t_interval(list(its.p99_ms)).high <= SLO_MARGIN * slo_ms:
            refused[name] = "misses the SLO, or may"
    trials = [
        Candidate(name, tuple(its.broker_count.astype(float)), (tuple(its.violation_s), tuple(its.p99_ms)))
        for name, its in rows.items()
        if name not in refused
    ]
    # In each repetition, by somebody: where a second broker was needed once, something was at stake.
    needed = min((max(trial.loss) for trial in trials), default=0.0)
    ranking = rank(trials, MARGIN_BROKERS, needed - 1) if trials else None
    searched = {name: int(its.round_count.max()) for name, its in rows.items() if name not in refused}
    seen = tuple(name for name, count in searched.items() if was_searched(pass_ns, count))
    return _AtSlo(slo, rows, refused, ranking.unfit if ranking and ranking.best and seen else ranking, seen)


def headline(at_slo: _AtSlo) -> str:
    """The answer in a sentence."""
    ranking = at_slo.ranking
    if ranking is None:
        return f"No distributor surely meets {at_slo.slo} on this trace."
    if ranking.best:
        brokers = t_interval(list(at_slo.rows[ranking.best].broker_count)).mean
        return f"{ranking.best}: it meets {at_slo.slo} on {brokers:.3g} brokers, and nobody on fewer or as well."
    if ranking.answer is Choice.UNFIT:
        return f"The trace cannot decide at {at_slo.slo}: {words.listed(at_slo.seen)} searched on messages that judge."
    if ranking.answer is Choice.TIE:
        alone = [name for name in ranking.names if at_slo.rows[name].broker_count.eq(1).all()]
        return f"The trace cannot decide at {at_slo.slo}: {words.listed(alone)} put all of it on one broker."
    return f"The trace cannot decide at {at_slo.slo} between {words.listed(ranking.names)}."


def _rows(at_slo: _AtSlo) -> list[tuple[str, ...]]:
    remark: dict[str, str] = dict(at_slo.refused)
    order: list[str] = []
    if at_slo.ranking is not None:
        best = first_of(at_slo.ranking)
        remark |= {each.name: each.relation.value for each in at_slo.ranking.standings}
        remark |= {at_slo.ranking.best: words.BEST} if at_slo.ranking.best else {}
        order = [each.name for each in at_slo.ranking.standings]
        order.sort(key=lambda name: name != best)
    order += [name for name in at_slo.rows if name not in order]
    return [
        (
            name,
            *(words.spread(t_interval(list(at_slo.rows[name][column].astype(float)))) for column in _SHOWN),
            remark[name],
        )
        for name in order
    ]


def first_of(ranking: Ranking) -> str:
    """The best one, or who stands first."""
    return ranking.best or ranking.standings[0].name


def _turns(at_slos: list[_AtSlo]) -> list[tuple[_AtSlo, Turn | None]]:
    base = at_slos[0].ranking
    return [
        (each, turn("SLO", each.slo, base, each.ranking) if base is not None and each.ranking is not None else None)
        for each in at_slos[1:]
    ]


def _is_turned(base: _AtSlo, other: _AtSlo, its: Turn | None) -> bool:
    """Also where somebody meets one of both alone; not where nobody meets either, or one is not fit to judge."""
    if any(each.ranking is not None and each.ranking.answer is Choice.UNFIT for each in (base, other)):
        return False
    return its.turns if its is not None else (base.ranking is None) != (other.ranking is None)


def _read_as(workload: Json, pass_ns: int) -> str:
    """What the trace was taken for."""
    unit = {"csv": workload.get("instant_unit"), ULB: ULB_UNIT}.get(workload["format"])
    kind = workload["format"] + (f" with instants in {unit}" if unit else "")
    copies = f"{workload['replicas']} copies" if workload["replicas"] > 1 else "one copy"
    speed, pass_s = workload["speed"], pass_ns / SECOND_NS
    return f"read as {kind}; {copies}, {speed:g} times as fast, starting over every {pass_s:,.1f} s"


def _seen(at_slo: _AtSlo) -> list[str]:
    if not at_slo.seen:
        return []
    who = words.listed(at_slo.seen)
    return [f"the trace starts over so soon that {who} searched on the minute that judges, or on a part of it: "
            "bring a longer one, or a lower --speed"]  # fmt: skip


def _said(
    asked: TraceAsked,
    request: RunRequest,
    at_slos: list[_AtSlo],
    specs: Mapping[tuple[str, str], list[RunSpec]],
    pass_ns: int,
) -> tuple[list[str], Json, bool]:
    base, said, rows = at_slos[0], headline(at_slos[0]), _rows(at_slos[0])
    turns = [
        ("SLO", each.slo, headline(each), "TURNS" if _is_turned(base, each, its) else "")
        for each, its in _turns(at_slos)
    ]
    name = first_of(base.ranking) if base.ranking is not None else "srtm"
    spec = specs[base.slo, name][0]
    command = words.command_of(spec, request.repetitions, request.seed, str(request.out))
    notes = [_read_as(spec.workload_options, pass_ns), *_seen(base), OBJECTIVE]
    notes.append(f"intervals: 95 %, {request.repetitions} seeds: where in the trace copies begin, and searches")
    body = section_of(
        "The answer",
        f'<p class="sentence">{said}</p>'
        + table_of(HEAD, rows, [row[-1] == words.BEST for row in rows], "the ranking"),
    )
    body += section_of("Where it turns", table_of(TURN_HEAD, turns, [False] * len(turns), "other SLOs"))
    body += section_of("How it is judged", "".join(f"<p>{note}</p>" for note in notes))
    body += section_of("Again", table_of(("command",), [(command,)], [False], "command"))
    page = written(request.out / "report" / "advise-trace.html", f"Advice for {Path(asked.path).name}", body)
    lines = [said, "", *in_columns(HEAD, rows), "", *in_columns(TURN_HEAD, turns), "", *(f"  {note}" for note in notes)]
    lines += ["", f"again: {command}", f"page: {page}"]
    document: Json = {
        "answer": said,
        "decided": bool(base.ranking and base.ranking.best),
        "best": base.ranking.best or None if base.ranking is not None else None,
        "objective": OBJECTIVE,
        "notes": notes,
        "slo": base.slo,
        "usual": _document(base),
        "others": [_document(each) | {"turns": _is_turned(base, each, its)} for each, its in _turns(at_slos)],
        "command": command,
        "page": str(page),
    }
    return lines, document, bool(document["decided"])


def _document(at_slo: _AtSlo) -> Json:
    standings = at_slo.ranking.standings if at_slo.ranking is not None else ()
    relation = {each.name: each.relation for each in standings}
    return {
        "slo": at_slo.slo,
        "answer": at_slo.ranking.answer.value if at_slo.ranking is not None else "nobody",
        "searched_on_what_judges": list(at_slo.seen),
        "distributors": [
            {
                "name": name,
                "refused": at_slo.refused.get(name, ""),
                "relation": relation[name].value if name in relation else None,
                **{column: words.interval_json(t_interval(list(its[column].astype(float)))) for column in _SHOWN},
            }
            for name, its in at_slo.rows.items()
        ],
    }
