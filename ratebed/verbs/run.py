"""``ratebed run``: figures, a matrix file, or one ad-hoc point."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from core.records import Json, Row
from harness.experiment import RunSpec
from paper_figs import FIGURES
from ratebed import options as o
from ratebed.declared import given

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FIGURE... | FILE.toml",
        help="figures, each a key or path.py:FIGURE, or a matrix file",
        autocompletion=lambda: list(FIGURES),
    ),
]
System = Annotated[
    str, typer.Option("--system", help="ad-hoc: a key or path.py:SYSTEM; with figures: one more system in their grids")
]
Workload = Annotated[str, typer.Option("--workload", help="ad-hoc: the workload, a key or path.py:WORKLOAD")]
Topology = Annotated[str, typer.Option("--topology", help="ad-hoc: the topology, a key or path.py:TOPOLOGY")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="AXIS.KEY=VALUE",
        help="an option of the point, or of all points of the figures that have it, as in system.band=0.5",
    ),
]


def run(
    context: typer.Context,
    keys: Words = None,
    every: o.All = False,
    system: System = "",
    workload: Workload = "",
    topology: Topology = "",
    claims: o.Claims = None,
    settings: Settings = None,
    repetitions: o.Repetitions = 0,
    scale: o.ScaleName = "quick",
    seed: o.Seed = o.SEED,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    testbed: o.Testbed = "",
    docker_daemon: o.DockerDaemon = "",
    inventory: o.Inventory = "",
    calibration: o.Calibration = "",
    executor: o.ExecutorName = o.LOCAL,
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    packs: o.Packs = "",
    plot_invalid: o.PlotInvalid = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> int:
    """Run figures, a matrix file (.toml), or one point (--system, --workload); what is there is not repeated."""
    from harness.matrix import settings_of, testbed_options

    words = list(keys or ())
    o.choose_docker_daemon(docker_daemon)
    options, settings = testbed_options(settings or [])
    matrix = words.pop(0) if words and words[0].endswith(".toml") else ""
    request = o.make_request(
        words, every, scale, seed, jobs, out, given(context),
        testbed=testbed, inventory=inventory, calibration=calibration, spark_master=spark_master, extra_system=system,
        plot_invalid=plot_invalid, testbed_options=options, repetitions=repetitions, is_quiet=quiet, claims=claims,
        settings={} if matrix or workload else settings_of(settings), executor=executor, spark_conf=spark_conf,
        packs=packs,
    )  # fmt: skip
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        code, summary = _run(request, matrix, workload, topology, settings)
    if as_json:
        print(json.dumps(summary, indent=2))
    return code


def _run(
    request: o.RunRequest, matrix: str, workload: str, topology: str, settings: list[str]
) -> tuple[int, Json | list[Row]]:
    """Figures, a matrix file, or one point: whichever the words ask for."""
    from ratebed.produce import produce_figures, produce_points

    points = points_of(request, matrix, workload, topology, settings)
    if points is not None:
        return produce_points(points, request)
    if request.keys:
        return produce_figures(request)
    raise SpecError("nothing to run", "name figures (see ratebed list), a matrix file, or --system and --workload")


def points_of(
    request: o.RunRequest, matrix: str, workload: str, topology: str, settings: list[str]
) -> list[RunSpec] | None:
    """The points of a matrix file, or the one that the words are about; None where they are about figures."""
    from harness.matrix import ad_hoc, check_told_once, read_matrix, settings_of
    from ratebed.pipeline import adapted

    def adapt(spec: RunSpec) -> RunSpec:  # a point is checked as it will run
        return adapted(spec, request)

    given = [option for option, value in {"--workload": workload, "--topology": topology}.items() if value]
    if request.keys and not matrix:
        if given:
            raise SpecError(f"{given[0]} belongs to ad-hoc points", "leave out the figure, or the option")
        return None
    of_figures = {
        "--claims": request.claims,
        "--plot-invalid": request.plot_invalid,
        "--scale": request.scale.name != "quick",  # the default
    }
    for option in (option for option, value in of_figures.items() if value):
        raise SpecError(f"{option} belongs to figures", "leave it out, or name the figures that it is about")
    if matrix and not request.keys:
        given += ["--system"] * bool(request.extra_system) + ["--set"] * bool(settings)
        if given:
            raise SpecError(f"{given[0]} belongs to ad-hoc points", f"write it into {matrix}")
        return read_matrix(Path(matrix), request.seed, request.repetitions, adapt)
    if request.extra_system and workload and not request.keys:
        repetitions = request.repetitions or 1
        places = {"testbed": request.testbed, "calibration": request.calibration}
        check_told_once(settings_of(settings), {axis: name for axis, name in places.items() if name})
        return ad_hoc(request.extra_system, workload, topology, settings, repetitions, request.seed, adapt)
    raise SpecError("nothing to run", "name figures (see ratebed list), a matrix file, or --system and --workload")
