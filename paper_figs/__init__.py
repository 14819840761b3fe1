"""START READING HERE: one figure, one file.

Registry: ``FIGURES``, key -> "module:FIGURE", imported on use.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from core.errors import SpecError
from core.files import is_file
from core.registry import known, lookup

if TYPE_CHECKING:
    from analysis.verdicts import Claim
    from paper_figs.figure import Figure

FIGURES = {
    "srtm-prop1": "paper_figs.srtm.prop1:FIGURE",
    "srtm-eq1": "paper_figs.srtm.eq1:FIGURE",
    "srtm-fig4": "paper_figs.srtm.fig4:FIGURE",
    "srtm-fig4-1000": "paper_figs.srtm.fig4:FIGURE_1000",
    "srtm-fig5": "paper_figs.srtm.concentration:FIG5",
    "srtm-fig6": "paper_figs.srtm.concentration:FIG6",
    "srtm-residents": "paper_figs.srtm.concentration:RESIDENTS",
    "srtm-fig7": "paper_figs.srtm.groups:FIG7",
    "srtm-fig8": "paper_figs.srtm.groups:FIG8",
    "srtm-fig9": "paper_figs.srtm.groups:FIG9",
    "srtm-table1": "paper_figs.srtm.table1:FIGURE",
    "srtm-adaptor": "paper_figs.srtm.adaptor:FIGURE",
    "srtm-trace": "paper_figs.srtm.trace:FIGURE",
    "srtm-timestamps": "paper_figs.srtm.timestamps:FIGURE",
    "srtm-gc": "paper_figs.srtm.gc:FIGURE",
    "srtm-wan": "paper_figs.srtm.wan:FIGURE",
    "srtm-sweep": "paper_figs.srtm.sweep:FIGURE",
    "srtm-starts": "paper_figs.srtm.starts:FIGURE",
    "crdt-fig4.1": "paper_figs.crdt.sliding_log:FIG4_1",
    "crdt-fig4.2": "paper_figs.crdt.sliding_log:FIG4_2",
    "crdt-fig4.6": "paper_figs.crdt.data_set_a:FIG4_6",
    "crdt-fig5.1": "paper_figs.crdt.data_set_a:FIG5_1",
    "crdt-fig5.2": "paper_figs.crdt.fig5_2:FIGURE",
    "crdt-fig5.3": "paper_figs.crdt.data_set_a:FIG5_3",
    "crdt-fig5.4": "paper_figs.crdt.data_set_a:FIG5_4",
    "crdt-fig5.5": "paper_figs.crdt.one_user:FIG5_5",
    "crdt-fig5.6": "paper_figs.crdt.one_user:FIG5_6",
    "crdt-fig5.7": "paper_figs.crdt.one_user:FIG5_7",
    "crdt-fig5.8": "paper_figs.crdt.one_user:FIG5_8",
    "crdt-fig5.9": "paper_figs.crdt.one_user:FIG5_9",
    "crdt-fig5.10": "paper_figs.crdt.one_user:FIG5_10",
    "crdt-fig5.11": "paper_figs.crdt.one_user:FIG5_11",
    "crdt-fig5.12": "paper_figs.crdt.one_user:FIG5_12",
    "crdt-fig5.13": "paper_figs.crdt.data_set_c:FIG5_13",
    "crdt-fig5.14": "paper_figs.crdt.data_set_c:FIG5_14",
    "crdt-fig5.15": "paper_figs.crdt.fig5_15:FIGURE",
    "crdt-fig5.16": "paper_figs.crdt.fig5_16:FIGURE",
    "crdt-sensitivity": "paper_figs.crdt.sensitivity:FIGURE",
    "crdt-nodes": "paper_figs.crdt.nodes:FIGURE",
    "crdt-ablations": "paper_figs.crdt.ablations:FIGURE",
    "crdt-erlang": "paper_figs.crdt.erlang:FIGURE",
    "crdt-outlook": "paper_figs.crdt.outlook:FIGURE",
    "dst-fig1-4": "paper_figs.dst.fig1_4:FIGURE",
    "dst-table2": "paper_figs.dst.table2:FIGURE",
    "dst-table3": "paper_figs.dst.table3:FIGURE",
    "dst-table4": "paper_figs.dst.table4:FIGURE",
    "dst-topologies": "paper_figs.dst.topologies:FIGURE",
    "dst-weights": "paper_figs.dst.weights:FIGURE",
    "dst-law": "paper_figs.dst.law:FIGURE",
    "dst-measures": "paper_figs.dst.measures:FIGURE",
    "dst-fig5": "paper_figs.dst.fig5:FIGURE",
    "dst-fig7": "paper_figs.dst.fig7:FIGURE",
    "epulsar-fig2": "paper_figs.epulsar.fig2:FIGURE",
    "epulsar-fig3": "paper_figs.epulsar.fig3:FIGURE",
    "epulsar-overhead": "paper_figs.epulsar.overhead:FIGURE",
    "epulsar-proxies": "paper_figs.epulsar.proxies:FIGURE",
    "epulsar-transient": "paper_figs.epulsar.transient:FIGURE",
    "epulsar-profile": "paper_figs.epulsar.profile:FIGURE",
    "epulsar-fig4": "paper_figs.epulsar.fig4:FIGURE",
    "epulsar-fig5": "paper_figs.epulsar.fig5:FIGURE",
    "epulsar-fig6": "paper_figs.epulsar.fig6:FIGURE",
    "epulsar-fig7": "paper_figs.epulsar.fig7:FIGURE",
    "epulsar-fig8": "paper_figs.epulsar.fig8:FIGURE",
    "epulsar-fig9": "paper_figs.epulsar.fig9:FIGURE",
    "epulsar-placer": "paper_figs.epulsar.placer:FIGURE",
    "drl-frontier": "paper_figs.drl.frontier:FIGURE",
    "drl-keys": "paper_figs.drl.keys:FIGURE",
    "drl-shift": "paper_figs.drl.shift:FIGURE",
    "drl-interval": "paper_figs.drl.interval:FIGURE",
    "drl-topics": "paper_figs.drl.topics:FIGURE",
    "pulsar-quota": "paper_figs.drl.quota:FIGURE",
    "limiters-plane": "paper_figs.beyond.plane:FIGURE",
    "limiters-partition": "paper_figs.beyond.partition:FIGURE",
    "placement-bound": "paper_figs.beyond.placement_bound:FIGURE",
    "placement-other-matrices": "paper_figs.beyond.other_matrices:FIGURE",
    "placement-load": "paper_figs.beyond.placement_load:FIGURE",
    "placement-failure": "paper_figs.beyond.placement_failure:FIGURE",
    "placement-bookies": "paper_figs.beyond.placement_bookies:FIGURE",
    "link-accuracy": "paper_figs.beyond.link_accuracy:FIGURE",
    "fidelity": "paper_figs.beyond.fidelity:FIGURE",
    "serf-model": "paper_figs.beyond.serf_model:FIGURE",
    "limiters-live": "paper_figs.beyond.plane_live:FIGURE",
    "crdt-wan": "paper_figs.beyond.crdt_wan:FIGURE",
    "redis-wan": "paper_figs.beyond.redis_wan:FIGURE",
    "deployed": "paper_figs.beyond.deployed:FIGURE",
    "deployed-minute": "paper_figs.beyond.deployed:MINUTE",
    "deployed-seconds": "paper_figs.beyond.deployed_seconds:FIGURE",
    "deployed-staleness": "paper_figs.beyond.deployed_staleness:FIGURE",
    "deployed-failures": "paper_figs.beyond.deployed_failures:FIGURE",
}


# The sources, by the first word of their figures' keys, and the first letter of their claims' ids.
PAPERS = {
    "srtm": "Distributed rate limiting and load distribution (SRTM)",
    "drl": "Beyond the sources: one token bucket over many brokers",
    "pulsar": "Beyond the sources: one token bucket over many brokers",
    "crdt": "Rate limiting with CRDTs (Henriksson and Bennhage)",
    "dst": "Distributed system throttlers (DST)",
    "epulsar": "Topics placed near their clients (ePulsar)",
    "limiters": "Beyond the sources: all limiters on one testbed",
    "redis": "Beyond the sources: all limiters on one testbed",
    "deployed": "Deployed limiters, unmodified, over a WAN",
    "placement": "Beyond the sources: topic placement",
    "serf": "Testbeds: how far the emulated one can be trusted",
    "link": "Testbeds: how far the emulated one can be trusted",
    "fidelity": "Testbeds: how far the emulated one can be trusted",
}
OWN = "Of your own"  # what is of no paper, or from outside the tree
CLAIM_LETTERS = {
    **dict.fromkeys("RM", "srtm"),
    **dict.fromkeys("FK", "drl"),
    **{"T": "crdt", "S": "dst", "E": "epulsar", "P": "epulsar", "W": "limiters", "D": "deployed", "Q": "pulsar"},
}


def paper_of(key: str) -> str:
    """Under what a figure stands in the report."""
    return PAPERS.get(key.partition("-")[0], OWN) if key in FIGURES else OWN


def paper_of_claims(family: str) -> str:
    """Under what claims stand whose ids begin so."""
    return PAPERS[CLAIM_LETTERS[family]] if family in CLAIM_LETTERS else f"{OWN} ({family.strip('-_.')})"


def load_figure(name: str) -> "Figure":
    """The figure called ``"srtm-fig7"`` or ``"path.py:FIGURE"``.

    SpecError for an unknown one, with those that it may have meant, and for what is none, or takes names that are
    the tree's.
    """
    from paper_figs.outside import checked_figure

    if name in FIGURES:
        figure: Figure = lookup("figure", FIGURES, name)
        return figure
    names = known("figure", FIGURES)
    if name not in names and not is_file(name):
        alike = sorted((key for key in names if name in key), key=len)[:5] or get_close_matches(name, names, 5)
        meant = f"did you mean {', '.join(alike)}? " if alike else ""
        raise SpecError(f"unknown figure {name!r}", f"{meant}`ratebed list` has them all")
    return checked_figure(lookup("figure", FIGURES, name), name, FIGURES, CLAIM_LETTERS)


# Claims that no single figure measures: they span figures.
OTHER_CLAIMS = {"crdt": "paper_figs.crdt.one_user:SPANNING"}


def all_claims() -> "list[Claim]":
    """Every claim, by number (S20a before S20b): those of the figures and ``OTHER_CLAIMS``."""
    from analysis.verdicts import rank_of

    claims = [claim for key in FIGURES for claim in load_figure(key).claims]
    for family in OTHER_CLAIMS:
        claims += lookup("claims", OTHER_CLAIMS, family)
    ids = [claim.id for claim in claims]
    assert len(ids) == len(set(ids)), f"a claim is declared twice: {sorted(ids)}"
    return sorted(claims, key=lambda claim: rank_of(claim.id))
