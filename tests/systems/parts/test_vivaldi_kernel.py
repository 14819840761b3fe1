"""Serf's coordinates over arrays: equal to ``Vivaldi`` fed the same probes, and able to go on as such objects."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.seeds import generator
from systems.parts.coordinates import Coordinates, distances_s, one_of
from systems.parts.vivaldi import SERF, Coordinate, origin
from systems.parts.vivaldi_kernel import ClusterState, begin, coordinates, run_rounds, update, warmed
from systems.parts.vivaldi_twin import TwinCluster
from tests.systems.parts import phantoms


def expect_equal(found: Coordinates, wanted: Coordinates) -> None:
    """To the last bit: whatever differs grows where nodes are near each other."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@st.composite
def networks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Round trips of up to seven nodes, some of no length, their jitter and their losses."""
    nodes = draw(st.integers(1, 7))
    rng = generator(draw(st.integers(0, 99)), "network")
    rtt_s = np.triu(rng.choice([0.0, 0.002, 0.05, 0.3], (nodes, nodes)) * rng.uniform(0.5, 1.5, (nodes, nodes)), 1)
    jitter_s = np.triu(rng.choice([0.0, 0.1], (nodes, nodes)) * rtt_s, 1)
    loss = np.triu(rng.choice([0.0, 0.0, 0.4], (nodes, nodes)), 1)
    return rtt_s + rtt_s.T, jitter_s + jitter_s.T, loss + loss.T


@settings(deadline=None)
@given(networks(), st.integers(0, 30), st.integers(0, 1_000))
def test_arrays_and_objects_agree(network: tuple[np.ndarray, ...], rounds: int, seed: int) -> None:
    rtt_s, jitter_s, loss = network
    rng, its_rng = generator(seed, "rounds"), generator(seed, "rounds")
    state, twin = begin(len(rtt_s), rng), TwinCluster(len(rtt_s), its_rng)
    for matrix in (rtt_s, 0.5 * rtt_s):  # somebody moved
        run_rounds(state, matrix, rounds, rng, jitter_s, loss)
        twin.run_rounds(matrix, rounds, jitter_s, loss)
    expect_equal(coordinates(state), twin.coordinates)
    assert rng.random() == its_rng.random()


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 1_000))
def test_a_warmed_node_goes_on_from_where_its_arrays_are(rounds: int, seed: int) -> None:
    rng = generator(seed, "rounds")
    truth_s = phantoms.random(5, 0.05, 0.03, rng)
    state = begin(5, rng)
    run_rounds(state, truth_s, rounds, rng)
    names = ["a", "b", "c", "d", "e"]
    later, its_later = generator(seed, "later"), generator(seed, "later")
    nodes = [warmed(state, i, its_later, names) for i in range(5)]
    for _ in range(12):
        i, j = rng.permutation(5)[:2].tolist()
        rtt_s = float(rng.uniform(0.01, 0.1))
        update(state, i, j, rtt_s, later)
        assert nodes[i].update(names[j], nodes[j].coordinate, rtt_s)
        assert nodes[i].coordinate == one_of(coordinates(state), i)


def test_a_run_may_be_cut_into_parts() -> None:
    truth_s = phantoms.star(9, 0.05)

    def after(*parts: int) -> ClusterState:
        rng = generator(3, "rounds")
        state = begin(9, rng)
        for rounds in parts:
            run_rounds(state, truth_s, rounds, rng)
        return state

    for one, other in zip(after(50), after(7, 0, 43), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_node_probes_each_peer_once_in_a_pass() -> None:
    rng = generator(1, "rounds")
    state = begin(6, rng)
    for passes in (1, 2, 3):
        run_rounds(state, phantoms.star(6, 0.05), 5, rng)
        assert (state.heard_count == passes * (1 - np.eye(6, dtype=int))).all()
        assert (np.sort(state.order, axis=1) == [[k for k in range(6) if k != node] for node in range(6)]).all()


def test_lost_and_unbelievable_probes_move_nobody() -> None:
    rng = generator(1, "rounds")
    for rtt_s, loss in ((0.05, 1.0), (11.0, 0.0)):
        state = begin(4, rng)
        run_rounds(state, phantoms.star(4, rtt_s), 20, rng, loss_probability=np.full((4, 4), loss))
        assert not state.heard_count.any()
        expect_equal(coordinates(state), TwinCluster(4, rng).coordinates)


def test_a_coordinate_that_is_no_number_is_reset_and_counted() -> None:
    rng = generator(1, "rounds")
    state = begin(2, rng)
    state.vec[0, 3] = np.nan
    update(state, 0, 1, 0.05, rng)
    assert one_of(coordinates(state), 0) == origin() and state.reset_count.tolist() == [1, 0]
    assert warmed(state, 0, rng).reset_count == 1


@pytest.mark.parametrize("nodes", [0, 1])
def test_nobody_to_probe(nodes: int) -> None:
    rng = generator(1, "rounds")
    state = begin(nodes, rng)
    run_rounds(state, phantoms.star(nodes, 0.05), 3, rng)
    assert [one_of(coordinates(state), i) for i in range(nodes)] == [origin()] * nodes


def test_a_star_is_found_as_well_as_ten_minutes_allow() -> None:
    """ePulsar's digest, section 5: at 600 probes a node the mean error is 1.0 to 3.8 ms with 16 nodes."""
    found_s = []
    for seed in range(5):
        rng = generator(seed, "rounds")
        state, truth_s = begin(16, rng), phantoms.star(16, 0.05)
        run_rounds(state, truth_s, 600, rng)
        one = coordinates(state)
        found_s.append(np.abs(distances_s(one, one) - truth_s)[np.triu_indices(16, 1)].mean())
    assert 0.0005 < np.mean(found_s) < 0.004


def test_the_kernel_has_serfs_shape() -> None:
    rng: Any = generator(1, "rounds")
    state = begin(3, rng)
    assert state.vec.shape == (3, SERF.dimensions) and state.offsets.shape == (3, SERF.window)
    assert isinstance(one_of(coordinates(state), 0), Coordinate)
