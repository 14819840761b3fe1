"""``ratebed figures``: from nothing to the report."""

from pathlib import Path

import typer

from ratebed import options as o
from ratebed.declared import given


def figures(
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
    docker_daemon: o.DockerDaemon = "",
    calibration: o.Calibration = "",
    executor: o.ExecutorName = o.LOCAL,
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    packs: o.Packs = "",
    plot_invalid: o.PlotInvalid = False,
    quiet: o.Quiet = False,
) -> int:
    """Run what is missing, aggregate on Spark, draw, judge the claims, write the report; all figures by default."""
    from ratebed.produce import produce_figures

    o.choose_docker_daemon(docker_daemon)
    request = o.make_request(
        keys, every or not keys, scale, seed, jobs, out, given(context),
        testbed=testbed, inventory=inventory, calibration=calibration, spark_master=spark_master, packs=packs,
        plot_invalid=plot_invalid, repetitions=repetitions, is_quiet=quiet, executor=executor, spark_conf=spark_conf,
    )  # fmt: skip
    return produce_figures(request)[0]
