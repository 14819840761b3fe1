"""``ratebed plan``: what a command would run, before it runs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.experiment import RunSpec
from ratebed import options as o
from ratebed.declared import given
from ratebed.verbs.run import Settings, System, Topology, Words, Workload, points_of
from ratebed.wording import span
from testbed import load_testbed

if TYPE_CHECKING:
    from ratebed.foreseen import Foreseen


def plan(
    context: typer.Context,
    keys: Words = None,
    every: o.All = False,
    system: System = "",
    workload: Workload = "",
    topology: Topology = "",
    claims: o.Claims = None,
    settings: Settings = None,
    scale: o.ScaleName = "quick",
    seed: o.Seed = o.SEED,
    repetitions: o.Repetitions = 0,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    testbed: o.Testbed = "",
    inventory: o.Inventory = "",
    as_json: o.AsJson = False,
) -> None:
    """Runs, expected time, memory, disk and privileges of figures, a matrix file or a point; nothing is started.

    The time is what runs of the same kind took that are in --out, else what they took on another machine.
    """
    from harness.matrix import settings_of, testbed_options
    from ratebed.foreseen import foreseen
    from ratebed.pipeline import make_plan, plan_of

    words = list(keys or ())
    options, settings = testbed_options(settings or [])
    matrix = words.pop(0) if words and words[0].endswith(".toml") else ""
    is_point = bool(matrix or workload)
    request = o.make_request(
        words, every or not (words or is_point), scale, seed, jobs, out, given(context),
        testbed=testbed, inventory=inventory, repetitions=repetitions, testbed_options=options, extra_system=system,
        settings={} if is_point else settings_of(settings), claims=claims,
    )  # fmt: skip
    points = points_of(request, matrix, workload, topology, settings)
    campaign_plan = make_plan(request) if points is None else plan_of(points, request)
    expected = foreseen(campaign_plan, request)
    needed = privileges(campaign_plan.campaign.missing().values())
    if as_json:
        total = {**expected.total._asdict(), "privileges": needed}
        print(json.dumps({"figures": [row._asdict() for row in expected.figures], "total": total}, indent=2))
        return
    for line in _lines(expected, request.jobs, needed):
        print(line)


def _lines(expected: "Foreseen", jobs: int, needed: str) -> Iterable[str]:
    wide = max((len(row.figure) for row in expected.figures), default=0) + 2
    for row in expected.figures:
        to_do = f"{row.to_do:>5} of {row.runs:>5} runs to do, about {span(row.seconds)}"
        yield f"{row.figure:<{wide}}{f'skipped: {row.skipped}' if row.skipped else to_do}"
        for what in row.lacking:
            yield f"{'':<{wide}}without {what}"
    total, shared = expected.total, " (figures share runs)" * (len(expected.figures) > 1)
    on = f"{jobs} process{'es' * (jobs != 1)}"
    yield (
        f"in all{shared}: {total.to_do} of {total.runs} runs, about {span(total.seconds)} on {on}, and "
        f"{span(total.drawing_seconds)} of Spark and drawing; {total.memory_megabytes} MB memory, "
        f"{total.disk_megabytes} MB disk, privileges: {needed}"
    )


def privileges(specs: Iterable[RunSpec]) -> str:
    """What the user must have for these runs."""
    needed = {load_testbed(spec.testbed).privileges for spec in specs} - {"none"}
    return ", ".join(sorted(needed)) or "none"
