"""No modules import each other in a circle, at the top or inside a function: what two need lies below both."""

import ast

import networkx
import pytest

from tests.tidy import ALLOWED, Source, imports, python_sources


def circles(sources: list[Source]) -> list[set[str]]:
    """The sets of modules each of which reaches all others of its set by imports."""
    modules = {
        source.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): source for source in sources
    }
    graph = networkx.DiGraph()
    for module, source in modules.items():
        for imported in imports(ast.walk(source.tree)):
            owner = imported.name if imported.name in modules else imported.name.rpartition(".")[0]
            if owner in modules:
                graph.add_edge(module, owner)
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
