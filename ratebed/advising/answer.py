"""From a question to an answer: runs, measures, tunes, judges.

One campaign tunes: every setting of every limiter under every limit, on the first half of the log.  Of each limiter
that setting is taken whose larger error is least among those that send no more than the budget, which is the same for
all: by default what the one needs that needs most to work at all.  A second campaign judges these on the other half,
several seeds each, as usual and under other conditions.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from threading import Thread
from typing import TYPE_CHECKING

from analysis.advice import Candidate, Ranking, Turn, rank, turn
from analysis.verdicts import Interval, t_interval
from core.errors import MachineError, SpecError
from harness.code_version import id_of
from harness.experiment import RunSpec, repeated
from paper_figs.beyond.envelope import ERRORS, SETTING, chosen
from ratebed import interrupts, pipeline
from ratebed.advising.grid import NAMES, Condition, Tuning, conditions, oracle_of, settings, spec_of, usual
from ratebed.advising.question import Question, TriedLimit
from ratebed.options import RunRequest

if TYPE_CHECKING:
    import pandas as pd

MARGIN = 0.005  # ours: half a percent of the requests, which nobody would act on
AT_ONCE_MS = 1.0  # ours: a wait that nobody notices
MEASURES = (*ERRORS, "bytes_per_request", "p99_ms")


@dataclass(frozen=True)
class JudgedLimiter:
    """A limiter as it was judged: errors as shares of the requests, bytes a request, wait (p99) in ms.

    ``refused``: why it is not ranked, as it needs more than is allowed; ``spec``: its first run.
    """

    setting: Tuning
    refused: str
    spec: RunSpec
    measures: Mapping[str, tuple[float, ...]]

    def interval(self, measure: str) -> Interval:
        """Mean and 95 % interval over the seeds."""
        return t_interval(self.measures[measure])

    @property
    def trial(self) -> Candidate:
        """What it is ranked by: the larger of its errors; then bytes, then wait."""
        over, under, sent, wait = (self.measures[measure] for measure in MEASURES)
        return Candidate(self.setting.name, tuple(map(max, over, under)), (sent, wait))


@dataclass(frozen=True)
class Judged:
    """All limiters under a condition; ``absent``: who cannot work so; ``ranking``: of those that are not refused."""

    condition: Condition
    rejected_share: float  # by the oracle
    outcomes: tuple[JudgedLimiter, ...]
    absent: tuple[str, ...]
    ranking: Ranking

    def outcome(self, name: str) -> JudgedLimiter:
        """A limiter's."""
        return next(each for each in self.outcomes if each.setting.name == name)


@dataclass(frozen=True)
class Advice:
    """The answer: as usual, and what turns it.

    ``budgets``: bytes a request, by limit; ``unmet``: conditions under which nobody sends and waits as little as asked.
    """

    question: Question
    budgets: Mapping[TriedLimit, float]
    base: Judged
    others: tuple[tuple[Judged, Turn], ...]
    repetitions: int
    seed: int
    unmet: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class _Tuned:
    setting: Tuning
    affordable: bool


@dataclass(frozen=True)
class Bounds:
    """What limiters may need to be ranked: bytes a request (None: the same for all, as told above), wait in ms."""

    bytes_most: float | None = None
    wait_most_ms: float = inf


def advise(question: Question, request: RunRequest, terms: Bounds = Bounds(), with_turns: bool = True) -> Advice:
    """Run what is missing and judge; MachineError where a run that the answer rests on failed.

    ``request``: its folder, seed, jobs, and the repetitions that judge.  SpecError where nobody meets the terms.
    """
    from analysis.spark import warm_up
    from core.java import find_java

    find_java()
    interrupts.writes_to(request.out)
    Thread(target=warm_up, args=(request.master, request.spark_conf), daemon=True).start()
    tried = _tuning_runs(question, request.seed)
    run_all([spec for _, spec in tried.values()] + _oracles(question, request.seed), request, "tuning")
    measured = measured_of([*tried, *map(id_of, _oracles(question, request.seed))], request)
    budgets, tuned = {}, {}
    for limit in question.limits:
        its = {run_id: setting for run_id, ((at, setting), _) in tried.items() if at == limit}
        rows = measured[measured.run_id.isin(list(its))]
        least = rows.groupby("name").bytes_per_request.min()  # what each has to send to work at all
        budgets[limit] = float(least.max()) if terms.bytes_most is None else terms.bytes_most
        tuned[limit] = _tuned(rows, its, budgets[limit])
    wanted = [usual(question.limits[0]), *(conditions(question) if with_turns and question.is_fit else ())]
    return _judge(question, request, wanted, budgets, tuned, terms)


def _tuning_runs(question: Question, seed: int) -> dict[str, tuple[tuple[TriedLimit, Tuning], RunSpec]]:
    """Run id -> limit and setting, and its spec."""
    tried = {}
    for limit in question.limits:
        for setting in settings(limit):
            spec = spec_of(question, setting, usual(limit), judges=False)
            for each in repeated([spec], 1, seed) if spec is not None else []:
                tried[id_of(each)] = (limit, setting), each
    return tried


def _oracles(question: Question, seed: int) -> list[RunSpec]:
    return repeated([oracle_of(question, usual(limit), judges=False) for limit in question.limits], 1, seed)


def _tuned(rows: "pd.DataFrame", its: Mapping[str, Tuning], budget: float) -> dict[str, _Tuned]:
    """Of each limiter the best setting within the budget, or its cheapest where none is."""
    kept = chosen(rows).merge(rows, on=SETTING)
    tuned: dict[str, _Tuned] = {}
    for row in kept.sort_values("step").itertuples():
        affordable = bool(row.bytes_per_request <= budget)
        if affordable or str(row.name) not in tuned:
            tuned[str(row.name)] = _Tuned(its[str(row.run_id)], affordable)
    return tuned


def _judge(
    question: Question,
    request: RunRequest,
    wanted: Sequence[Condition],
    budgets: Mapping[TriedLimit, float],
    tuned: Mapping[TriedLimit, Mapping[str, _Tuned]],
    terms: Bounds,
) -> Advice:
    count, seed = request.repetitions, request.seed
    points: dict[tuple[int, str], list[RunSpec]] = {}
    absent: dict[int, list[str]] = {number: [] for number in range(len(wanted))}
    for number, condition in enumerate(wanted):
        points[number, ""] = repeated([oracle_of(question, condition, judges=True)], count, seed)
        absent[number] += [name for name in NAMES if name not in tuned[condition.limit]]  # with no setting at all
        for name, its in tuned[condition.limit].items():
            spec = spec_of(question, its.setting, condition, judges=True)
            if spec is None:
                absent[number].append(name)
            else:
                points[number, name] = repeated([spec], count, seed)
    specs = [spec for each in points.values() for spec in each]
    run_all(specs, request, "judging")
    ids = {key: list(map(id_of, each)) for key, each in points.items()}
    measured = measured_of([run_id for each in ids.values() for run_id in each], request).set_index("run_id")
    judged, unmet = [], []
    for number, condition in enumerate(wanted):
        shown = {name: measured.loc[run_ids] for (at, name), run_ids in ids.items() if at == number}
        specs_of = {name: each[0] for (at, name), each in points.items() if at == number}
        outcomes = [
            _outcome(tuned[condition.limit][name], specs_of[name], rows, terms) for name, rows in shown.items() if name
        ]
        share = float(shown[""].oracle_rejected_share.mean())
        if all(each.refused for each in outcomes):
            if not number:
                raise SpecError("no limiter sends and waits so little", "allow more: --bytes, --wait")
            unmet.append(condition)
            continue
        judged.append(_ranked(condition, share, outcomes, absent[number]))
    base, *rest = judged
    base = base if question.is_fit else replace(base, ranking=base.ranking.unfit)
    rest = [*_at_once(base), *rest] if len(wanted) > 1 else rest
    turns = [turn(each.condition.factor, each.condition.value, base.ranking, each.ranking) for each in rest]
    return Advice(question, budgets, base, tuple(zip(rest, turns, strict=True)), count, seed, tuple(unmet))


def _outcome(tuned: _Tuned, spec: RunSpec, rows: "pd.DataFrame", terms: Bounds) -> JudgedLimiter:
    measures = {measure: tuple(rows[measure].astype(float)) for measure in MEASURES}
    too_late = t_interval(measures["p99_ms"]).mean > terms.wait_most_ms
    # Settings were chosen on the other half: what it costs here may be more than was allowed.
    too_much = terms.bytes_most is not None and t_interval(measures["bytes_per_request"]).mean > terms.bytes_most
    refused = "" if tuned.affordable and not too_much else "sends too much"
    return JudgedLimiter(tuned.setting, refused or ("waits too long" if too_late else ""), spec, measures)


def _ranked(condition: Condition, share: float, outcomes: Sequence[JudgedLimiter], absent: Sequence[str]) -> Judged:
    trials = [each.trial for each in outcomes if not each.refused]
    return Judged(condition, share, tuple(outcomes), tuple(absent), rank(trials, MARGIN, share))


def _at_once(base: Judged) -> list[Judged]:
    """The same among those who make nobody wait, where somebody does and somebody does not."""
    waits = {each.setting.name: each.interval("p99_ms").mean > AT_ONCE_MS for each in base.outcomes}
    if not (any(waits.values()) and any(not waits[each.name] for each in base.ranking.standings)):
        return []
    condition = replace(base.condition, factor="wait", value="none allowed")
    outcomes = [
        replace(each, refused=each.refused or "waits too long") if waits[each.setting.name] else each
        for each in base.outcomes
    ]
    return [_ranked(condition, base.rejected_share, outcomes, base.absent)]


def run_all(specs: Sequence[RunSpec], request: RunRequest, what: str) -> None:
    """Run what is missing; MachineError where one fails, for an answer without a limiter would be another answer."""
    if not request.is_quiet:
        print(f"{what}:", end=" ", flush=True)
    failures = pipeline.run(pipeline.plan_of(specs, request), request)
    if failures:
        first = failures[0]
        raise MachineError(
            f"{len(failures)} of {len(specs)} runs failed; {first.spec.system}: {first.error}",
            "mend that and repeat the command: the others are kept",
        )


def measured_of(run_ids: Sequence[str], request: RunRequest) -> "pd.DataFrame":
    """``limiters.measured`` of these runs, by Spark."""
    from analysis.spark import java_answers, session
    from analysis.tables import load
    from paper_figs.beyond.limiters import measured

    folders = [request.out / "runs" / run_id for run_id in dict.fromkeys(run_ids)]
    with request.store.in_use() as store, java_answers():
        return measured(load(session(request.master, request.spark_conf), folders, store))


def stop_spark(request: RunRequest) -> None:
    """When all is said."""
    from analysis.spark import java_answers, session

    with suppress(MachineError), java_answers():
        session(request.master, request.spark_conf).stop()
