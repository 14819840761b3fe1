"""A folder of results from Python: figures, runs, claims, and tables as pandas, Arrow or Spark frames.

What is not as it was written is never handed out: a digest that differs is a MachineError that names the file.
"""

import atexit
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from collectors.integrity import verified
from collectors.schema import TABLES
from collectors.store.keeping import Store
from core.errors import SpecError
from core.records import Json, Row
from core.registry import hint
from paper_figs import load_figure
from paper_figs.light import Drawing, Frame, SparkFrame
from ratebed.behind import readable_runs
from ratebed.pipeline import SECTION, check_results, section_of, sections, tables_of
from ratebed.pipeline import TABLES as FILES
from ratebed.validity import standing_of
from studies.spec import CONFIGURED

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["pandas", "arrow", "spark"]
_used = ExitStack()
atexit.register(_used.close)

_OF_SPECS = ("study", "system", "workload", "topology", "testbed", "calibration", "slo", "round", "repetition", "seed")
_OF_MANIFESTS = ("outcome", "started_at", "wall_seconds", "host", "commit")
_OF_SECTIONS = ("key", "testbed", "readings", "settings", "scale", "seed", "skipped", "command")


def load(out: Path | str = "out") -> "Results":
    """The results in a folder; SpecError where there are none."""
    check_results(Path(out))
    return Results(Path(out))


@dataclass(frozen=True)
class Results:
    """What ``ratebed run`` and ``ratebed figures`` left in the folder ``out``.

    Every call reads anew: what is added meanwhile is there.
    """

    out: Path

    def figures(self) -> Frame:
        """A row a figure, by its name: where and how it was made, how many runs it shows, and how many are doubtful."""
        return _frame(
            {
                "figure": name,
                "title": _title(section),
                **{column: section[column] for column in _OF_SECTIONS},
                "run_count": len(section["run_ids"]),
                "doubtful_count": len(section["doubtful"]),
                "failed_count": len(section["failed"]),
            }
            for name, section in sections(self.out).items()
        )

    def runs(self, figure: str = "") -> Frame:
        """A row a finished run, of all or of one figure: its id, validity and why, axes, options, outcome, seconds.

        An option has a column ``axis.name``, as ``--set`` has it; of runs that have no such option it is empty.
        """
        return _frame(map(_run_row, self._manifests(figure)))

    def claims(self) -> Frame:
        """A row a claim and setting, as ``ratebed claims --json`` has them: verdict, what was measured, and why."""
        from analysis.report import claims_json
        from ratebed.judging import in_order, results_by_setting

        return _frame(claims_json(in_order(results_by_setting(self.out))))

    def tables(self) -> list[str]:
        """The names of the figures' tables, ``"srtm-fig7/p99"``."""
        return [
            f"{name}/{Path(file).stem}" for name, each in sections(self.out).items() for file in sorted(each[FILES])
        ]

    @overload
    def table(self, name: str, as_: Literal["pandas"] = "pandas") -> Frame: ...
    @overload
    def table(self, name: str, as_: Literal["arrow"]) -> "pa.Table": ...
    @overload
    def table(self, name: str, as_: Literal["spark"]) -> SparkFrame: ...
    def table(self, name: str, as_: Kind = "pandas") -> "Frame | pa.Table | SparkFrame":
        """A table of a figure by its name, one of ``tables``."""
        if name not in (known := self.tables()):
            raise SpecError(f"no table {name!r} in {self.out}", _meant(name, known))
        figure, _, table = name.rpartition("/")
        return _MADE[_checked(as_)](_arrow(self.out / "tables" / figure / f"{table}.parquet"))

    @overload
    def raw(self, table: str, as_: Literal["pandas"] = "pandas", figure: str = "") -> Frame: ...
    @overload
    def raw(self, table: str, as_: Literal["arrow"], figure: str = "") -> "pa.Table": ...
    @overload
    def raw(self, table: str, as_: Literal["spark"], figure: str = "") -> SparkFrame: ...
    def raw(self, table: str, as_: Kind = "pandas", figure: str = "") -> "Frame | pa.Table | SparkFrame":
        """A table of runs (docs/results.md), of all of them or of those of one figure: ``"latency_histogram"``.

        The runs of many figures have millions of rows: Spark reads them when it is asked for some.
        """
        if table not in TABLES:
            raise SpecError(f"no table {table!r} of runs", hint(table, list(TABLES)))
        folders = [self.out / "runs" / manifest["run_id"] for manifest in self._manifests(figure)]
        if _checked(as_) == "spark":
            from analysis.spark import session
            from analysis.tables import load as spark_tables

            store = _used.enter_context(Store.of(self.out).in_use())  # for as long as somebody may ask the frame
            return spark_tables(session(), folders, store).table(table)
        rows = _joined(table, [path for folder in folders if (path := folder / f"{table}.parquet").is_file()])
        return _MADE[as_](rows)

    def draw(self, figure: str) -> Drawing:
        """A figure as the report has it, drawn from its tables: a drawing of matplotlib's."""
        from matplotlib import get_backend, pyplot, rc_context, use

        section, backend = self._section(figure), get_backend()
        with rc_context():  # the house style is not to be that of what comes after, nor its backend
            drawing = load_figure(section["place"] or section["key"]).draw(tables_of(self.out, figure))
            pyplot.close(drawing)  # a notebook would show it twice
        use(backend)
        return drawing

    def _manifests(self, figure: str) -> list[Json]:
        """Of finished runs that are as they were written."""
        if figure:
            section = self._section(figure)
            return [verified(self.out / "runs" / run_id) for run_id in section["run_ids"]]
        return [verified(folder) for folder in readable_runs(self.out, warnings.warn)]

    def _section(self, figure: str) -> Json:
        folder = self.out / "tables" / figure
        if not (folder / SECTION).is_file() or not (section := section_of(folder))[FILES]:
            known = [name for name, section in sections(self.out).items() if section[FILES]]
            raise SpecError(f"no figure {figure!r} in {self.out}", _meant(figure, known))
        return section


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 3)
    return (f"did you mean {', '.join(close)}? " if close else "") + "tables() has them all"


def _run_row(manifest: Json) -> Row:
    spec = manifest["spec"]
    options = {f"{axis}.{name}": value for axis in CONFIGURED for name, value in spec[f"{axis}_options"].items()}
    standing = standing_of(manifest)
    return {
        "run_id": manifest["run_id"],
        **{axis: spec[axis] for axis in _OF_SPECS},
        **standing.row(),
        **{column: manifest[column] for column in _OF_MANIFESTS},
        **options,
    }


def _title(section: Json) -> str:
    """Of a figure from outside that cannot be loaded any more, its key."""
    try:
        return load_figure(section["place"] or section["key"]).experiment.title
    except SpecError:
        return str(section["key"])


def _frame(rows: Iterable[Row]) -> Frame:
    import pandas as pd

    return pd.DataFrame(list(rows))


def _checked(kind: str) -> str:
    if kind not in _MADE:
        raise SpecError(f"as_={kind!r}", hint(kind, _MADE))
    return kind


def _arrow(path: Path) -> "pa.Table":
    import pyarrow.parquet as pq

    return pq.ParquetFile(path).read()  # a folder's name with "=" in it is no column


def _spark(table: "pa.Table") -> SparkFrame:
    from analysis.spark import session

    return session().createDataFrame(table)


_MADE: dict[str, Callable[["pa.Table"], "Frame | pa.Table | SparkFrame"]] = {
    "pandas": lambda table: table.to_pandas(),
    "arrow": lambda table: table,
    "spark": _spark,
}


def _joined(table: str, paths: Sequence[Path]) -> "pa.Table":
    """The files of many runs, one below the other; without any, no rows of the columns."""
    import pyarrow as pa

    schema = TABLES[table]
    return pa.concat_tables([schema.empty_table(), *(_arrow(path).cast(schema) for path in paths)])
