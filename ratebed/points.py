"""Points from Python: specs, and their runs, by the machinery of ``ratebed run``.

Processes that make runs import the program that asks for them: keep the call of ``run`` in a script under
``if __name__ == "__main__":``, or give ``jobs=1``.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from core.errors import HarnessError, SpecError, quoted
from harness.matrix import ad_hoc, read_matrix
from paper_figs.light import Frame
from ratebed.options import SEED, make_request
from ratebed.progress import describe
from studies.spec import RunSpec


def point(
    system: str,
    workload: str,
    topology: str = "",
    set: Mapping[str, object] | None = None,
    repetitions: int = 1,
    seed: int = SEED,
) -> list[RunSpec]:
    """The specs of one point, a seed each; SpecError for what cannot be run.

    ``topology``: empty: ``srtm-lan``.
    ``set``: what ``--set`` takes, ``{"workload.publishers": 50, "slo": "2ms", "testbed": "local"}``.
    """
    words = [f"{name}={_text(name, value)}" for name, value in (set or {}).items()]
    return ad_hoc(system, workload, topology, words, repetitions, seed)


def matrix(path: Path | str, seed: int = SEED) -> list[RunSpec]:
    """The specs of a matrix file; SpecError names the file, the grid and the key that is wrong."""
    return read_matrix(Path(path), seed)


def run(specs: Sequence[RunSpec], out: Path | str = "out", jobs: int = 0, quiet: bool = True) -> Frame:
    """Run what is not in ``out`` yet, ``jobs`` at a time (0: one a core); a row a run and metric.

    Rows have percentiles, or a limiter's decisions, and how valid their run is.  A run that failed is a HarnessError,
    once all others are done: these stay, and ``load(out)`` has them.
    """
    import pandas as pd

    from ratebed.produce import made_points

    made = made_points(specs, make_request((), False, "quick", SEED, jobs, Path(out), (), is_quiet=quiet))
    if made.failures:
        first = made.failures[0]
        what = (
            f"{len(made.failures)} of {len(made.wanted)} runs failed, the first: {describe(first.spec)}: {first.error}"
        )
        where = "" if Path(out) == Path("out") else f" --out {out}"
        raise HarnessError(what, f"ratebed show {first.run_id}{where} tells more; the others are in {out}")
    return pd.DataFrame(made.judged_rows)


def _text(name: str, value: object) -> str:
    """A value as ``--set`` has it: of options in JSON, of axes as it is."""
    try:
        return json.dumps(value, default=_plain) if "." in name else str(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(
            f"set {name} = {quoted(value)}: {error}", "give a number, text, or a list or dict of them"
        ) from None


def _plain(value: object) -> object:
    """A path as text, and what NumPy has as numbers; TypeError for what JSON does not know."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no value of an option")
