"""The command line: verbs in the order of work, a file each in ``ratebed.verbs``."""

import signal
import sys
from typing import NoReturn

import typer

from core.errors import HarnessError, MachineError, SpecError
from ratebed.verbs import (
    calibrate,
    claims,
    clean,
    compare,
    doctor,
    fetch,
    figures,
    listing,
    plan,
    run,
    show,
    soak,
    threshold,
)

DONE, FAILED, USAGE, UNDECIDED, INTERRUPTED = 0, 1, 2, 3, 130

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
app.command("claims")(claims.claims)
app.command("fetch")(fetch.fetch)
app.command("compare")(compare.compare)
app.command("show")(show.show)
app.command("soak")(soak.soak)
app.command("threshold")(threshold.threshold)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)
app.command("clean")(clean.clean)


def main() -> NoReturn:
    """Run the command line; errors are one line, exit codes are those of the README."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: live runs take down what they made
    try:
        code = app(standalone_mode=False)
    except HarnessError as error:
        print(f"ratebed: {error}", file=sys.stderr)
        sys.exit(USAGE if isinstance(error, SpecError) else FAILED)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:
        problem = MachineError(
            f"{error.filename or 'output'}: {error.strerror}", "check space and permissions, or use --out"
        )
        print(f"ratebed: {problem}", file=sys.stderr)
        sys.exit(FAILED)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # the command-line library's usage errors
        if usage is None:
            raise
        print(f"ratebed: {usage()}", file=sys.stderr)
        sys.exit(USAGE)
    if code == INTERRUPTED:
        print("ratebed: interrupted; what is finished stays, repeat the command to go on", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else DONE)
