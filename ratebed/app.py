"""The words of the command line: verbs in the order of work, a file each in ``ratebed.verbs``."""

from typing import Annotated

import typer

from ratebed.declared import FigureCommand
from ratebed.verbs import advise as advise_
from ratebed.verbs import audit as audit_
from ratebed.verbs import (
    calibrate,
    claims,
    clean,
    compare,
    diff,
    doctor,
    fetch,
    figures,
    listing,
    man,
    plan,
    run,
    show,
    soak,
)
from ratebed.verbs import readings as readings_
from ratebed.verbs import report as report_
from ratebed.verbs import store as store_
from ratebed.verbs import threshold as threshold_
from ratebed.verbs import verify as verify_

app = typer.Typer(
    help="Compare systems that spread load and limit rates across many hosts.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        from harness.code_version import commit

        typer.echo(f"ratebed {version('ratebed')}, commit {commit()}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="which version, of which commit", is_eager=True, callback=_say_version)
]


@app.callback()
def _root(version: Version = False) -> None:
    """What stands before a verb."""


_MORE = "Figures have options of their own: name one before --help."

app.command("list")(listing.list_)
app.command("plan", cls=FigureCommand, epilog=_MORE)(plan.plan)
app.command("run", cls=FigureCommand, epilog=_MORE)(run.run)
app.command("figures", cls=FigureCommand, epilog=_MORE)(figures.figures)
app.command("readings")(readings_.readings)
app.command("claims")(claims.claims)
app.command("report")(report_.report)
app.command("fetch")(fetch.fetch)
app.command("compare")(compare.compare)
app.command("diff")(diff.diff)
app.command("show")(show.show)
app.command("soak")(soak.soak)
app.command("verify")(verify_.verify)
app.command("store")(store_.store)
app.command("advise")(advise_.advise)
app.command("audit")(audit_.audit)
app.command("threshold")(threshold_.threshold)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)
app.command("clean")(clean.clean)
app.command("man")(man.man)
