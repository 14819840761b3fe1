"""``ratebed list``: what there is."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from core.errors import SpecError
from core.registry import known, lookup
from paper_figs import FIGURES
from ratebed.options import AsJson
from studies import STUDIES
from systems import SYSTEMS
from testbed import TESTBEDS
from testbed.servers import SERVERS
from testbed.topologies.topology import TOPOLOGIES
from workloads import WORKLOADS


def list_(as_json: AsJson = False) -> None:
    """Figures, systems, workloads, topologies, studies, servers, testbeds, of installed packages too."""
    groups = {
        "figures": _told("figure", FIGURES, lambda figure: figure.experiment.title),
        "systems": _told("system", SYSTEMS, lambda system: system.summary),
        "workloads": _told("workload", WORKLOADS, lambda workload: workload.summary),
        "topologies": _told("topology", TOPOLOGIES, _first_line),
        "studies": _told("study", STUDIES, lambda study: study.summary),
        "servers": _told("server", SERVERS, lambda server: ""),
        "testbeds": {key: "" for key in TESTBEDS},
    }
    if as_json:
        print(json.dumps(groups, indent=2))
        return
    width = max(len(key) for group in groups.values() for key in group) + 2
    for name, group in groups.items():
        print(name)
        for key, text in group.items():
            print(f"  {key:<{width}}{text}".rstrip())


def _told(kind: str, registry: Mapping[str, str], said: Callable[[Any], str]) -> dict[str, str]:
    """What there is of a kind, the tree's and installed packages', and what each says of itself, or what is wrong."""
    texts = {}
    for key, place in known(kind, registry).items():
        try:
            texts[key] = said(lookup(kind, registry, key))
        except SpecError as error:
            texts[key] = f"not to be had: {error}"
        if key not in registry:
            texts[key] += f" ({place.partition(':')[0].partition('.')[0]})"
    return texts


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]
