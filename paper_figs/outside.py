"""Figures and claims from outside the tree are taken where they have names of their own."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from analysis.verdicts import Claim
from core.errors import SpecError
from core.files import is_file
from paper_figs.figure import Figure

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # of a figure and of a claim: folders and links are called so


def checked_figure(figure: object, name: str, trees: Collection[str], letters: Collection[str]) -> Figure:
    """A figure from outside, which knows where it is from; SpecError where it cannot stand beside the tree's.

    ``trees``: the keys of the tree's figures; ``letters``: with which, before a number, the ids of its claims begin.
    """
    if not isinstance(figure, Figure):
        raise SpecError(f"{name} is a {type(figure).__name__}", "it must be a paper_figs.figure.Figure")
    if figure.key in trees or not _NAME.fullmatch(figure.key):
        taken = "is the tree's" if figure.key in trees else "has other letters than a-z, 0-9, . _ + -"
        raise SpecError(f"{name}: the figure's key {figure.key!r} {taken}", "give its Experiment another key")
    for claim in figure.claims:
        check_claim(claim, name, [*trees, figure.key], letters)
    return replace(figure, place=placed(name)) if is_file(name) else figure


def placed(name: str) -> str:
    """``path.py:OBJECT`` wherever one is; another name as it is."""
    path, colon, attribute = name.partition(":")
    return f"{Path(path).resolve()}{colon}{attribute}" if is_file(name) else name


def check_claim(claim: Claim, place: str, figures: Collection[str], letters: Collection[str]) -> None:
    """SpecError where a claim's id looks like one of the tree's, or where its figures are unknown."""
    if claim.family in letters or not _NAME.fullmatch(claim.id):
        fix = f"call it otherwise, as in mine-1: {', '.join(letters)} and a number are the tree's"
        raise SpecError(f"{place}: a claim's id {claim.id!r}", fix)
    if unknown := set(claim.figures) - set(figures):
        raise SpecError(f"{place}: claim {claim.id} reads figures that there are not: {', '.join(sorted(unknown))}",
                        "name the keys of figures")  # fmt: skip
