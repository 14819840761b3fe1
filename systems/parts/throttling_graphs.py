"""Weighted graphs of servers that exchange limits (Siami & Skaf, "DST", Sections 2 and 6).

The paper prints its 10-server graphs as pictures that our text lacks.  Their published numbers
(Tables 3 and 4) select them: ``dst-1`` is the only tree of 10 nodes with the published values, and the
``dst-2`` graph is, up to isomorphism, the only supergraph of it that has its own.  *Where* the tree lies
inside ``dst-2`` is not determined: 476 placements give the same spectrum (``placements``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError
from core.registry import hint
from systems.parts.overlay import OVERLAYS, overlay

Edge = tuple[int, int, float]  # two nodes, the first the smaller; weight

DST_1_EDGES = "0-1 1-2 1-4 0-6 2-3 4-5 6-7 6-9 7-8"  # the tree of Fig. 3, recovered by us
DST_2_EXTRA = "0-2 0-3 0-4 0-5 2-7 3-6 3-7 5-6 5-9 6-8 8-9"  # the dotted links of Fig. 4, recovered by us


@dataclass(frozen=True)
class Graph:
    """An undirected simple graph of the nodes 0 … n - 1; weights must be finite and not negative.

    Edges are kept sorted, each once, so that equal graphs compare equal.  SpecError for a loop, an
    edge named twice, a node out of range or a bad weight.
    """

    n: int
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SpecError(f"a graph of {self.n} nodes", "give at least one node")
        weights: dict[tuple[int, int], float] = {}
        for a, b, weight in self.edges:
            pair = (min(a, b), max(a, b))
            if a == b or pair[0] < 0 or pair[1] >= self.n:
                raise SpecError(
                    f"link {a}-{b} of a graph of {self.n} nodes", f"join two of the nodes 0 to {self.n - 1}"
                )
            if pair in weights:
                raise SpecError(f"link {a}-{b} is given twice", "give each link once")
            if not 0.0 <= weight < float("inf"):
                raise SpecError(f"link {a}-{b} weighs {weight}", "weights are finite and not negative")
            weights[pair] = float(weight)
        object.__setattr__(self, "edges", tuple((a, b, weight) for (a, b), weight in sorted(weights.items())))

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """The edges without their weights."""
        return tuple((a, b) for a, b, _ in self.edges)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The edges' weights, in the order of ``edges``."""
        return np.array([weight for _, _, weight in self.edges], float)

    @property
    def connected(self) -> bool:
        """Whether links of positive weight join all nodes."""
        around = neighbours(self)
        reached, front = {0}, [0]
        while front:
            for other, weight in around[front.pop()]:
                if weight > 0.0 and other not in reached:
                    reached.add(other)
                    front.append(other)
        return len(reached) == self.n


def unweighted(n: int, links: Iterable[tuple[int, int]]) -> Graph:
    """The graph of these links, each of weight one."""
    return Graph(n, tuple((a, b, 1.0) for a, b in links))


def weighted(graph: Graph, weights: float | Sequence[float] | NDArray[np.float64]) -> Graph:
    """The same links with other weights: one for all, or one a link in the order of ``graph.edges``."""
    values = np.broadcast_to(np.asarray(weights, float), (len(graph.edges),))
    return Graph(graph.n, tuple((a, b, float(value)) for (a, b), value in zip(graph.links, values, strict=True)))


def laplacian(graph: Graph) -> NDArray[np.float64]:
    """L, n x n: minus the weights off the diagonal, each node's sum of weights on it (Section 2)."""
    matrix = np.zeros((graph.n, graph.n))
    for a, b, weight in graph.edges:
        matrix[a, b] = matrix[b, a] = -weight
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix


def neighbours(graph: Graph) -> tuple[tuple[tuple[int, float], ...], ...]:
    """For each node its neighbours in ascending order, each with the link's weight."""
    lists: list[list[tuple[int, float]]] = [[] for _ in range(graph.n)]
    for a, b, weight in graph.edges:
        lists[a].append((b, weight))
        lists[b].append((a, weight))
    return tuple(tuple(sorted(around)) for around in lists)


def overlaid(kind: str, n: int) -> Graph:
    """The overlay ``kind`` of ``systems.parts.overlay`` over n nodes, unweighted; SpecError for an unknown one."""
    around = overlay(kind, [str(node) for node in range(n)])
    return unweighted(n, ((int(a), int(b)) for a, others in around.items() for b in others if int(a) < int(b)))


def path(n: int) -> Graph:
    """0 - 1 - … - (n - 1): the overlay ``line``."""
    return overlaid("line", n)


def star(n: int) -> Graph:
    """Node 0 joined to every other."""
    return overlaid("star", n)


def complete(n: int) -> Graph:
    """Every pair of nodes joined: the overlay ``full-mesh``."""
    return overlaid("full-mesh", n)


def no_links(n: int) -> Graph:
    """Nobody joined: a static split."""
    return Graph(n, ())


# The overlays by their own names, and what the paper calls them.
FAMILIES: dict[str, Callable[[int], Graph]] = {
    **{kind: partial(overlaid, kind) for kind in OVERLAYS},
    "path": path,
    "complete": complete,
    "none": no_links,
}


def parse_links(text: str, n: int | None = None) -> Graph:
    """A graph written as links, ``"0-1 1-2:0.5"``; n defaults to the largest node plus one; SpecError if malformed."""
    edges: list[Edge] = []
    for word in text.split():
        ends, colon, weight = word.partition(":")
        a, dash, b = ends.partition("-")
        try:
            if not dash:
                raise ValueError
            edges.append((int(a), int(b), float(weight) if colon else 1.0))
        except ValueError:
            raise SpecError(f"link {word!r}", 'write "0-1", or "0-1:0.5" with a weight') from None
    return Graph(max((b for a, b, _ in edges for b in (a, b)), default=0) + 1 if n is None else n, tuple(edges))


DST_1 = parse_links(DST_1_EDGES)
DST_2 = parse_links(f"{DST_1_EDGES} {DST_2_EXTRA}")
NAMED = {"dst-1": DST_1, "dst-2": DST_2}


def graph_named(name: str, n: int | None = None) -> Graph:
    """The graph called ``name``; SpecError for an unknown one, or one that has not ``n`` nodes.

    ``dst-1``, ``dst-2``, ``dst-2@17`` (the 17th placement of the tree in ``dst-2``, from 0), a family
    (an overlay, or the paper's ``path``, ``complete`` and ``none``) with its size ``path-10`` (or ``path``
    with ``n``), or links, ``"0-1 1-2:0.5"``.
    """
    graph = _found(name.strip(), n)
    if n is not None and graph.n != n:
        raise SpecError(f"graph {name!r} has {graph.n} nodes", f"give one of {n} nodes")
    return graph


def _found(name: str, n: int | None) -> Graph:
    if name in NAMED:
        return NAMED[name]
    if name.startswith("dst-2@"):
        return _placement(name)
    family, _, size = name.rpartition("-")
    if name in FAMILIES and n is not None:
        return FAMILIES[name](n)
    if family in FAMILIES and size.isdecimal():
        return FAMILIES[family](int(size))
    if name[:1].isdecimal():
        return parse_links(name, n)
    if name in FAMILIES:
        raise SpecError(f"graph {name!r} without a size", f'write "{name}-10"')
    raise SpecError(f"graph = {name!r}", hint(name, [*NAMED, *FAMILIES]) + ', or links, "0-1 1-2:0.5"')


def _placement(name: str) -> Graph:
    number, every = name.removeprefix("dst-2@"), placements()
    if not number.isdecimal() or int(number) >= len(every):
        raise SpecError(f"graph = {name!r}", f"placements are dst-2@0 to dst-2@{len(every) - 1}")
    return every[int(number)]


@cache
def placements() -> tuple[Graph, ...]:
    """Every labelled supergraph of ``dst-1`` that is isomorphic to ``dst-2``, in lexicographic order: 476.

    All have one spectrum, and so the published values; only a run that offers the *same* clients on both
    graphs can tell them apart.  Takes a fifth of a second, once.
    """
    shapes = {
        tuple(sorted((min(back[a], back[b]), max(back[a], back[b])) for a, b in DST_2.links))
        for back in _embeddings(DST_1, DST_2)
    }
    return tuple(unweighted(DST_2.n, links) for links in sorted(shapes))


def _embeddings(tree: Graph, host: Graph) -> Iterator[dict[int, int]]:
    """Every one-to-one map of ``tree`` into ``host`` that keeps the links, as host node -> tree node."""
    order: list[tuple[int, int]] = []  # (node, one of its neighbours that comes before it)
    around = neighbours(tree)
    front = [(other, 0) for other, _ in around[0]]
    while front:
        node, before = front.pop(0)
        order.append((node, before))
        front += [(other, node) for other, _ in around[node] if other != before]
    beside = [[other for other, _ in links] for links in neighbours(host)]

    def extend(place: dict[int, int], depth: int) -> Iterator[dict[int, int]]:
        if depth == len(order):
            yield {where: node for node, where in place.items()}
            return
        node, before = order[depth]
        for where in beside[place[before]]:
            if where not in place.values():
                yield from extend({**place, node: where}, depth + 1)

    for root in range(host.n):
        yield from extend({0: root}, 0)
