"""What is made of the words of a controller's nodes: samples of the load's time, and the commands that brokers had."""

from studies.control.live import told_until
from systems.api import SetBucket


def test_commands_are_read_from_what_brokers_nodes_tell_each_ones_own_in_order_of_time() -> None:
    samples = [
        (30, "b2", "bucket_rate_rps", 7.0),
        (30, "b2", "bucket_burst_count", 70.0),
        (10, "b1", "bucket_rate_rps", 5.0),
        (10, "b1", "bucket_burst_count", 50.0),
        (40, "b1", "bucket_rate_rps", 6.0),
        (41, "b1", "bucket_burst_count", 60.0),
        (20, "adaptor", "sent_count", 3.0),
    ]
    rows, commands = told_until(100, samples, ["b1", "b2", "adaptor"], "t")
    assert commands == [
        (10, "b1", SetBucket("t", 5.0, 50.0)),
        (30, "b2", SetBucket("t", 7.0, 70.0)),
        (40, "b1", SetBucket("t", 6.0, 60.0)),
    ]
    assert [row[:3] for row in rows] == [
        (10, "b1", "bucket_burst_count"),
        (10, "b1", "bucket_rate_rps"),
        (20, "adaptor", "sent_count"),
        (30, "b2", "bucket_burst_count"),
        (30, "b2", "bucket_rate_rps"),
        (40, "b1", "bucket_rate_rps"),
        (41, "b1", "bucket_burst_count"),
    ]


def test_what_nodes_did_while_the_load_drained_is_left_out() -> None:
    """The burst of the second limit was told after the load's end: no command is made of half a word."""
    samples = [
        (10, "b1", "bucket_rate_rps", 5.0),
        (10, "b1", "bucket_burst_count", 50.0),
        (99, "b1", "bucket_rate_rps", 6.0),
        (100, "b1", "bucket_burst_count", 60.0),
    ]
    rows, commands = told_until(100, samples, ["b1"], "t")
    assert commands == [(10, "b1", SetBucket("t", 5.0, 50.0))]
    assert [row[0] for row in rows] == [10, 10, 99]
