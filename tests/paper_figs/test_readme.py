"""The table of figures in paper_figs/README.md is the registry, and README.md names those that want hosts."""

import re
from pathlib import Path

import paper_figs
from harness.experiment import SCALES
from paper_figs import FIGURES, PAPERS, load_figure


def row(key: str) -> str:
    """A figure's line of the table."""
    figure = load_figure(key)
    claims = " ".join(claim.id for claim in figure.claims) or "none"
    return f"| `{key}` | {figure.experiment.title} | {figure.experiment.source} | {claims} |"


def test_table_is_the_registry() -> None:
    text = Path(paper_figs.__file__).with_name("README.md").read_text()
    listed = [line for line in text.splitlines() if re.match(rf"\| `({'|'.join(PAPERS)})[-`]", line)]
    assert listed == [row(key) for key in FIGURES]


def wants_hosts(key: str) -> list[bool]:
    """By scale, whether runs of a figure are not for virtual time."""
    experiment = load_figure(key).experiment
    options = {option.name: option.default for option in experiment.options}
    return [any(spec.testbed != "virtual" for spec in experiment.points(scale, options)) for scale in SCALES.values()]


def test_figures_that_are_there_on_hosts_alone_are_those_that_are_listed() -> None:
    text = Path(paper_figs.__file__).parents[1].joinpath("README.md").read_text()
    listed = re.search(r"(`limiters-live`, .*?), and the points of (\S+) beside its lines", text, re.DOTALL)
    assert listed is not None
    whole, partly = (re.findall(r"`([\w.-]+)`", names) for names in listed.groups())
    wanting = {key: wants_hosts(key) for key in FIGURES}
    assert sorted(whole) == sorted(key for key, scales in wanting.items() if all(scales))
    assert partly == [key for key, scales in wanting.items() if any(scales) and not all(scales)]
