"""``ratebed plan``: what a command would run, before it runs."""

import json
from collections.abc import Iterable
from pathlib import Path

import typer

from harness.experiment import RunSpec
from ratebed import options as o
from ratebed.declared import given
from ratebed.verbs.run import Settings, System, Topology, Words, Workload, points_of
from ratebed.wording import span
from testbed import load_testbed


def plan(
    context: typer.Context,
    keys: Words = None,
    every: o.All = False,
    system: System = "",
    workload: Workload = "",
    topology: Topology = "srtm-lan",
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
    """Runs, expected time, memory, disk and privileges of figures, a matrix file or a point; nothing is started."""
    from harness.estimate import KILOBYTES_PER_RUN, MEGABYTES_PER_WORKER, campaign_seconds
    from harness.matrix import settings_of, testbed_options
    from ratebed.pipeline import make_plan, plan_of

    words = list(keys or ())
    options, settings = testbed_options(settings or [])
    matrix = words.pop(0) if words and words[0].endswith(".toml") else ""
    is_point = bool(matrix or workload)
    request = o.make_request(
        words, every or not (words or is_point), scale, seed, jobs, out, given(context),
        testbed=testbed, inventory=inventory, repetitions=repetitions, testbed_options=options, extra_system=system,
        settings={} if is_point else settings_of(settings),
    )  # fmt: skip
    points = points_of(request, matrix, workload, topology, settings)
    campaign_plan = make_plan(request) if points is None else plan_of(points, request)
    missing = campaign_plan.campaign.missing()
    rows = [
        {
            "figure": key,
            "runs": len(ids),
            "to_do": sum(i in missing for i in ids),
            "seconds": round(campaign_seconds([missing[i] for i in set(ids) if i in missing], request.jobs), 1),
            "skipped": campaign_plan.skipped.get(key, ""),
            "lacking": campaign_plan.lacking.get(key, []),
        }
        for key, ids in campaign_plan.run_ids.items()
    ]
    total = {
        "runs": len(campaign_plan.campaign.wanted),
        "to_do": len(missing),
        "seconds": round(campaign_seconds(missing.values(), request.jobs), 1),
        "memory_megabytes": MEGABYTES_PER_WORKER * request.jobs + 2_000,
        "disk_megabytes": round(len(missing) * KILOBYTES_PER_RUN / 1000, 1),
        "privileges": privileges(missing.values()),
    }
    if as_json:
        print(json.dumps({"figures": rows, "total": total}, indent=2))
        return
    wide = max((len(str(row["figure"])) for row in rows), default=0) + 2
    for row in rows:
        text = (
            row["skipped"] and f"skipped: {row['skipped']}"
        ) or f"{row['to_do']:>5} of {row['runs']:>5} runs to do, about {span(float(str(row['seconds'])))}"
        print(f"{row['figure']:<{wide}}{text}")
        for what in campaign_plan.lacking.get(str(row["figure"]), ()):
            print(f"{'':<{wide}}without {what}")
    shared = " (figures share runs)" * (len(rows) > 1)
    on = f"{request.jobs} process{'es' * (request.jobs != 1)}"
    print(
        f"in all{shared}: {total['to_do']} of {total['runs']} runs, about {span(total['seconds'])} on {on}, then "
        f"Spark and drawing; {total['memory_megabytes']} MB memory, {total['disk_megabytes']} MB disk, "
        f"privileges: {total['privileges']}"
    )


def privileges(specs: Iterable[RunSpec]) -> str:
    """What the user must have for these runs."""
    needed = {load_testbed(spec.testbed).privileges for spec in specs} - {"none"}
    return ", ".join(sorted(needed)) or "none"
