"""The words of the command line: verbs in the order of work, a file each in ``ratebed.verbs``."""

import typer

from ratebed.verbs import audit as audit_
from ratebed.verbs import calibrate, claims, clean, compare, doctor, fetch, figures, listing, plan, run, show, soak
from ratebed.verbs import readings as readings_
from ratebed.verbs import threshold as threshold_
from ratebed.verbs import verify as verify_

app = typer.Typer(
    help="Compare systems that spread load and limit rates across many hosts.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
_EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}  # options that a figure declares

app.command("list")(listing.list_)
app.command("plan", context_settings=_EXTRA)(plan.plan)
app.command("run", context_settings=_EXTRA)(run.run)
app.command("figures", context_settings=_EXTRA)(figures.figures)
app.command("readings")(readings_.readings)
app.command("claims")(claims.claims)
app.command("fetch")(fetch.fetch)
app.command("compare")(compare.compare)
app.command("show")(show.show)
app.command("soak")(soak.soak)
app.command("verify")(verify_.verify)
app.command("audit")(audit_.audit)
app.command("threshold")(threshold_.threshold)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)
app.command("clean")(clean.clean)
