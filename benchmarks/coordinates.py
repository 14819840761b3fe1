"""Network coordinates over arrays beside their twin, one ``Vivaldi`` object a node.

``python -m benchmarks.coordinates``: ten minutes of Serf's probes, one a second and node, on a star.
"""

from collections.abc import Callable
from statistics import median
from time import process_time

import numpy as np

from core.seeds import generator
from systems.parts.coordinates import Array, Coordinates
from systems.parts.vivaldi_kernel import begin, coordinates, run_rounds
from systems.parts.vivaldi_twin import TwinCluster

ROUNDS, RTT_S = 600, 0.05
COUNTS = (16, 128)
LARGE = 1_000  # nodes: the kernel alone
WANTED_S = 5.0
SAME = 1e-9  # relative to the round trip: rounding adds up over hundreds of probes


def star(nodes: int) -> Array:
    """Round trips in seconds: all nodes equally far from each other."""
    return RTT_S * (1.0 - np.eye(nodes))


def by_arrays(rtt_s: Array) -> Coordinates:
    """The kernel's answer."""
    rng = generator(1, "benchmark")
    state = begin(len(rtt_s), rng)
    run_rounds(state, rtt_s, ROUNDS, rng)
    return coordinates(state)


def by_objects(rtt_s: Array) -> Coordinates:
    """The twin's answer."""
    twin = TwinCluster(len(rtt_s), generator(1, "benchmark"))
    twin.run_rounds(rtt_s, ROUNDS)
    return twin.coordinates


def report(repeats: int = 5) -> None:
    """Print seconds of processor time for both, and that they agree."""
    print(f"\nnetwork coordinates: {ROUNDS} probes a node (wanted: at most {WANTED_S:g} s with {COUNTS[-1]} nodes)")
    by_arrays(star(3))  # compiles
    for nodes in COUNTS:
        rtt_s = star(nodes)
        ours, placed = _timed(by_arrays, rtt_s, repeats)
        theirs, wanted = _timed(by_objects, rtt_s, 1)
        for one, other in zip(placed, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=SAME * RTT_S)
        rate = nodes * ROUNDS / ours / 1e6
        print(f"  {nodes:5d} nodes {ours:7.3f} s, {rate:4.1f} M probes/s; objects {theirs:6.2f} s: "
              f"{theirs / ours:.0f}x  same answer")  # fmt: skip
    seconds, _ = _timed(by_arrays, star(LARGE), 1)
    print(f"  {LARGE:5d} nodes {seconds:7.3f} s, {LARGE * ROUNDS / seconds / 1e6:4.1f} M probes/s")


def _timed(work: Callable[[Array], Coordinates], rtt_s: Array, repeats: int) -> tuple[float, Coordinates]:
    spans, result = [], None
    for _ in range(repeats):
        began = process_time()
        result = work(rtt_s)
        spans.append(process_time() - began)
    assert result is not None
    return median(spans), result


if __name__ == "__main__":
    report()
