"""``ratebed plan``: what a command would run, before it runs."""

import json
from collections.abc import Iterable
from pathlib import Path

import typer

from harness.experiment import RunSpec
from ratebed import options as o
from testbed import load_testbed


def plan(
    context: typer.Context,
    keys: o.Keys = None,
    every: o.All = False,
    scale: o.ScaleName = "quick",
    seed: o.Seed = o.SEED,
    repetitions: o.Repetitions = 0,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    testbed: o.Testbed = "",
    inventory: o.Inventory = "",
    as_json: o.AsJson = False,
) -> None:
    """Runs, expected time, memory, disk and privileges of figures; nothing is started."""
    from harness.estimate import KILOBYTES_PER_RUN, MEGABYTES_PER_WORKER, campaign_seconds
    from ratebed.pipeline import make_plan

    request = o.make_request(
        keys,
        every or not keys,
        scale,
        seed,
        jobs,
        out,
        context.args,
        testbed=testbed,
        inventory=inventory,
        repetitions=repetitions,
    )
    campaign_plan = make_plan(request)
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
    for row in rows:
        text = (
            row["skipped"] and f"skipped: {row['skipped']}"
        ) or f"{row['to_do']:>5} of {row['runs']:>5} runs to do, about {row['seconds']:.0f} s"
        print(f"{row['figure']:<16}{text}")
        for what in campaign_plan.lacking.get(str(row["figure"]), ()):
            print(f"{'':<16}without {what}")
    print(
        f"in all (figures share runs): {total['to_do']} of {total['runs']} runs, about {total['seconds']:.0f} s on "
        f"{request.jobs} processes, then Spark and drawing; {total['memory_megabytes']} MB memory, "
        f"{total['disk_megabytes']} MB disk, privileges: {total['privileges']}"
    )


def privileges(specs: Iterable[RunSpec]) -> str:
    """What the user must have for these runs."""
    needed = {load_testbed(spec.testbed).privileges for spec in specs} - {"none"}
    return ", ".join(sorted(needed)) or "none"
