"""``ratebed run``: figures, a matrix file, or one ad-hoc point."""

import json
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from ratebed import options as o

System = Annotated[
    str, typer.Option("--system", help="ad-hoc: a key or path.py:SYSTEM; with figures: one more system in their grids")
]
Workload = Annotated[str, typer.Option("--workload", help="ad-hoc: the workload")]
Topology = Annotated[str, typer.Option("--topology", help="ad-hoc: the topology")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="AXIS.KEY=VALUE", help="ad-hoc: an option, as in workload.publishers=2000"),
]
Repetitions = Annotated[int, typer.Option("--repetitions", help="ad-hoc: how many seeds")]


def run(
    context: typer.Context,
    keys: o.Keys = None,
    every: o.All = False,
    system: System = "",
    workload: Workload = "",
    topology: Topology = "srtm-lan",
    settings: Settings = None,
    repetitions: Repetitions = 1,
    scale: o.ScaleName = "quick",
    seed: o.Seed = 1,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    testbed: o.Testbed = "virtual",
    calibration: o.Calibration = "",
    spark_master: o.SparkMaster = "",
    as_json: o.AsJson = False,
) -> int:
    """Run figures, a matrix file (.toml), or one point (--system, --workload); what is there is not repeated."""
    from ratebed.produce import produce_figures, produce_points

    words = list(keys or ())
    matrices = [word for word in words[:1] if word.endswith(".toml")]
    figures = words[len(matrices) :]
    request = o.make_request(
        figures, every, scale, seed, jobs, out, context.args,
        testbed=testbed, calibration=calibration, spark_master=spark_master,
    )  # fmt: skip
    if request.keys and not matrices:
        if workload or settings:
            raise SpecError("--workload and --set belong to ad-hoc points", "leave out the figure, or these options")
        return produce_figures(request, system)
    if matrices and not request.keys:
        from harness.matrix import read_matrix

        specs = [spec for name in matrices for spec in read_matrix(Path(name), seed)]
    elif system and workload and not request.keys:
        from harness.matrix import ad_hoc

        specs = ad_hoc(system, workload, topology, settings or [], repetitions, seed)
    else:
        raise SpecError("nothing to run", "name figures (see ratebed list), a matrix file, or --system and --workload")
    code, rows = produce_points(specs, request)
    if as_json:
        print(json.dumps(rows, indent=2))
    return code
