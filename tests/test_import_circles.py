"""No modules import each other in a circle, at the top or inside a function: what two need lies below both.

Nor does what runs on real machines reach virtual time by any number of imports.
"""

import ast

import networkx
import pytest

from tests.tidy import ALLOWED, LIVE, Source, imports, python_sources, within


def import_graph(sources: list[Source]) -> networkx.DiGraph:
    """An arrow from each module to each that it imports; its source is the module's attribute ``source``."""
    modules = {
        source.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): source for source in sources
    }
    graph = networkx.DiGraph()
    for module, source in modules.items():
        graph.add_node(module, source=source)
        for imported in imports(ast.walk(source.tree)):
            owner = imported.name if imported.name in modules else imported.name.rpartition(".")[0]
            if owner in modules:
                graph.add_edge(module, owner)
    return graph


def circles(sources: list[Source]) -> list[set[str]]:
    """The sets of modules each of which reaches all others of its set by imports."""
    graph = import_graph(sources)
    return [members for members in networkx.strongly_connected_components(graph) if len(members) > 1]


def test_the_tree_has_no_import_circles() -> None:
    sources = [source for source in python_sources() if source.folder in ALLOWED]
    assert len(sources) > 100
    assert not circles(sources)


@pytest.mark.parametrize("back", ["from a.one import thing", "import a.one", "def f():\n    from a import one"])
def test_a_circle_is_seen(back: str) -> None:
    forth = [Source("a/one.py", "from a import two"), Source("a/two.py", "import a.three")]
    assert circles([*forth, Source("a/three.py", back)]) == [{"a.one", "a.two", "a.three"}]
    assert circles(forth) == []


def reaches_virtual(sources: list[Source]) -> dict[str, list[str]]:
    """Modules of live runs -> by which imports they reach virtual time."""
    graph = import_graph(sources)
    virtual = [module for module in graph if within(module, "testbed.virtual")]
    graph.add_edges_from((module, "virtual time") for module in virtual)
    reach = networkx.single_target_shortest_path(graph, "virtual time") if virtual else {}
    return {
        module: path[:-1]
        for module, path in dict(reach).items()
        if "source" in graph.nodes[module] and LIVE.fullmatch(graph.nodes[module]["source"].path)
    }


def test_what_runs_on_real_machines_reaches_no_virtual_time() -> None:
    sources = [source for source in python_sources() if source.folder in ALLOWED]
    assert sum(bool(LIVE.fullmatch(source.path)) for source in sources) > 100
    assert not reaches_virtual(sources)


def test_a_detour_to_virtual_time_is_seen() -> None:
    live = Source("studies/quota/live.py", "from studies.quota import far")
    far = Source("studies/quota/far.py", "def f():\n    from testbed.virtual import clock")
    clock = Source("testbed/virtual/clock.py", "")
    path = ["studies.quota.live", "studies.quota.far", "testbed.virtual.clock"]
    assert reaches_virtual([live, far, clock]) == {"studies.quota.live": path}
    assert not reaches_virtual([live, Source(far.path, ""), clock])
