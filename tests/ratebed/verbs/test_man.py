"""The manual page: all that the help says, in text that groff takes without a warning."""

import re
import shutil
import subprocess
import sys

import pytest
from typer.main import get_command

from paper_figs import FIGURES, load_figure
from ratebed.app import app
from ratebed.manual import escaped


@pytest.fixture(scope="module")
def page() -> str:
    """As ``ratebed man >ratebed.1`` writes it."""
    done = subprocess.run([sys.executable, "-m", "ratebed", "man"], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def read(page) -> str:
    """As a reader has it: words, one space between them, neither bold nor hyphenated."""
    if not shutil.which("groff"):
        pytest.skip("groff is not here: Debian's package groff has it")
    words = ["groff", "-K", "utf8", "-T", "utf8", "-man", "-ww", "-P", "-cbou", "-r", "HY=0", "-r", "LL=400n"]
    done = subprocess.run(words, input=page, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    return " ".join(re.sub("\N{SOFT HYPHEN}|\N{HYPHEN}\n *", "", done.stdout).split())


def test_every_verb_and_option_has_its_words(read):
    root = get_command(app)
    context = root.make_context("ratebed", [], resilient_parsing=True)
    params = list(root.get_params(context))
    for name in root.list_commands(context):
        verb = root.get_command(context, name)
        params += verb.get_params(verb.make_context(name, [], parent=context, resilient_parsing=True))
        assert f"ratebed {name} [OPTIONS]" in read and " ".join(verb.help.split()) in read, name
    assert len(params) > 100
    for names, meaning in filter(None, (param.get_help_record(context) for param in params)):
        assert f"{names} {' '.join(meaning.split())}" in read


def test_options_of_figures_are_there(page):
    names = {option.name for key in FIGURES for option in load_figure(key).experiment.options}
    assert len(names) > 10 and all(escaped(f"--{name} ") in page or escaped(f"--{name}, ") in page for name in names)


@pytest.mark.parametrize("plain", [".TH x", "'brace", r"C:\new", "-x", "a - b", "…"])
def test_text_is_text_alone(plain, read):
    words = ["groff", "-K", "utf8", "-T", "utf8", "-man", "-ww", "-P", "-cbou"]
    page = f'.TH A 1 "" "" ""\n.SH A\n{escaped(plain)}\n'
    done = subprocess.run(words, input=page, capture_output=True, text=True)
    assert plain in done.stdout and not done.stderr
