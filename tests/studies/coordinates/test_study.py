"""The study of network coordinates: estimates beside the truth, clients that hand over, and what is refused."""

from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from harness.estimate import expected_seconds
from harness.experiment import RunSpec
from harness.run import asked_of, check_all, execute, resolve
from studies.coordinates import virtual
from studies.coordinates.asked import Located
from studies.coordinates.plan import Plan
from tests.harness.common import parquet_hashes

STAR = {"depth": 1, "fanout": 6, "delay": "5ms"}
MOBILE = {"clients": 4, "handover": "20s", "still": 40, "rounds": 100, "every": 10, "first": 40}
SITES = {f"site{n}" for n in range(1, 5)}


def spec(study: dict[str, Any], topology: str = "city-mec", **changes: Any) -> RunSpec:
    base = RunSpec(
        system="static-split", workload="requests", topology=topology, study="coordinates", seed=5,
        study_options=study,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def ran(folder: Path, found: RunSpec) -> Path:
    execute(found, "run", folder)
    return folder


def pairs(folder: Path) -> pd.DataFrame:
    frame = pq.read_table(folder / "coordinates.parquet").to_pandas()
    return frame.assign(pair=frame.a + " " + frame.b).set_index(["at_ns", "pair"])


def shifts(folder: Path) -> pd.DataFrame:
    return pq.read_table(folder / "agents.parquet").to_pandas()


def plan_of(study: dict[str, Any]) -> Plan:
    plan = asked_of(resolve(spec(study)))[1]
    assert isinstance(plan, Plan)
    return plan


def test_every_pair_of_a_star_is_estimated_and_known(tmp_path: Path) -> None:
    found = spec({"rounds": 60, "reads": [10]}, "tree", topology_options=STAR)
    estimates = pairs(ran(tmp_path / "a", found))
    assert len(estimates) == 2 * 15 and (estimates.true_rtt_ns == 20 * MILLISECOND_NS).all()
    off = (estimates.estimated_rtt_ns - estimates.true_rtt_ns).abs().groupby("at_ns").mean()
    assert list(off.index) == [10 * SECOND_NS, 60 * SECOND_NS] and off.iloc[1] < 5 * MILLISECOND_NS
    moved = shifts(tmp_path / "a")
    assert len(moved) == 6 and (moved.at_ns == 60 * SECOND_NS).all() and (moved.shift_ns > 0).all()
    execute(found, "run", tmp_path / "b")
    assert parquet_hashes(tmp_path / "a") == parquet_hashes(tmp_path / "b")


def test_clients_are_paired_with_brokers_and_hand_over(tmp_path: Path) -> None:
    found = pairs(ran(tmp_path / "a", spec(MOBILE)))
    client, broker = "client1 broker1-agent", "client1 broker2-agent"
    assert found.index.get_level_values("pair").nunique() == 4 * 4
    access_ns, between_ns = 16 * MILLISECOND_NS, 30 * MILLISECOND_NS
    before = found.loc[40 * SECOND_NS]
    assert before.loc[client].true_rtt_ns == access_ns and before.loc[broker].true_rtt_ns == access_ns + between_ns
    truth = found.true_rtt_ns.unstack("pair")
    assert set(truth.to_numpy().ravel()) == {access_ns, access_ns + between_ns}
    ours = truth[[f"client1 broker{n}-agent" for n in range(1, 5)]]
    assert (ours.eq(access_ns).sum(axis=1) == 1).all() and ours.nunique().max() == 2  # it is at one site, and others


def test_the_truth_follows_the_handovers(tmp_path: Path) -> None:
    plan = plan_of(MOBILE)
    assert plan.handovers == plan_of({**MOBILE, "proxied": True}).handovers
    assert plan.locating.handovers == plan.handovers and plan.homes["client2"] == "site2"
    truth = pairs(ran(tmp_path / "a", spec(MOBILE))).true_rtt_ns.unstack("pair")
    for at_ns, row in truth.iterrows():
        for client, home in plan.homes.items():
            moved = [move.point for move in plan.handovers if move.host == client and move.at_ns < at_ns]
            site = [home, *moved][-1]
            assert row[f"{client} broker{site.removeprefix('site')}-agent"] == 16 * MILLISECOND_NS


def test_handovers_are_about_as_far_apart_as_asked_for_and_lead_elsewhere() -> None:
    plan = plan_of({"clients": 8, "handover": "10s", "still": 100, "rounds": 1000})
    for client, home in plan.homes.items():
        moves = [move for move in plan.handovers if move.host == client]
        places = [home, *(move.point for move in moves)]
        assert all(one != other for one, other in pairwise(places)) and set(places) <= SITES
        assert moves[0].at_ns >= 100 * SECOND_NS and 70 < len(moves) < 110


def test_a_client_behind_a_proxy_has_its_coordinate_and_runs_no_agent(tmp_path: Path) -> None:
    plan = plan_of({**MOBILE, "proxied": True})
    agents = {f"{name}{n}" for name in ("broker", "proxy") for n in range(1, 5)}
    assert not plan.locating.handovers
    assert {name.removesuffix("-agent") for name in plan.locating.nodes} == {*agents, "manager1"}
    proxied = spec({**MOBILE, "proxied": True, "rounds": 600, "every": 10, "first": 590, "still": 300})
    found = pairs(ran(tmp_path / "a", proxied)).loc[[600 * SECOND_NS]]
    off = (found.estimated_rtt_ns - found.true_rtt_ns).abs()
    assert off.mean() < 2 * MILLISECOND_NS
    assert not shifts(tmp_path / "a").agent.str.startswith("client").any()


def test_an_agent_that_was_lost_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    located = virtual.located

    def lose_the_second(*given: Any) -> Located:
        found = located(*given)
        for coordinates in found.coordinates[1:]:
            coordinates.vec[1] = coordinates.height[1] = nan
        return found

    monkeypatch.setattr(virtual, "located", lose_the_second)
    folder = ran(tmp_path / "a", spec({"rounds": 30, "reads": [10, 20]}, "tree", topology_options=STAR))
    counts = pairs(folder).groupby("at_ns").count()
    assert counts.estimated_rtt_ns.tolist() == [15, 10, 10] and counts.true_rtt_ns.tolist() == [15, 15, 15]
    assert shifts(folder).groupby("at_ns").shift_ns.count().tolist() == [5, 5] == [
        len(part) for _, part in shifts(folder).groupby("at_ns")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (spec({"rounds": 0}), "rounds = 0; give at least 1"),
        (spec({"interval": "soon"}), "interval"),
        (spec({"handover": "0s"}), "handover"),
        (spec({"handover": "60s"}), "cannot hand over"),
        (spec({"clients": 2, "handover": "1us"}), "clients = 2 times handovers = 600,000,000; give at most 500,000"),
        (spec({"every": 1}, "tree", topology_options={**STAR, "fanout": 200}), "reads = 601 times pairs = 19,900"),
        (spec({"rounds": 100_000, "every": 1, "clients": 1}, topology_options={"sites": 60}), "times agents = 122"),
        (spec({"clients": 3}, "tree"), "no sites"),
        (spec({"reads": [601]}), "after rounds"),
        (spec({}, "tree", topology_options={**STAR, "fanout": 1}), "1 coordinate agents"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused_before_it_runs(found: RunSpec, names: str) -> None:
    with pytest.raises(SpecError, match=names):
        check_all([found])


def test_live_runs_take_their_time() -> None:
    live = spec({"rounds": 180}, "tree", topology_options={**STAR, "fanout": 8}, testbed="mininet")
    assert expected_seconds(live) > 180 > expected_seconds(msgspec.structs.replace(live, testbed="virtual"))
