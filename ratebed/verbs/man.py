"""``ratebed man``: the manual page."""

import shutil
import subprocess
import sys

import typer

from paper_figs import FIGURES
from ratebed.declared import declared, params_of


def man(context: typer.Context) -> None:
    """The manual page of all verbs: opened where there is a terminal and man, else printed, as for > ratebed.1."""
    from ratebed.manual import page

    text = page(context.find_root(), params_of(declared(tuple(FIGURES))))
    if sys.stdout.isatty() and shutil.which("man"):
        subprocess.run(["man", "--local-file", "-"], input=text.encode(), check=False)
    else:
        print(text, end="")
