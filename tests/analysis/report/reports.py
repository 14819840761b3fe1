"""A report as tests write it: two papers, a figure of each kind, claims of every verdict."""

from pathlib import Path

import pandas as pd

from analysis.report import Digitised, FigureSection, PaperEntry, ReportContext, write_report
from analysis.verdicts import Claim, Evidence, Judgement, Result, Tried, above, at_most, judge, within

SVG = (
    '<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg xmlns="http://www.w3.org/2000/svg" width="504pt" height="100pt" '
    'viewBox="0 0 504 100"><style type="text/css">*{stroke-linejoin: round}</style>'
    '<text x="9" y="20">§ drawn &amp; done</text></svg>'
)


def result(name: str, *exact, direction=(), **options) -> Result:
    """A judged claim."""
    measure = None if options.get("needs") else lambda tables: Evidence(tuple(exact), tuple(direction))
    claim = Claim(
        name, f"Fig. {name}", f"sentence of {name} <b>", ("fig-a",), measure, minimum_repetitions=2, **options
    )
    return judge(claim, {})


_READ = within("p99", (1.0, 9.0), 1.0)
RESULTS = [
    result("R1", within("p99 at k=6", (14.0, 14.1, 14.2), 14.7, unit="ms"), fitted=True, why="not shown"),
    result("R2", at_most("p99", (2.0, 2.1, 2.2), 1.05, "ms"), why="because of & that"),
    result("R3", _READ, direction=(above("slope", (1.0, 1.1, 1.05)),)),
    result("R4", *[at_most(f"check {i}", (1.0, 1.0), 2.0) for i in range(5)]),
    result("T5", needs="mininet", testbed="mininet"),
    result("T6", within("one run", (1.0,), 1.0)),
]
TRIED = Tried({"margin": 1.1}, True, Judgement.CONTRADICTED, (within("p99", (4.0, 5.0), 1.0),))
RUNS = [
    {"run_id": run_id, "validity": "valid", "reasons": "", "system": system, "repetition": repetition, "size": 5}
    for run_id, system, repetition in (("aa11", "lb", 0), ("bb22", "srtm", 0), ("cc33", "srtm", 1))
]
TABLES = {
    "runs": pd.DataFrame(RUNS).assign(p99_ms=[1.25, 2.5, 3.5], size=[5, 5, 20]),
    "p99": pd.DataFrame(
        {
            "system": ["lb", "srtm"] * 75, "size": [5, 5, 20, 20, 40, 40] * 25,
            "arrivals": ["poisson"] * 78 + ["periodic"] * 72,
            "mean": [1.0 + n / 10 for n in range(150)], "low": [0.9] * 150, "high": [float("inf")] * 150,
        }
    ),
    "overload": pd.DataFrame(
        {
            "system": ["lb"] * 6, "brokers": [1, 1, 2, 2, 3, 3], "repetition": [0, 1] * 3,
            "p99_ms": [float("inf"), 2.0, 1.0, 3.0, 1.0, 1.0],
        }
    ),
    "decades": pd.DataFrame({"publishers": [2, 50, 1_000], "delay_ms": [0.01, 3.0, 700.0], "wait_ms": [1.0, 2.0, 3.0]}),
}  # fmt: skip
USAGE = pd.DataFrame(
    {
        "run_id": ["aa11"] * 8,
        "process": ["node-n1"] * 4 + ["node-n2"] * 4,
        "at_s": [0.0, 1.0, 2.0, 3.0] * 2,
        "cpu_cores": [None, 0.5, 0.25, 0.5, None, 0.1, 0.1, 0.7],
        "rss_bytes": [2e6] * 8,
        "sent_bytes_per_s": [None] * 8,
    }
)
CURVE = pd.DataFrame({"size": [5, 20], "mean": [1.1, 2.2], "arrivals": ["poisson"] * 2, "series": ["lb", "lb"],
                      "error": [0.1, 0.1], "ours": [1.0, None], "apart": [-0.1, None]})  # fmt: skip
DIGITISED = Digitised("fig7.csv", "size", "mean", CURVE, "p99", ("arrivals",), "Ours is missing: 1 of 2 values.")
SECTIONS = [
    FigureSection(
        "fig-a",
        "First & best",
        "SRTM, Fig. 4",
        SVG,
        command="ratebed run fig-a --seed 1",
        results=RESULTS[:4],
        run_ids=["aa11", "bb22", "cc33"],
        runs=RUNS,
        tables=TABLES,
        sheets=[{"title": "Table 4", "header": ["", "published"], "rows": [["Φ <cr>", "0.99"]]}],
        usage=USAGE,
        notes="calibration <x>",
        texts={"settings": "limit < 20"},
        paper="srtm",
        digitised=[DIGITISED],
        looks={"srtm": ("SRTM", "#009E73")},
    ),
    FigureSection(
        "fig.b@mininet-small~margin=1.1", "Second", "CRDT, Fig. 5", None, skipped="no trace given: --trace FILE",
        run_ids=["bb22"], paper="crdt",
    ),
]  # fmt: skip
PAPERS = (
    PaperEntry("srtm", "First paper", ("R",), "2 of 4 claims reproduced together"),
    PaperEntry("crdt", "Second <one>: its name is longer than a telephone is wide, as names are", ("T",)),
)


def context(**more) -> ReportContext:
    """What the report says about itself."""
    return ReportContext("quick", "7", "commit abc", "2001-02-03", "2 cores", "ratebed figures", papers=PAPERS, **more)


def written(folder: Path, **more) -> Path:
    """The report in ``folder``."""
    write_report(folder / "index.html", SECTIONS, RESULTS, context(**more))
    return folder
