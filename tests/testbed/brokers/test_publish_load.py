"""The commands of a load, beside the same made one by one."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records import Block
from core.units import SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.publish_load import PreparedLoad, read_block, save_block
from testbed.trust.accounts import ABSENT
from workloads import load as load_workload

EPOCH_NS = 1_700_000_000 * SECOND_NS


def one_by_one(block: Block, topic: str, mine: set[int], tag: int) -> list[bytes]:
    """Each command by ``nsq.pub`` or ``nsq.mpub``."""
    commands, number = [], 0
    sizes = np.broadcast_to(block.size_bytes, block.at_ns.shape)
    for at_ns, publisher, count, size in zip(block.at_ns, block.publisher, block.count, sizes, strict=True):
        bodies = []
        for _ in range(count):
            header = nsq.HEADER.pack(number, publisher, tag, EPOCH_NS + at_ns)
            bodies.append(header.ljust(size, b"\0"))
            number += 1
        if publisher in mine:
            commands.append(nsq.pub(topic, bodies[0]) if count == 1 else nsq.mpub(topic, bodies))
    return commands


def frames(load: PreparedLoad) -> list[bytes]:
    return [load.frame(index) for index in range(load.count)]


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    rows = draw(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(1, 4), st.integers(1, 60)), max_size=30)
    )
    rows.sort(key=lambda row: row[:2])
    columns = np.array(rows, np.int64).reshape(-1, 4)
    sizes = columns[:, 3].astype(np.int32) if draw(st.booleans()) else 40
    return Block(columns[:, 0], columns[:, 1].astype(np.int32), columns[:, 2].astype(np.int32), sizes)


@given(block=blocks(), mine=st.sets(st.integers(0, 5)), tag=st.integers(-(2**31), 2**31 - 1))
def test_commands_are_those_made_one_by_one(block: Block, mine: set[int], tag: int) -> None:
    load = PreparedLoad(block, "topic", EPOCH_NS, mine, tag)
    assert frames(load) == one_by_one(block, "topic", mine, tag)
    assert load.message_count == sum(
        block.count[index] for index, publisher in enumerate(block.publisher) if publisher in mine
    )


@given(block=blocks(), split=st.sets(st.integers(0, 5)))
def test_numbers_are_the_whole_blocks_whoever_sends(block: Block, split: set[int]) -> None:
    parts = [PreparedLoad(block, "t", EPOCH_NS, mine).columns() for mine in (split, set(range(6)) - split)]
    at_ns, publisher, _ = block.messages()
    numbers = np.concatenate([part["message"] for part in parts])
    assert sorted(numbers) == list(range(block.message_count))
    assert list(at_ns[numbers] + EPOCH_NS) == [its for part in parts for its in part["intended_at_ns"]]
    assert list(publisher[numbers]) == [its for part in parts for its in part["publisher"]]
    assert all(
        (part[name] == ABSENT).all() for part in parts for name in ("sent_at_ns", "acknowledged_at_ns", "broker")
    )


def test_a_virtual_runs_block_by_file(tmp_path: Path) -> None:
    workload = load_workload("poisson")
    schedule = workload.make(workload.configure({}), 7)
    block = schedule.block(0, SECOND_NS)
    assert block.message_count > 100
    save_block(tmp_path / "block.npz", block)
    read = read_block(tmp_path / "block.npz")
    mine = range(schedule.population.count)
    ours, its = (PreparedLoad(one, "t", EPOCH_NS, mine) for one in (block, read))
    assert frames(ours) == frames(its)
    assert (its.columns()["message"] == np.arange(block.message_count)).all()


def test_batches_beyond_the_protocols_limits_are_refused() -> None:
    block = Block(np.zeros(1, np.int64), np.zeros(1, np.int32), np.full(1, 60, np.int32), 100_000)
    with pytest.raises(ValueError, match="too many for one command"):
        PreparedLoad(block, "t", EPOCH_NS, [0])
