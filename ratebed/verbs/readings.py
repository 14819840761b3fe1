"""``ratebed readings``: the claims under other readings of their sources than those of record."""

from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from core.registry import hint
from paper_figs import FIGURES, load_figure
from ratebed import options as o
from ratebed.settings import other_readings, readings_among

Over = Annotated[
    list[str] | None,
    typer.Option("--over", metavar="NAME=VALUE,VALUE", help="this reading only, with these values; may be repeated"),
]
Together = Annotated[bool, typer.Option("--together", help="every combination of values; else one reading at a time")]

Cell = dict[str, str]  # readings by name, as typed


def readings(
    keys: o.Keys = None,
    over: Over = None,
    together: Together = False,
    scale: o.ScaleName = "quick",
    seed: o.Seed = o.SEED,
    repetitions: o.Repetitions = 0,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    executor: o.ExecutorName = o.LOCAL,
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    packs: o.Packs = "",
) -> int:
    """Judge the claims once in the cell of record and once in every other cell; all figures with readings by default.

    Only the cell of record is drawn.  The report shows the grid beside each claim, ``claims --json`` gives it.
    """
    from ratebed.produce import produce_readings

    chosen = tuple(keys or FIGURES)
    tried = _tried(chosen, over or [])
    requests = []
    for cell in _cells(tried, together):
        extra = [f"--{name}={value}" for name, value in cell.items()]
        there = [key for key in chosen if _stands_in(key, tried, extra)]
        if there:
            words = (there, False, scale, seed, jobs, out, extra)
            request = o.make_request(
                *words, draws=not cell, repetitions=repetitions,
                executor=executor, spark_master=spark_master, spark_conf=spark_conf, packs=packs,
            )  # fmt: skip
            requests.append(request)
    return produce_readings(requests)


def _tried(keys: tuple[str, ...], over: list[str]) -> dict[str, list[str]]:
    """Reading -> the values to try, without that of record; SpecError for one that no figure declares."""
    declared = {
        reading.name: reading for key in keys for reading in readings_among(load_figure(key).experiment.options)
    }
    if not declared:
        raise SpecError(f"{', '.join(keys)}: nothing is left to a reading", "ratebed readings tries all figures")
    tried = {
        name: [str(value) for value in reading.values if value != reading.default] for name, reading in declared.items()
    }
    asked: dict[str, list[str]] = {}
    for text in over:
        name, equals, values = text.partition("=")
        if name not in declared:
            raise SpecError(f"--over {text!r}: unknown reading {name!r}", hint(name, declared))
        asked[name] = values.split(",") if equals else tried[name]
    return asked or tried


def _cells(tried: dict[str, list[str]], together: bool) -> list[Cell]:
    """The cell of record, which is empty, and the others."""
    if not together:
        return [{}, *({name: value} for name, values in tried.items() for value in values)]
    choices = [[{}, *({name: value} for value in values)] for name, values in tried.items()]
    return [{name: value for one in chosen for name, value in one.items()} for chosen in product(*choices)]


def _stands_in(key: str, tried: dict[str, list[str]], extra: list[str]) -> bool:
    """Whether a figure has all readings of a cell; of the cell of record: any of those that are tried."""
    declared = load_figure(key).experiment.options
    names = {reading.name for reading in readings_among(declared)}
    if not extra:
        return bool(names & tried.keys())
    if not {text[2:].partition("=")[0] for text in extra} <= names:
        return False
    (options,) = o.figure_options([key], extra).values()
    return len(other_readings(declared, options)) == len(extra)
