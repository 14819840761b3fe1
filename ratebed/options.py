"""What several verbs take: common options, and the options that figures declare."""

import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.spark import THIS_MACHINE, Starter, check_master, session
from core.errors import SpecError
from core.records import Options
from core.registry import hint
from harness.experiment import SCALES, Option, Reading, Scale
from paper_figs import FIGURES, load_figure
from paper_figs.catalogue import joined_claims, load_claims, own_claims
from paper_figs.figure import Figure
from paper_figs.outside import placed
from testbed import load_testbed

if TYPE_CHECKING:
    from collectors.store.hadoop import Place
    from collectors.store.keeping import Store

UNDECIDED = 3  # the exit code of an answer that is none
LOCAL, SPARK = EXECUTORS = ("local", "spark")  # where runs are executed
Keys = Annotated[
    list[str] | None,
    typer.Argument(metavar="FIGURE...", help="figures, as in `ratebed list`", autocompletion=lambda: list(FIGURES)),
]
All = Annotated[bool, typer.Option("--all", help="every figure")]
ScaleName = Annotated[str, typer.Option("--scale", metavar="|".join(SCALES), help="how much of each grid")]
Seed = Annotated[int, typer.Option("--seed", help="root of all randomness")]
Repetitions = Annotated[int, typer.Option("--repetitions", help="seeds of each point; 0 = as the scale says, or one")]
Jobs = Annotated[int, typer.Option("--jobs", help="runs at a time; 0 = one a core")]
Out = Annotated[Path, typer.Option("--out", help="folder for runs, tables, figures, report")]
Testbed = Annotated[str, typer.Option("--testbed", help="where to run; empty = as the figures say")]
DockerDaemon = Annotated[
    str, typer.Option("--docker-daemon", metavar="private|running", help="of testbed docker; empty = a private one")
]
Inventory = Annotated[str, typer.Option("--inventory", metavar="FILE", help="the machines of the testbed ssh")]
Calibration = Annotated[
    str, typer.Option("--calibration", help="model costs: a name or a .toml file; empty = the figure's")
]
SparkMaster = Annotated[str, typer.Option("--spark-master", help="the Spark cluster; empty = this machine")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="KEY=VALUE", help="a setting of Spark's, as spark.executor.memory=2g"),
]
Packs = Annotated[
    str, typer.Option("--packs", metavar="URL", help="where the cluster's workers bring runs, if hosts share no folder")
]
ExecutorName = Annotated[
    str, typer.Option("--executor", metavar="|".join(EXECUTORS), help="runs: processes here, or the Spark cluster's")
]
Claims = Annotated[
    list[str] | None, typer.Option("--claims", metavar="path.py:CLAIMS", help="more claims, from outside the tree")
]
PlotInvalid = Annotated[bool, typer.Option("--plot-invalid", help="draw and judge runs that found themselves invalid")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress: results and what went wrong alone")]
# Of verbs that read a service's log.
UserPattern = Annotated[
    str, typer.Option("--pattern", help="a regular expression: its first group in the user's column is the user")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="pass over lines that are no requests, and count them")]
_SETTING = re.compile(r"spark\.[\w./-]+")  # labels of Kubernetes have slashes
_NO_SETTINGS = {
    "spark.master": "use --spark-master",
    "spark.submit.deployMode": "the command is the driver: it writes reports to this machine",
}
JOBS_MAXIMUM = 1_024  # processes of 400 MB each
SEED_LIMIT = 2**63
SEED = 2  # of what is shown unless somebody asks for another; nobody had looked at it when the readings were fixed
AsJson = Annotated[bool, typer.Option("--json", help="for machines")]


@dataclass(frozen=True)
class RunRequest:
    """What the user asked for, checked."""

    keys: tuple[str, ...]
    scale: Scale
    seed: int
    out: Path
    jobs: int
    testbed: str = ""  # empty: as the specs say
    calibration: str = ""
    spark_master: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    executor: str = LOCAL
    packs: str = ""
    extra_system: str = ""  # joins the figures' grids
    figures: Mapping[str, Figure] = field(default_factory=dict)  # by key
    claims: tuple[str, ...] = ()  # about these figures, beside their own, each ``path.py:CLAIMS``
    figure_options: Mapping[str, Options] = field(default_factory=dict)  # key -> option -> value
    extra: tuple[str, ...] = ()  # the figure options as typed, for the command in the report
    every: bool = False  # all figures: those of live testbeds are left out
    plot_invalid: bool = False
    testbed_options: Options = field(default_factory=dict)  # of live runs
    settings: Options = field(default_factory=dict)  # other options of the figures' points: "system.band" -> 0.5
    draws: bool = True  # else a figure's tables are enough
    repetitions: int = 0  # of each point of a figure; 0: as the scale says
    is_quiet: bool = False  # results alone are said

    @property
    def master(self) -> str:
        """The Spark cluster."""
        return self.spark_master or THIS_MACHINE

    @property
    def store(self) -> "Store":
        """The table store of its runs."""
        return store_of(self.out, self.packs, self.spark_conf)

    def command(self, key: str) -> str:
        """The command that makes the figure ``key`` again."""
        figure = self.figures[key]
        words = [
            "ratebed",
            "run",
            shlex.quote(figure.place or key),
            "--scale",
            self.scale.name,
            "--seed",
            str(self.seed),
        ]
        if self.repetitions:
            words += ["--repetitions", str(self.repetitions)]
        if self.testbed:
            words += ["--testbed", self.testbed]
        settings = {**{f"testbed.{name}": value for name, value in self.testbed_options.items()}, **self.settings}
        for name, value in settings.items():
            words += ["--set", shlex.quote(f"{name}={value if isinstance(value, str) else json.dumps(value)}")]
        if self.extra_system:
            words += ["--system", shlex.quote(self.extra_system)]
        if self.plot_invalid:
            words += ["--plot-invalid"]
        if self.calibration:
            words += ["--calibration", self.calibration]
        for place in self.claims:
            words += ["--claims", shlex.quote(place)]
        declared = {option.name for option in figure.experiment.options}
        flags = _flags(figure.experiment.options for figure in self.figures.values())
        for flag, value in _pairs(self.extra, flags):
            if flag in declared:
                on_off = {"yes": f"--{flag}", "no": f"--no-{flag}"} if flag in flags else {}
                words += [on_off[value]] if on_off else [f"--{flag}", value]
        return " ".join(words)


def make_request(
    keys: Sequence[str] | None,
    every: bool,
    scale: str,
    seed: int,
    jobs: int,
    out: Path,
    extra: Sequence[str],
    plot_invalid: bool = False,
    testbed_options: Options | None = None,
    settings: Options | None = None,
    draws: bool = True,
    repetitions: int = 0,
    is_quiet: bool = False,
    claims: Sequence[str] | None = None,
    spark_conf: Sequence[str] | None = None,
    **others: str,
) -> RunRequest:
    """Check the words of a command; SpecError names the one that is wrong."""
    if scale not in SCALES:
        raise SpecError(f"unknown scale {scale!r}", hint(scale, SCALES))
    load_testbed(others.get("testbed") or "virtual")
    at = dict(testbed_options or {})
    if inventory := others.pop("inventory", ""):
        if others.get("testbed") != "ssh":
            raise SpecError("--inventory belongs to the testbed ssh", "add --testbed ssh")
        at["inventory"] = inventory
    if others.get("spark_master"):
        check_master(others["spark_master"])
    if others.get("executor", LOCAL) not in EXECUTORS:
        raise SpecError(f"unknown executor {others['executor']!r}", hint(others["executor"], EXECUTORS))
    if others.get("executor") == SPARK and jobs:
        raise SpecError("--jobs belongs to the executor local", "--spark-conf spark.cores.max=N bounds a cluster")
    if others.get("packs") and others.get("executor") != SPARK:
        raise SpecError(
            "--packs belongs to the executor spark", "`ratebed store --push URL` brings runs of this machine"
        )
    conf = spark_settings(spark_conf or ())
    if others.get("packs"):
        hadoop_place(others["packs"], conf)
    if not 0 <= jobs <= JOBS_MAXIMUM:
        raise SpecError(f"--jobs {jobs}", f"give 0 to {JOBS_MAXIMUM}")
    if repetitions < 0:
        raise SpecError(f"--repetitions {repetitions}", "give at least 1")
    if not -SEED_LIMIT <= seed < SEED_LIMIT:
        raise SpecError(f"--seed {seed}", "give a number of at most 64 bits")
    chosen = list(FIGURES) if every else list(dict.fromkeys(keys or ()))
    figures = chosen_figures(chosen)
    more = tuple(map(placed, claims or ()))
    joined_claims([*own_claims(figures.values()), *(claim for place in more for claim in load_claims(place, figures))])
    options = figure_options(chosen, extra)
    workers = jobs or core_count()
    return RunRequest(
        tuple(figures), SCALES[scale], seed, out, workers, figures=figures, claims=more, figure_options=options,
        extra=tuple(extra), every=every, plot_invalid=plot_invalid, testbed_options=at, settings=settings or {},
        draws=draws, repetitions=repetitions, is_quiet=is_quiet, spark_conf=conf, **others,
    )  # fmt: skip


def spark_settings(texts: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` texts as settings of Spark's; SpecError for what is none, or has an option of its own."""
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and value and _SETTING.fullmatch(key)):
            raise SpecError(f"--spark-conf {text!r}", "write KEY=VALUE, as in spark.executor.memory=2g")
        if key in _NO_SETTINGS:
            raise SpecError(f"--spark-conf {key}", _NO_SETTINGS[key])
        if settings.setdefault(key, value) != value:
            raise SpecError(f"--spark-conf {key}: {settings[key]} and {value}", "give one of them")
    return settings


def spark_on(master: str, texts: Sequence[str] | None) -> Starter:
    """Starts Spark there, with ``KEY=VALUE`` texts as settings, once it is called; SpecError at once for a bad text."""
    return partial(session, master or THIS_MACHINE, spark_settings(texts or ()))


def hadoop_place(url: str, spark_conf: Mapping[str, str]) -> "Place":
    """A folder, or a URL with Hadoop's settings as Spark has them (``spark.hadoop.fs.s3a.endpoint``).

    Those of the command stand before those of Spark's own file.  SpecError where it is neither.
    """
    from analysis.spark_defaults import spark_defaults
    from collectors.store.hadoop import place_of

    prefix, conf = "spark.hadoop.", {**spark_defaults(), **spark_conf}
    return place_of(url, {key.removeprefix(prefix): text for key, text in conf.items() if key.startswith(prefix)})


def store_of(out: Path, packs: str, spark_conf: Mapping[str, str]) -> "Store":
    """The table store of the runs in ``out``, beside them, or beside the packs, where workers' queries can read it."""
    from collectors.store.keeping import Store

    root = hadoop_place(packs, spark_conf) / "store" if packs else out / "store"
    return Store(root, out / "runs", is_near=not packs)


def choose_docker_daemon(choice: str) -> None:
    """Which daemon the testbed ``docker`` uses in this process; SpecError for one that it does not know."""
    from testbed.hosts.docker.daemon import CHOICE, check_choice

    if choice:
        os.environ[CHOICE] = check_choice(choice)


def core_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chosen_figures(names: Iterable[str]) -> dict[str, Figure]:
    """Figures by key; SpecError for an unknown one, and where two from outside the tree have one key."""
    figures: dict[str, Figure] = {}
    for figure in map(load_figure, names):
        if figures.setdefault(figure.key, figure).place != figure.place:
            raise SpecError(f"two figures are called {figure.key!r}: {figure.place}", "give one another key")
    return figures


def figure_options(keys: Iterable[str], extra: Sequence[str]) -> dict[str, dict[str, object]]:
    """The declared options of each figure by its key, with the values typed; SpecError for one that none declares."""
    declared = {key: figure.experiment.options for key, figure in chosen_figures(keys).items()}
    values: dict[str, dict[str, object]] = {
        key: {option.name: option.default for option in options} for key, options in declared.items()
    }
    known = sorted({option.name for options in declared.values() for option in options})
    for flag, text in _pairs(extra, _flags(declared.values())):
        if flag not in known:
            raise SpecError(f"unknown option --{flag}", hint(flag, known))
        for key, options in declared.items():
            for option in options:
                if option.name == flag:
                    values[key][flag] = _converted(option, text)
    return values


def _flags(declared: Iterable[Iterable[Option]]) -> frozenset[str]:
    """Options of figures that take no value."""
    return frozenset(option.name for options in declared for option in options if option.type is bool)


def _pairs(extra: Sequence[str], flags: Collection[str]) -> list[tuple[str, str]]:
    """``--trace FILE`` and ``--trace=FILE`` as (name, text); a flag stands for ``--flag=yes``."""
    pairs, words = [], list(extra)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise SpecError(f"unexpected word {word!r}", "options start with --")
        name, equals, text = word[2:].partition("=")
        if not equals and name in flags:
            text = "yes"
        elif not equals:
            if not words:
                raise SpecError(f"option --{name} has no value", f"write --{name} VALUE")
            text = words.pop(0)
        pairs.append((name, text))
    return pairs


def _converted(option: Option, text: str) -> object:
    kind, name = option.type, option.name
    if isinstance(option, Reading) and kind is str and text not in option.values:
        raise SpecError(f"--{name} {text!r}", hint(text, [str(value) for value in option.values]))
    if kind is bool:
        if text not in ("yes", "no"):
            raise SpecError(f"--{name} {text!r}", f"write --{name}, or --no-{name}")
        return text == "yes"
    try:
        return kind(text)
    except ValueError:
        raise SpecError(f"--{name} {text!r}", f"give {'an' if kind is int else 'a'} {kind.__name__}") from None
