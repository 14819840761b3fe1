"""Draws each figure as soon as its runs are there, beside those of others that still go on.

Runs leave a processor idle at times, and drawing does so more often: together they take less time than one after the
other.  Two figures' tables are computed at a time, one core planning a query while the other carries one out; one
thread draws.  Runs in real time are left alone: all is drawn after them.
"""

import json
import re
import shutil
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING

from collectors.integrity import verified, verified_brief
from collectors.store.keeping import Store
from core.digests import digest_of, sealed
from core.errors import MachineError, described
from core.files import loaded_modules
from core.records import Json
from core.writing import replace_file
from harness.code_version import commit
from harness.executors.api import Finished
from paper_figs.saving import save
from ratebed.behind import COMMITS, UNKNOWN
from ratebed.kept import DRAWING, LOOK, ORIGIN, kept_drawing, kept_tables, look_of, note_code, origin_of
from ratebed.options import RunRequest
from ratebed.pipeline import SECTION, TABLES, CampaignPlan, being_written, section_of
from ratebed.settings import readings_among
from testbed import load_testbed
from testbed.brokers.model import load_calibration
from testbed.trust.evidence import INVALID, VALID

if TYPE_CHECKING:
    from analysis.verdicts import Tables

AGGREGATIONS_AT_A_TIME = 2


@dataclass
class _Outcome:
    """What came of one figure."""

    run_ids: list[str] = field(default_factory=list)  # drawn
    failed: dict[str, str] = field(default_factory=dict)  # run -> why
    doubtful: dict[str, list[str]] = field(default_factory=dict)  # run -> degraded or invalid, and the reasons
    skipped: str = ""  # why there is no drawing
    notes: list[str] = field(default_factory=list)  # of the runs' topologies: tables that were mended
    sheets: list[Json] = field(default_factory=list)  # tables in the drawing
    drawing: Json = field(default_factory=dict)  # its files, and what it looks like
    commits: set[str] = field(default_factory=set)  # whose code made the runs
    origin: str = ""  # of its tables
    tables: "Tables" = field(default_factory=dict)  # to be written
    files: Json = field(default_factory=dict)  # of tables, those that are there already


class Studio:
    """The figures of a plan.  Tell it of runs as they finish; ``finish`` draws the rest.

    Invalid runs are left out unless ``request.plot_invalid``.
    """

    def __init__(self, plan: CampaignPlan, request: RunRequest):
        from analysis.spark import long_work

        most = max(map(len, plan.run_ids.values()), default=0)
        spark_conf = {**long_work(request.master, most), **request.spark_conf}
        self.plan, self.request = plan, replace(request, spark_conf=spark_conf)
        note_code(plan.run_ids)
        self._errors: dict[str, str] = {}
        missing = plan.campaign.missing()
        drawn = {key: ids for key, ids in plan.run_ids.items() if key not in plan.skipped}
        self._awaited = {key: {run_id for run_id in ids if run_id in missing} for key, ids in drawn.items()}
        self._alone = any(load_testbed(spec.testbed).real_time for spec in missing.values())
        self._tables = ThreadPoolExecutor(AGGREGATIONS_AT_A_TIME)
        self._painter = ThreadPoolExecutor(1)
        self._painted: dict[str, Future[str]] = {}  # figure -> why it is not drawn
        self._kept: dict[str, Json] = {}  # figures whose tables are those that are there: their files
        self._has_session = False  # of Spark, which is stopped at the end
        self._using = ExitStack()
        self._store: Store | None = None

    def __enter__(self) -> "Studio":
        if any(self._awaited.values()) or any(self.plan.run_ids[key] for key in self._awaited):
            self._store = self._using.enter_context(self.request.store.in_use())
        for key, reason in self.plan.skipped.items():
            if not _is_drawn(self.request.out / "tables" / self.plan.settings[key].name(key)):  # else it stays
                self._write_section(key, _Outcome(skipped=reason))
        if not self._alone and any(self._awaited.values()):
            from analysis.spark import warm_up

            Thread(target=warm_up, args=(self.request.master, self.request.spark_conf), daemon=True).start()
        for key, awaited in self._awaited.items():
            if not awaited and not self._alone:
                self._begin(key)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tables.shutdown(cancel_futures=True)
        self._painter.shutdown(cancel_futures=True)
        if self._has_session:
            from analysis.spark import java_answers, session

            with suppress(MachineError), java_answers():  # it may have ended before
                session(self.request.master, self.request.spark_conf).stop()
        self._using.close()

    def finished(self, run: Finished) -> None:
        """A run came home: figures that it was the last of are drawn, those with a failed one wait for ``finish``."""
        if run.error:
            self._errors[run.run_id] = run.error
        for key, awaited in self._awaited.items():
            if run.run_id in awaited:
                awaited.discard(run.run_id)
                if not awaited and not self._alone and not any(i in self._errors for i in self.plan.run_ids[key]):
                    self._begin(key)

    def finish(self) -> dict[str, str]:
        """Draw what is left; returns the figures that could not be drawn, and why."""
        for key in self._awaited:
            if key not in self._painted:
                self._begin(key)
        problems = {key: painted.result() for key, painted in self._painted.items()}
        return {key: problems[key] for key in self._awaited if problems[key]}

    def _begin(self, key: str) -> None:
        """Compute a figure's tables, and draw them."""
        outcome = self._outcome(key)
        analytic = self.request.figures[key].experiment.analytic
        coming = self._tables.submit(self._compute, key, outcome) if analytic or outcome.run_ids else None
        self._painted[key] = self._painter.submit(self._paint, key, outcome, coming)

    def _outcome(self, key: str) -> _Outcome:
        missing, runs = self.plan.campaign.missing(), self.request.out / "runs"
        outcome, notes, seals = _Outcome(), dict[str, None](), dict[str, str]()
        for run_id in self.plan.run_ids[key]:
            if run_id in missing:
                outcome.failed[run_id] = self._errors.get(run_id, "not run")
                continue
            run = verified_brief(f"{runs}/{run_id}")
            notes |= dict.fromkeys(run.topology_notes)
            if run.validity != VALID:
                outcome.doubtful[run_id] = [run.validity, *run.validity_reasons]
            if run.validity != INVALID or self.request.plot_invalid:
                outcome.run_ids.append(run_id)
                outcome.commits.add(verified(runs / run_id).get("commit", UNKNOWN))
                seals[run_id] = run.seal
        outcome.notes, outcome.origin = said_once(notes), origin_of(seals, key)
        return outcome

    def _compute(self, key: str, outcome: _Outcome) -> "Tables":
        from analysis.spark import java_answers, session
        from analysis.tables import Data, load

        figure, runs = self.request.figures[key], self.request.out / "runs"
        if figure.place:
            from pyspark import cloudpickle

            for module in loaded_modules():  # Spark's workers cannot import it: they are sent what they need of it
                cloudpickle.register_pickle_by_value(module)
        name = self.plan.settings[key].name(key)
        if not figure.place and (kept := kept_tables(self.request.out, name, outcome.origin)) is not None:
            self._kept[name] = section_of(self.request.out / "tables" / name)[TABLES]
            return kept
        if figure.experiment.analytic:
            return figure.tables(Data(None, ()))
        with java_answers():
            spark = session(self.request.master, self.request.spark_conf)
            self._has_session = True
            return figure.tables(load(spark, [runs / run_id for run_id in sorted(outcome.run_ids)], self._store))

    def _paint(self, key: str, outcome: _Outcome, coming: "Future[Tables] | None") -> str:
        """Draw one figure as soon as its tables are there; returns what went wrong, so that the others can go on."""
        if coming is not None:
            outcome.skipped = self._draw(key, coming, outcome)
        elif outcome.doubtful:
            outcome.skipped = f"all of its runs are invalid: {'; '.join(next(iter(outcome.doubtful.values()))[1:])}"
        else:
            outcome.skipped = "none of its runs worked"
        self._write_section(key, outcome)
        return outcome.skipped

    def _draw(self, key: str, coming: "Future[Tables]", outcome: _Outcome) -> str:
        setting, out = self.plan.settings[key], self.request.out
        name, run_count = setting.name(key), len(outcome.run_ids)
        figure = self.request.figures[key]
        lacking = self.plan.lacking.get(key, [])
        without = f"Not on this machine: {'; '.join(lacking)}" if lacking else ""
        footnotes = [*filter(None, [setting.title, without]), *outcome.notes]
        look, drawing = look_of(footnotes), None
        try:
            tables = coming.result()
            if name in self._kept and (section := kept_drawing(out, name, look)):
                outcome.sheets, outcome.drawing = section["sheets"], section[DRAWING]
            elif self.request.draws:
                if not self.request.is_quiet:
                    print(f"drawing {name} ({run_count} runs)" if run_count else f"drawing {name}", flush=True)
                drawing = figure.draw(tables)
                if footnotes:
                    drawing.supxlabel("\n".join(footnotes), fontsize=7, x=0.99, ha="right", color="#555555")
        except OSError:
            raise
        except Exception as error:
            return described(error)
        if drawing is not None:
            from paper_figs.sheets import sheets_of

            outcome.sheets = sheets_of(drawing)
            files = {path.name: digest_of(path.read_bytes()) for path in save(drawing, out / "figures", name)}
            outcome.drawing = {**files, LOOK: look}
        outcome.tables, outcome.files = tables, self._kept.get(name, {})
        return ""

    def _write_section(self, key: str, outcome: _Outcome) -> None:
        """The figure's tables, and what the report needs to know of it besides: the two are in one moment."""
        setting = self.plan.settings[key]
        folder = self.request.out / "tables" / setting.name(key)
        section = {
            "name": folder.name,
            "key": key,
            "place": self.request.figures[key].place,
            "claims": list(self.request.claims),
            "testbed": setting.testbed,
            "setting": setting.suffix,
            "readings": setting.readings,
            "settings": setting.settings,
            "where": setting.title,
            "run_ids": outcome.run_ids,
            "failed": outcome.failed,
            "doubtful": outcome.doubtful,
            "skipped": outcome.skipped,
            "notes": outcome.notes,
            "sheets": outcome.sheets,
            DRAWING: outcome.drawing,
            "lacking": self.plan.lacking.get(key, []),
            "scale": self.request.scale.name,
            "seed": self.request.seed,
            "repetitions": self.request.repetitions,
            "calibration": self.request.calibration,
            "fitted_on": self._fitted_on(key),  # claims
            "command": self.request.command(key),
            COMMITS: sorted({*outcome.commits, commit()}),  # ours made the tables, or is as that which did
            ORIGIN: outcome.origin,
        }
        with being_written(folder):
            section[TABLES] = outcome.files or _written(outcome.tables, folder)
            replace_file(folder / SECTION, json.dumps(sealed(section), indent=2).encode())

    def _fitted_on(self, key: str) -> list[str]:
        """Claims that a calibration of the figure's points, or a reading of its source, was made from."""
        wanted, chosen = self.plan.campaign.wanted, self.plan.settings[key].readings
        costs = {wanted[run_id].calibration for run_id in self.plan.run_ids[key]}
        readings = readings_among(self.request.figures[key].experiment.options)
        made_from = [load_calibration(name).fitted_on for name in costs]
        made_from += [reading.fitted_on.get(reading.of(chosen), ()) for reading in readings]
        return sorted({claim for claims in made_from for claim in claims})


def _is_drawn(folder: Path) -> bool:
    """Whether a figure has runs there; one that is damaged, or that another command writes just now, may have some."""
    try:
        return (folder / SECTION).is_file() and bool(section_of(folder)["run_ids"])
    except MachineError:
        return True


def _written(tables: "Tables", folder: Path) -> Json:
    """Write a figure's tables, and no others: their files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {f"{table}.parquet": frame.to_parquet(index=False) for table, frame in tables.items()}
    for file, content in files.items():
        replace_file(folder / file, content)
    return {file: digest_of(content) for file, content in files.items()}


def said_once(notes: Iterable[str]) -> list[str]:
    """Notes that differ by their numbers alone become one, with the numbers of each: a figure has many topologies."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for note in notes:
        parts = re.split(r"([0-9.]*[0-9])", note)
        alike.setdefault(tuple(parts[::2]), []).append(parts[1::2])
    said = []
    for words, rows in alike.items():
        numbers = [", ".join(column if len(set(column)) > 1 else column[:1]) for column in zip(*rows, strict=True)]
        said.append("".join(map("".join, zip(words, [*numbers, ""], strict=True))))
    return said
