"""The table of figures in paper_figs/README.md is the registry."""

import re
from pathlib import Path

import paper_figs
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
