"""Fates counted at both ends: every message and request has one, whatever files say; what cannot be is told."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.nemesis.fates import clients_fates, limiter_fates, message_fates, request_fates, topic_fates

NUMBERS = st.sets(st.integers(0, 30))


@given(NUMBERS, NUMBERS, NUMBERS, st.lists(st.integers(0, 30)))
def test_messages_sum_to_what_was_offered_and_strangers_are_told(offered, sent, acknowledged, deliveries):
    fates = message_fates(offered, sent, acknowledged & sent, deliveries)
    assert sum(fates.counts.values()) == fates.offered == len(offered)
    foreign = (sent | set(deliveries)) - offered
    assert fates.problems() == ([f"{len(foreign)} messages were never offered"] if foreign else [])


@given(
    st.sets(st.integers(0, 20)),
    st.dictionaries(st.integers(0, 20), st.tuples(st.booleans(), st.none() | st.booleans())),
    st.dictionaries(st.integers(0, 20), st.booleans()),
)
def test_requests_sum_to_what_was_offered(offered, users, nodes):
    fates = request_fates(offered, users, nodes)
    assert sum(fates.counts.values()) == fates.offered == len(offered)
    assert bool(fates.strange) == any(
        number not in offered
        or (
            not users.get(number, (False, None))[0] and (users.get(number, (0, None))[1] is not None or number in nodes)
        )
        or (users.get(number, (0, None))[1] is not None and number in nodes and users[number][1] != nodes[number])
        for number in users.keys() | nodes.keys()
    )


def test_each_message_has_the_fate_that_both_ends_say():
    fates = message_fates(range(6), {1, 2, 3, 4, 5}, {2, 3, 5}, [3, 4, 4, 5])
    assert fates.counts == {"not_sent": 1, "unacknowledged": 1, "undelivered": 1, "delivered": 2, "duplicated": 1}


def test_a_residue_is_told():
    fates = message_fates(range(6), set(), set(), [])
    assert fates._replace(counts={**fates.counts, "not_sent": 5}).problems() == ["fates sum to 5, offered were 6"]


def test_a_topic_is_read_from_the_last_load_alone(tmp_path):
    def rows(tag, sent, acknowledged):
        numbers = np.arange(len(sent))
        return {"message": numbers, "sent_at_ns": np.array(sent), "acknowledged_at_ns": np.array(acknowledged)}

    np.savez(tmp_path / "0.publishers1.1.rows.npz", **rows(1, [5] * 9, [5] * 9))
    np.savez(tmp_path / "3.publishers1.4.rows.npz", **rows(4, [5, 5, -1], [5, -1, -1]))
    came = {"message": np.array([0, 1, 2]), "topic": np.array([1, 1, 0]), "tag": np.array([4, 1, 4])}
    np.savez(tmp_path / "4.subscribers1.deliveries.npz", topics=np.array(["other0", "topic"]), **came)
    fates = topic_fates(tmp_path, 3)
    assert fates.counts == {"not_sent": 1, "unacknowledged": 1, "undelivered": 0, "delivered": 1, "duplicated": 0}


def test_the_last_load_is_known_though_its_senders_were_all_killed(tmp_path):
    before = {"message": np.arange(2), "sent_at_ns": np.array([5, 5]), "acknowledged_at_ns": np.array([5, 5])}
    np.savez(tmp_path / "0.publishers1.1.rows.npz", **before)
    came = {"message": np.array([0, 1, 2]), "topic": np.array([0, 0, 0]), "tag": np.array([1, 1, 4])}
    np.savez(tmp_path / "1.subscribers1.deliveries.npz", topics=np.array(["topic"]), **came)
    fates = topic_fates(tmp_path, 3)
    assert fates.counts == {"not_sent": 2, "unacknowledged": 0, "undelivered": 0, "delivered": 1, "duplicated": 0}


def test_a_limiters_files_are_joined_by_request(tmp_path):
    rows = [(0, 5, 9, 7, 1, 0), (1, 5, -1, -1, 0, 0), (2, 5, -1, -1, 0, 0), (3, -1, -1, -1, 0, 0)]
    np.savez(tmp_path / "0.users-n1.users.npz", rows=np.array(rows))
    (tmp_path / "nodes").mkdir()
    lines = [["sample", 1, "x", 2.0], ["verdict", 7, 0, "admit", False], ["verdict", 8, 1, "reject", False]]
    (tmp_path / "nodes" / "n1.0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '["verd')
    fates = limiter_fates(tmp_path, range(4))
    assert fates.counts == {"not_sent": 1, "no_verdict": 1, "verdict_lost": 1, "admit": 1, "reject": 0}
    assert not fates.problems()


def test_a_producers_messages_are_had_by_somebody_or_by_nobody(tmp_path):
    folder = tmp_path / "clients"
    folder.mkdir()
    (folder / "script.json").write_text(json.dumps({"clients": {"producer": [], "consumer": []}}))
    sent = np.array([[0, 0, 1, 2, 0, 0], [0, 0, 1, 2, 0, 0], [0, 0, 1, -1, 0, 0], [0, 0, -1, -1, 0, 0]])
    np.savez(folder / "producer.npz", **{"sent:orders": sent})
    np.savez(folder / "consumer.npz", **{"got:orders": np.array([[0, 0, 0, 5], [0, 0, 0, 6]])})
    fates = clients_fates(tmp_path)
    assert fates.counts == {"not_sent": 1, "unacknowledged": 1, "acknowledged": 1, "had": 1} and not fates.problems()
    np.savez(folder / "consumer.npz", **{"got:orders": np.array([[0, 9, 0, 5], [1, 0, 0, 6]])})
    assert clients_fates(tmp_path).strange == ("producer: 1 messages were never offered", "1 messages of nobody")
