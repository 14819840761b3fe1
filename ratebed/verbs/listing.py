"""``ratebed list``: what there is."""

import json
from collections.abc import Mapping

from core.registry import lookup
from paper_figs import FIGURES, load_figure
from ratebed.options import AsJson
from systems import SYSTEMS
from testbed import TESTBEDS
from testbed.topologies.topology import TOPOLOGIES
from workloads import WORKLOADS


def list_(as_json: AsJson = False) -> None:
    """Figures, systems, workloads, topologies, testbeds."""
    groups = {
        "figures": {key: load_figure(key).experiment.title for key in FIGURES},
        "systems": _summaries(SYSTEMS),
        "workloads": _summaries(WORKLOADS),
        "topologies": {key: _first_line(lookup("topology", TOPOLOGIES, key)) for key in TOPOLOGIES},
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


def _summaries(registry: Mapping[str, str]) -> dict[str, str]:
    return {key: lookup("name", registry, key).summary for key in registry}


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]
