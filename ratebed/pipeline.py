"""From figure keys to a report: run what is missing, aggregate on Spark, draw, judge, write.

``out/runs/<id>/``         one folder a run
``out/tables/<figure>/``   the figure's tables (Parquet) and ``section.json``: runs, command, reason if skipped
``out/figures/``           SVG and PNG
``out/report/index.html``  a fold over all sections that are there

A figure on another testbed than its own, or at scale small, stands beside the plain one under the
name ``<figure>@<testbed>`` or ``<figure>@<testbed>-small``, and so does one under other readings of its source,
``<figure>~<reading>=<value>``, or with options that were set (``ratebed.settings``).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from collectors.integrity import is_whole
from collectors.partials import PARTIAL, is_dead, is_partial, partial_of
from core.digests import digest_of, is_sealed
from core.errors import MachineError, SpecError
from core.records import Json
from harness.campaign import Campaign, finished_runs
from harness.code_version import id_of
from harness.executors.api import Executor, Finished
from harness.executors.local import LocalExecutor
from harness.experiment import RunSpec
from harness.run import check_all
from harness.verifying import verifying_ahead
from ratebed.altered import altered, check_held
from ratebed.options import SPARK, RunRequest, hadoop_place
from ratebed.progress import RunProgress
from ratebed.settings import VIRTUAL, FigureSetting, other_ground, other_readings, setting_of
from systems.loader import load_system
from testbed import load_testbed
from testbed.servers.found import servers_of

if TYPE_CHECKING:
    import pandas as pd

    Tables = dict[str, pd.DataFrame]

SECTION = "section.json"
TABLES = "tables"  # the section's key: file of a table -> SHA-256


@dataclass(frozen=True)
class CampaignPlan:
    """What a request comes down to."""

    campaign: Campaign
    run_ids: dict[str, list[str]]  # figure -> its runs
    skipped: dict[str, str]  # figure -> why it has none
    settings: dict[str, FigureSetting] = field(default_factory=dict)  # figure -> where it runs
    lacking: dict[str, list[str]] = field(default_factory=dict)  # figure -> systems without their servers here


def make_plan(request: RunRequest) -> CampaignPlan:
    """The runs of each figure; an extra system joins every grid beside the figure's own."""
    campaign = Campaign(request.out / "runs")
    run_ids: dict[str, list[str]] = {}
    skipped: dict[str, str] = {}
    settings: dict[str, FigureSetting] = {}
    lacking: dict[str, list[str]] = {}
    held: set[str] = set()
    if request.extra_system:
        load_system(request.extra_system)
    with verifying_ahead(campaign, request.jobs) as want:
        for key in request.keys:
            experiment = request.figures[key].experiment
            if request.repetitions:
                experiment = replace(experiment, repetitions={request.scale.name: request.repetitions})
            options = request.figure_options[key]
            points, altering = altered(key, experiment.runs(request.scale, options, request.seed), request.settings)
            held |= altering.keys()
            readings = other_readings(experiment.options, options)
            ground = other_ground(experiment.options, options)
            place = setting_of({spec.testbed for spec in points}, request.testbed, request.scale.name, ground)
            settings[key] = replace(place, readings=readings, settings=altering)
            specs = [adapted(spec, request, len(settings[key].own) > 1) for spec in points]
            if request.extra_system and not experiment.open_to_systems:
                raise SpecError(
                    f"{key} takes no further system", "run it with a figure that compares systems, or ad hoc"
                )
            specs += joined(specs, request.extra_system)
            specs, lacking[key] = with_servers(specs, campaign.runs)
            if not specs and lacking[key]:
                skipped[key] = f"this machine lacks {'; '.join(lacking[key])}"
            elif not specs and not experiment.analytic:
                skipped[key] = experiment.skip_reason(options) if experiment.skip_reason else "its grid is empty"
            if request.every and not request.testbed and settings[key].own - {VIRTUAL}:
                skipped[key], specs = f"it runs on {settings[key].testbed}: ask for it, ratebed run {key}", []
            run_ids[key] = campaign.add(specs, want)
    check_held(request.settings, held, list(campaign.wanted.values()))
    check_all(campaign.missing().values())  # what is there could be run
    return CampaignPlan(campaign, run_ids, skipped, settings, lacking)


def plan_of(specs: Iterable[RunSpec], request: RunRequest) -> CampaignPlan:
    """The runs of points that are no figure's, under the name "points"."""
    campaign = Campaign(request.out / "runs")
    with verifying_ahead(campaign, request.jobs) as want:
        ids = campaign.add((adapted(spec, request) for spec in specs), want)
    check_all(campaign.missing().values())
    return CampaignPlan(campaign, {"points": ids}, {})


def with_servers(specs: list[RunSpec], runs: Path) -> tuple[list[RunSpec], list[str]]:
    """The specs that are in ``runs`` or can be run, and what this machine lacks for the others, with the way to get it.

    Whether somebody else's machines have the servers is seen there.
    """
    lacking: dict[str, list[str]] = {}
    runs_here = {name: _runs_here(name) for name in {spec.testbed for spec in specs}}
    for system in dict.fromkeys(spec.system for spec in specs if runs_here[spec.testbed]):
        wanted = {server.name: server.capability for server in servers_of(load_system(system))}
        lacking[system] = [f"{name} ({its.fix})" for name, its in wanted.items() if not its.find()]
    able, missing = [], dict[str, None]()
    for spec in specs:
        lacks = lacking.get(spec.system) if runs_here[spec.testbed] else None
        if lacks and not is_whole(runs / id_of(spec)):
            missing |= dict.fromkeys(lacks)
        else:
            able.append(spec)
    return able, list(missing)


def _runs_here(name: str) -> bool:
    testbed = load_testbed(name)
    return testbed.real_time and testbed.has_our_files


def adapted(spec: RunSpec, request: RunRequest, compares: bool = False) -> RunSpec:
    """The spec on the testbed and with the calibration that the user names.

    In a grid that ``compares`` testbeds, the virtual points stay where they are.  Figures about token buckets alone
    keep their calibration: it is what they are about.
    """
    calibration = (
        spec.calibration if spec.calibration == "bucket-only" or not request.calibration else request.calibration
    )
    stays = not request.testbed or (compares and spec.testbed == VIRTUAL)
    testbed = spec.testbed if stays else request.testbed
    options = spec.testbed_options
    if request.testbed_options and not (compares and testbed == VIRTUAL):
        options = {**options, **request.testbed_options}
    return msgspec.structs.replace(spec, testbed=testbed, testbed_options=options, calibration=calibration)


def joined(specs: list[RunSpec], system: str) -> list[RunSpec]:
    """The grid's points once more with another system, without the options of the one that it replaces.

    What a limiter limits, ``capacity`` and ``rate``, belongs to the point: a system that has such options takes them.
    """
    if not system:
        return []
    kept = {field.name for field in fields(load_system(system).config)} & {"capacity", "rate"}
    more = {
        msgspec.structs.replace(
            spec,
            system=system,
            system_options={name: value for name, value in spec.system_options.items() if name in kept},
        ).to_json()
        for spec in specs
    }
    return [msgspec.json.decode(spec, type=RunSpec) for spec in sorted(more)]


def run(plan: CampaignPlan, request: RunRequest, notify: Callable[[Finished], None] | None = None) -> list[Finished]:
    """Execute what is missing, with progress; returns the failures.  ``notify`` is told of each run that ends."""
    for run_id, reason in plan.campaign.damaged().items():
        print(f"damaged: {run_id}: {reason}; set aside, it is made anew", flush=True)
    total, jobs, missing = len(plan.campaign.wanted), request.jobs, plan.campaign.missing()
    if missing and all(load_testbed(name).real_time for name in {spec.testbed for spec in missing.values()}):
        jobs = 1  # they follow one by one
    on_spark = request.executor == SPARK
    where = request.master if on_spark else f"{jobs} process{'es' * (jobs != 1)}"
    with RunProgress(missing, total, jobs, where, request.is_quiet) as progress:

        def tell(finished: Finished) -> None:
            progress.finished(finished)
            if notify is not None:
                notify(finished)

        if not on_spark:
            return plan.campaign.run(LocalExecutor(request.jobs), tell)
        from analysis.spark import java_answers

        with java_answers():
            return plan.campaign.run(_spark_executor(request, progress.say), tell)


def _spark_executor(request: RunRequest, say: Callable[[str], None]) -> Executor:
    from analysis.spark import session
    from collectors.packs import RunPacks
    from harness.executors.spark import SparkExecutor

    packs = RunPacks(hadoop_place(request.packs, request.spark_conf), say) if request.packs else None
    return SparkExecutor(lambda: session(request.master, request.spark_conf).sparkContext, packs)


def check_results(out: Path) -> None:
    """SpecError where nothing has been made yet."""
    if not figure_folders(out) and not finished_runs(out):
        raise SpecError(f"{out}: no results there", "ratebed run makes some; --out names another folder")


def sections(out: Path) -> dict[str, Json]:
    """What every figure left in ``out``, by name (``srtm-fig4``, ``srtm-fig4@mininet-small``).

    MachineError where one is not as it was written.
    """
    return {folder.name: section_of(folder) for folder in figure_folders(out)}


def whole_sections(out: Path) -> tuple[dict[str, Json], list[str]]:
    """Those of ``sections`` that are as they were written, and what is said of the others."""
    described, damaged = {}, []
    for folder in figure_folders(out):
        try:
            described[folder.name] = section_of(folder)
        except MachineError as damage:
            damaged.append(str(damage))
    return described, damaged


def figure_folders(out: Path) -> list[Path]:
    """The folders in which figures left something: tables whose section is gone are damaged, too."""
    # A mark beside them goes while others look: nobody looks into it.
    folders = sorted(path for path in (out / "tables").glob("*") if path.is_dir() and not is_partial(path))
    return [folder for folder in folders if (folder / SECTION).exists() or any(folder.glob("*.parquet"))]


@contextmanager
def being_written(folder: Path) -> Iterator[None]:
    """While inside, no reader takes the folder of a figure for damaged: a folder beside it says who writes there."""
    mark = partial_of(folder)
    mark.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # somebody has removed everything
            mark.rmdir()


def _writers(folder: Path) -> list[str]:
    """The marks beside the folder of processes that write it, or may."""
    names = (path.name for path in folder.parent.glob(f"*{PARTIAL}*"))
    return [name for name in names if name.partition(PARTIAL)[0] == folder.name and not is_dead(name)]


def section_of(folder: Path) -> Json:
    """What a figure left in its folder, all of whose tables are there as they were written; else MachineError."""
    writers = _writers(folder)
    try:
        section = json.loads((folder / SECTION).read_bytes())
    except (OSError, ValueError, RecursionError):
        section = None
    there = {path.name: _digest_of(path) for path in folder.glob("*.parquet")}
    written: Json = section.get(TABLES, {}) if is_sealed(section) else {**there, SECTION: "another"}
    if there != written or section["name"] != folder.name:
        differing = sorted(name for name in {*there, *written} if there.get(name) != written.get(name))
        what = f"{folder}: {', '.join(differing) or SECTION} is not as it was written"
        if writers := writers or _writers(folder):
            raise MachineError(f"{what}: another command writes it just now", f"wait until it has ended: {writers[0]}")
        command = section["command"] if is_sealed(section) else f"ratebed run {re.split('[@~]', folder.name)[0]}"
        raise MachineError(what, f"remove the folder and run `{command}` again")
    # What sections did not have when this one was written.
    empty = {"readings": {}, "settings": {}, "drawing": {}, "claims": [], "fitted_on": [], "place": ""}
    return {**empty, **section}


def _digest_of(path: Path) -> str:
    try:
        return digest_of(path.read_bytes())
    except OSError as error:  # it has just gone
        return str(error.strerror)


def tables_of(out: Path, name: str) -> "dict[str, pd.DataFrame]":
    """The tables of a figure by its name, table -> frame; ``section_of`` says whether they are as they were written."""
    import pandas as pd

    return {path.stem: pd.read_parquet(path) for path in sorted((out / "tables" / name).glob("*.parquet"))}
