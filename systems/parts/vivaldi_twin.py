"""``vivaldi_kernel`` in plain Python: a cluster of ``Vivaldi`` objects that probe each other in rounds."""

import numpy as np

from systems.parts.coordinates import Array, Coordinates, stacked
from systems.parts.vivaldi import Vivaldi


class TwinCluster:
    """Nodes 0 to n - 1, which share one generator with the rounds: the kernel's order of draws."""

    def __init__(self, nodes: int, rng: np.random.Generator):
        self._rng = rng
        self.nodes = [Vivaldi(rng) for _ in range(nodes)]
        self._order = [[peer for peer in range(nodes) if peer != node] for node in range(nodes)]
        for peers in self._order:
            self._shuffle(peers)
        self._turn = [0] * nodes
        self._sequence = list(range(nodes))

    @property
    def coordinates(self) -> Coordinates:
        """Where the nodes are."""
        return stacked([node.coordinate for node in self.nodes])

    def run_rounds(
        self, rtt_s: Array, rounds: int, jitter_s: Array | None = None, loss_probability: Array | None = None
    ) -> None:
        """See ``vivaldi_kernel.run_rounds``."""
        for _ in range(rounds if len(self.nodes) > 1 else 0):
            self._shuffle(self._sequence)
            for here in self._sequence:
                there = self._next_peer(here)
                if loss_probability is not None and self._happens(float(loss_probability[here, there])):
                    continue
                found_s = float(rtt_s[here, there])
                if jitter_s is not None and jitter_s[here, there] > 0.0:
                    off = 2.0 * (self._rng.random() + self._rng.random()) - 2.0
                    found_s = max(0.0, found_s + float(jitter_s[here, there]) * off)
                self.nodes[here].update(str(there), self.nodes[there].coordinate, found_s)

    def _happens(self, probability: float) -> bool:
        return probability > 0.0 and self._rng.random() < probability

    def _next_peer(self, node: int) -> int:
        if self._turn[node] == len(self._order[node]):
            self._shuffle(self._order[node])
            self._turn[node] = 0
        self._turn[node] += 1
        return self._order[node][self._turn[node] - 1]

    def _shuffle(self, row: list[int]) -> None:
        for last in range(len(row) - 1, 0, -1):
            place = int(self._rng.random() * (last + 1))
            row[last], row[place] = row[place], row[last]
