"""What ``run`` and ``figures`` do: execute, draw, report, and say what came of it."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from collectors.integrity import verified
from core.records import Json, Row
from harness.executors.api import Finished
from harness.experiment import RunSpec
from ratebed import interrupts, pipeline
from ratebed.options import RunRequest
from ratebed.rows import told as rows_told
from ratebed.studio import Studio
from ratebed.validity import Standing, are_invalid, standing_of, standing_rows, standings_of, told, told_of_figures

if TYPE_CHECKING:
    from ratebed.reporting import WrittenReport


def produce_figures(request: RunRequest) -> tuple[int, Json]:
    """Figures from nothing to the report; the exit code and a summary.

    0, or 1 where a run failed, or a figure could not be drawn, was drawn from invalid runs alone, or is not in the
    report; a contradicted claim is a result, and what is damaged of other figures is named.
    """
    from core.java import find_java

    find_java()  # before hours of runs, not after
    interrupts.writes_to(request.out)
    plan, failures, undrawn = _made(request)
    from analysis.report import claims_json
    from ratebed.judging import counts_line
    from ratebed.reporting import doubts_note, report

    written = report(request.out)
    path, results, damaged, described, _ = written
    names = {key: plan.settings[key].name(key) for key in plan.run_ids if key not in plan.skipped}
    shown = {key: described[name] for key, name in names.items() if name in described}
    for key, reason in plan.skipped.items():
        print(f"{key}: skipped, {reason}")
    for key in shown:
        for what in plan.lacking.get(key, ()):
            print(f"{key}: without {what}")
    for key, reason in undrawn.items():
        print(f"{key}: not drawn, {reason}")
    for section in shown.values():
        if note := doubts_note(section["doubtful"], section["run_ids"]):
            print(f"{section['name']}: {note}")
    _print_failures(failures, len(plan.campaign.wanted))
    for what in damaged:
        print(f"damaged, left out of the report: {what}")
    absent = _told_absent(written, {key: name for key, name in names.items() if key not in undrawn})
    asked = [result for result in results if set(result.claim.figures) & plan.run_ids.keys()]
    print(f"claims: {counts_line(asked) or 'none'}")
    print(f"report: {path.resolve()}")
    summary = {
        "report": str(path.resolve()),
        "runs": plan.run_ids,
        "skipped": plan.skipped,
        "undrawn": undrawn,
        "failed": {failure.run_id: failure.error for failure in failures},
        "damaged": damaged,
        "left_out": absent,
        "validity": standing_rows(shown),
        "claims": claims_json(results),
    }
    from_invalid = any(are_invalid(standings_of(section).values()) for section in shown.values())
    return (1 if failures or undrawn or absent or from_invalid else 0), summary


def produce_readings(requests: Sequence[RunRequest]) -> int:
    """The figures of each request, one a cell of readings, and the report over all; the exit code.

    1 where a run failed, a figure's tables could not be made or are not whole any more, or all its runs are invalid.
    """
    from core.java import find_java

    find_java()
    failed, made = False, dict[str, str]()
    for number, request in enumerate(requests, 1):
        interrupts.writes_to(request.out)
        print(f"cell {number} of {len(requests)}: {' '.join(request.extra) or 'of record'}", flush=True)
        plan, failures, undrawn = _made(request)
        _print_failures(failures, len(plan.campaign.wanted))
        for key, reason in undrawn.items():
            print(f"{key}: {reason}")
        failed |= bool(failures or undrawn)
        made |= {(name := plan.settings[key].name(key)): name for key in plan.run_ids if key not in undrawn}
    from ratebed.judging import summary_line
    from ratebed.reporting import report

    out = requests[0].out
    written = report(out)
    path, results, damaged, described, _ = written
    for result in results:
        if result.tried:
            print(summary_line(result))
    for what in damaged:
        print(f"damaged, left out of the report: {what}")
    failed |= bool(_told_absent(written, made))
    print(f"report: {path.resolve()}")
    return max(told_of_figures(section for name, section in described.items() if name in made), int(failed))


def _told_absent(written: "WrittenReport", names: Mapping[str, str]) -> list[str]:
    """Says which of the figures, key -> name, are not in the report, or not wholly; returns their keys."""
    absent = [key for key, name in names.items() if written.lacks(name)]
    for key in absent:
        print(f"{key}: not wholly in the report: it was damaged, or another command wrote or removed it meanwhile")
    return absent


def _made(request: RunRequest) -> tuple[pipeline.CampaignPlan, list[Finished], dict[str, str]]:
    """What was planned, the runs that failed, and the figures that could not be drawn, with the reasons."""
    plan = pipeline.make_plan(request)
    with Studio(plan, request) as studio:
        return plan, pipeline.run(plan, request, studio.finished), studio.finish()


class Points(NamedTuple):
    """What came of points: specs by run id, how valid those are that finished, their numbers, the runs that failed."""

    wanted: dict[str, RunSpec]
    standings: dict[str, Standing]
    rows: list[Row]
    failures: list[Finished]

    @property
    def judged_rows(self) -> list[Row]:
        """The numbers, each with how valid its run is, and why."""
        return [row | self.standings[row["run_id"]].row() for row in self.rows]


def made_points(specs: Sequence[RunSpec], request: RunRequest) -> Points:
    """Run ad-hoc points and matrices, and compute their numbers."""
    from core.java import find_java

    find_java()
    interrupts.writes_to(request.out)
    plan = pipeline.plan_of(specs, request)
    campaign = plan.campaign
    failures = pipeline.run(plan, request)
    missing = campaign.missing()
    standings = {i: standing_of(verified(campaign.runs / i)) for i in campaign.wanted if i not in missing}
    rows = summarise(list(standings), request)
    return Points(campaign.wanted, standings, rows, failures)


def produce_points(specs: list[RunSpec], request: RunRequest) -> tuple[int, list[Row]]:
    """Ad-hoc points and matrices: run them, print a table; returns the exit code and the rows, then those of errors.

    The code is 1 where a run failed, or where all of them are invalid.
    """
    made = made_points(specs, request)
    _print_failures(made.failures, len(made.wanted))
    for line in rows_told(made.rows, made.wanted):
        print(line)
    code = told(made.standings)
    failed: list[Row] = [{"run_id": failure.run_id, "error": failure.error} for failure in made.failures]
    return (1 if made.failures else code), made.judged_rows + failed


def summarise(run_ids: list[str], request: RunRequest) -> list[Row]:
    """Percentiles of each run's judged messages, or of a limiter's decisions with their numbers, by Spark."""
    if not run_ids:
        return []
    from analysis.metrics import judged_rounds, percentiles
    from analysis.spark import java_answers, long_work, session
    from analysis.tables import collect, load

    with request.store.in_use() as store, java_answers():
        spark = session(request.master, {**long_work(request.master, len(run_ids)), **request.spark_conf})
        try:
            data = load(spark, [request.out / "runs" / i for i in run_ids], store)
            latencies = percentiles(judged_rounds(data.latency_histogram), ["run_id", "metric"])
            runs = data.runs.select("run_id", "system", "variant", "workload", "repetition", "outcome", "validity")
            verdicts = ("admit", "reject", "lost")
            decided = data.requests.groupBy("run_id").pivot("decision", list(verdicts)).count().fillna(0)
            order = ["system", "variant", "repetition", "run_id", "metric"]
            frame = collect(runs.join(latencies, "run_id", "left").join(decided, "run_id", "left"), order)
            frame = frame.dropna(axis="columns", how="all")  # without requests
        finally:
            spark.stop()
    rows: list[Row] = json.loads(frame.to_json(orient="records"))
    return rows


def _print_failures(failures: list[Finished], total: int) -> None:
    from ratebed.progress import describe

    for failure in failures:
        print(f"failed: {failure.run_id} {describe(failure.spec)}: {failure.error}")
    if failures:
        print(f"{len(failures)} of {total} runs failed; the others are kept")
