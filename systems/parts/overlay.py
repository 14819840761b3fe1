"""Who gossips with whom: an overlay over the nodes of a limiter, whatever links lie beneath.

The sources use a full mesh (thesis, Table 4.1); the thesis leaves other topologies open (5.5, 7).
"""

from collections.abc import Callable, Sequence

from core.errors import SpecError
from core.registry import hint
from core.seeds import generator

Neighbours = dict[str, tuple[str, ...]]  # node -> its neighbours, in the order of the names given


def overlay(kind: str, names: Sequence[str]) -> Neighbours:
    """The neighbours of every node, symmetric and connected; SpecError for an unknown ``kind``.

    A pure function of names: a node that comes back after a crash finds the neighbours that it had.
    """
    if kind not in OVERLAYS:
        raise SpecError(f"overlay = {kind!r}", hint(kind, OVERLAYS))
    count = len(names)
    edges = OVERLAYS[kind](count) if count > 1 else set()
    neighbours: dict[int, set[int]] = {i: set() for i in range(count)}
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    return {names[i]: tuple(names[j] for j in sorted(neighbours[i])) for i in range(count)}


def _full_mesh(count: int) -> set[tuple[int, int]]:
    return {(a, b) for a in range(count) for b in range(a + 1, count)}


def _ring(count: int) -> set[tuple[int, int]]:
    return {(a, (a + 1) % count) for a in range(count)}


def _line(count: int) -> set[tuple[int, int]]:
    return {(a, a + 1) for a in range(count - 1)}


def _star(count: int) -> set[tuple[int, int]]:
    return {(0, a) for a in range(1, count)}


def _tree(count: int) -> set[tuple[int, int]]:
    return {((a - 1) // 2, a) for a in range(1, count)}


def _random(count: int) -> set[tuple[int, int]]:
    """A ring over a random order and another such ring: four neighbours a node, about log n hops across.

    The same for every run of so many nodes.
    """
    rng = generator(count, "overlay")
    edges: set[tuple[int, int]] = set()
    for _ in range(2):
        order = [int(i) for i in rng.permutation(count)]
        edges |= {(min(a, b), max(a, b)) for a, b in zip(order, order[1:] + order[:1], strict=True) if a != b}
    return edges


OVERLAYS: dict[str, Callable[[int], set[tuple[int, int]]]] = {
    "full-mesh": _full_mesh,
    "ring": _ring,
    "line": _line,
    "star": _star,
    "tree": _tree,
    "random": _random,
}
