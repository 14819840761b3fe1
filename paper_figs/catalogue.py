"""Which figures and claims there are beside results: the tree's, and those from outside that the results are of."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from analysis.verdicts import Claim, rank_of
from core.errors import SpecError
from core.records import Json
from core.registry import lookup
from paper_figs import CLAIM_LETTERS, FIGURES, OTHER_CLAIMS, all_claims, load_figure
from paper_figs.figure import Figure
from paper_figs.outside import check_claim


@dataclass(frozen=True)
class Catalogue:
    """Every figure and claim that results in a folder may be of."""

    figures: Mapping[str, Figure]  # by key: the tree's, then those from outside that left something there
    claims: tuple[Claim, ...]  # in their order
    lost: Mapping[str, str]  # key of a figure from outside, or where claims were -> why there are none any more


def catalogue(sections: Iterable[Json], claims: Iterable[str] = ()) -> Catalogue:
    """The tree's figures and claims, and those that these sections of results say that they are from.

    ``claims``: more of them, each as ``load_claims`` takes it.  SpecError where two claims have one id.
    """
    figures = {key: load_figure(key) for key in FIGURES}
    lost: dict[str, str] = {}
    sections = list(sections)
    for key, place in {section["key"]: section["place"] for section in sections}.items():
        if key not in FIGURES:
            try:
                figures[key] = load_figure(place or key)
            except SpecError as error:
                lost[key] = str(error)
    added = own_claims(figures.values())
    known = figures.keys() | lost.keys()
    for place in claims:
        added += load_claims(place, known)
    for place in dict.fromkeys(place for section in sections for place in section["claims"]):
        try:
            added += load_claims(place, known)
        except SpecError as error:
            lost[place] = str(error)
    return Catalogue(figures, joined_claims(added), lost)


def own_claims(figures: Iterable[Figure]) -> list[Claim]:
    """The claims of those figures that are from outside."""
    return [claim for figure in figures if figure.key not in FIGURES for claim in figure.claims]


def joined_claims(added: Iterable[Claim]) -> tuple[Claim, ...]:
    """The tree's claims and others, in their order; SpecError where two have one id."""
    by_id = {claim.id: claim for claim in all_claims()}
    for claim in added:
        if by_id.setdefault(claim.id, claim) != claim:
            raise SpecError(f"claim {claim.id} is declared twice: {claim.sentence!r}", "call one of them otherwise")
    return tuple(sorted(by_id.values(), key=lambda claim: rank_of(claim.id)))


def load_claims(place: str, figures: Collection[str]) -> tuple[Claim, ...]:
    """The claims of ``"path.py:CLAIMS"``, or of an installed package, about some of ``figures``; else SpecError."""
    claims = lookup("claims", OTHER_CLAIMS, place)
    if not isinstance(claims, tuple | list) or not all(isinstance(claim, Claim) for claim in claims):
        raise SpecError(f"{place} is no list of claims", "it must be a tuple of analysis.verdicts.Claim")
    for claim in claims:
        check_claim(claim, place, figures, CLAIM_LETTERS)
    return tuple(claims)
