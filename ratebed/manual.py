"""The manual page of the command line, made of the very words of its ``--help``: text for ``man``.

It is made where it is wanted (``ratebed man``; ``make setup`` puts it beside the program), and so is never an old one.
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

EXIT_CODES = (
    ("0", "done; for claims: nothing contradicted"),
    (
        "1",
        "something failed, is contradicted, proven (audit) or surely different (diff), or all that is shown is invalid",
    ),
    ("2", "wrong usage, or bad input"),
    ("3", "undecided (also by advise)"),
    ("130", "interrupted: nothing finished is lost"),
)
VARIABLES = (
    ("RATEBED_TRACEBACK", "1: a fault of Ratebed's own is told in full"),
    ("JAVA_HOME", "the Java that Spark runs on; else .java of the checkout, else that of PATH"),
    ("SPARK_CONF_DIR", "a folder with spark-defaults.conf, for a cluster: docs/cluster.md"),
    ("PYSPARK_PYTHON", "the Python of a cluster's workers; else at the path that it has here"),
    ("TMPDIR", "where Spark keeps what does not fit into memory"),
)
FILES = (
    ("out/runs/ID/", "a folder a run: manifest.json and Parquet tables"),
    ("out/tables/FIGURE/", "what the figure shows, as Parquet tables"),
    ("out/figures/", "every figure, as SVG and PNG"),
    ("out/report/index.html", "the report over all of them"),
)
EXAMPLES = (
    ("ratebed figures --all", "everything that runs in virtual time, from nothing to the report"),
    ("ratebed run srtm-fig7 --seed 7", "one figure, drawn, in the report; repeated, it does only what is missing"),
    ("ratebed run --system srtm --workload periodic --set workload.group_size=20", "one point"),
    ("ratebed run --system lb --workload poisson --set slo=2ms --json", "under another objective, for machines"),
    ("ratebed claims", "what of the papers was reproduced"),
)


def page(context: Any, figure_options: Sequence[Any]) -> str:
    """The page; ``context``: of the whole command line, ``figure_options``: parameters that figures declare."""
    root = context.command
    lines = [
        f'.TH RATEBED 1 "" "ratebed {version("ratebed")}" "User Commands"',
        ".SH NAME",
        f"ratebed \\- {escaped(root.help.rstrip('.').lower())}",
        ".SH SYNOPSIS",
        ".B ratebed",
        r"\fIVERB\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]...",
        ".SH OPTIONS",
        *_entries(param.get_help_record(context) for param in root.get_params(context)),
        ".SH VERBS",
    ]
    for name in root.list_commands(context):
        lines += _verb(root.get_command(context, name), name, context)
    lines += [".SH OPTIONS OF FIGURES", "Of the verbs that take figures; those of one figure:"]
    lines += [r"\fBratebed run \fIFIGURE\fB \-\-help\fR."]
    lines += _entries(param.get_help_record(context) for param in figure_options)
    titled = {"EXIT STATUS": EXIT_CODES, "ENVIRONMENT": VARIABLES, "FILES": FILES, "EXAMPLES": EXAMPLES}
    for title, entries in titled.items():
        lines += [f".SH {title}", *_entries(entries)]
    return "\n".join(lines) + "\n"


def _verb(command: Any, name: str, parent: Any) -> list[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    usage = " ".join(["ratebed", name, *command.collect_usage_pieces(context)])
    told = [paragraph.replace("\n", " ") for paragraph in command.help.split("\n\n")]
    lines = [f".SS {escaped(usage)}"]
    for paragraph in [*told, *filter(None, [command.epilog])]:
        lines += [".PP", escaped(paragraph)]
    return [*lines, *_entries(param.get_help_record(context) for param in command.get_params(context))]


def _entries(records: Any) -> Iterator[str]:
    """A name in bold, and below, indented, what it is; those that are hidden have none."""
    for name, meaning in filter(None, records):
        yield from (".TP", rf"\fB{escaped(name)}\fR", escaped(meaning))


def escaped(plain: str) -> str:
    """Plain text as text alone: nothing in it is a command of roff's, and a dash is the one that is typed."""
    safe = plain.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{safe}" if safe.startswith((".", "'")) else safe
