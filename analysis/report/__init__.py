"""The report: a folder that opens from disk and can be sent, without network; all of it is readable without scripts.

``index.html`` has one sentence and every claim; each paper and each figure has a page; ``data/`` holds the numbers of
each figure as CSV and Parquet, ``drawings/`` the vectors, ``assets/`` style and classic scripts, and ``report.json``
the verdicts for machines and for the next report's "changed since".
"""

from analysis.report.claims import claims_json
from analysis.report.contents import Digitised, FigureSection, PaperEntry, ReportContext
from analysis.report.folder import write_report
from analysis.report.frame import write_page

__all__ = [
    "Digitised",
    "FigureSection",
    "PaperEntry",
    "ReportContext",
    "claims_json",
    "write_page",
    "write_report",
]
