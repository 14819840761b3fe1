"""The live broker: what it delivers, when, and what it is commanded."""

import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from core.errors import MachineError
from core.records import Envelope
from systems.parts import token_bucket
from testbed import golang
from testbed.brokers import nsq
from testbed.brokers.brokerd import build
from testbed.brokers.brokerd.client import BrokerClient
from testbed.trust.accounts import exact_releases_ns
from tests.live import needs
from tests.processes import freeze
from tests.testbed.brokers.running import TOKEN, Broker, Client, broker, number_of, numbered, recorded, subscriber
from tests.testbed.brokers.with_clients import until

pytestmark = [needs("go"), pytest.mark.slow]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with broker(tmp_path_factory.mktemp("broker")) as its:
        yield its


@pytest.fixture
def commands(running):
    client = running.client()
    yield client
    client.close()


def test_the_go_tests_pass_and_vet_and_gofmt_complain_of_nothing():
    for arguments in (["vet", "./..."], ["test", "./..."]):
        result = build.MODULE.go(*arguments)
        assert result.returncode == 0, result.stdout + result.stderr
    formatted = golang.find_go().resolve().with_name("gofmt")
    if formatted.exists():
        result = subprocess.run([formatted, "-l", "."], cwd=build.SOURCES, capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (0, "")


def test_it_is_built_once_and_found_again():
    program = build.brokerd_path()
    changed_at_ns = program.stat().st_mtime_ns
    assert program.stat().st_mode & stat.S_IXUSR
    assert build.brokerd_path() == program == build.BINARY
    assert program.stat().st_mtime_ns == changed_at_ns
    assert not list(program.parent.glob(".building-*"))


def test_no_go_is_an_error_that_says_how_to_get_it(tmp_path, monkeypatch):
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go1.20.3\n")
    old.chmod(0o755)
    monkeypatch.setattr(golang, "_candidates", lambda: iter([old]))
    with pytest.raises(MachineError, match=r"1\.20.*; install Go"):
        golang.find_go()


@pytest.mark.parametrize("stamps", ["kernel", "read"])
@pytest.mark.parametrize("gc", ["default", "friendly", "off"])
def test_every_mode_delivers_in_order_with_the_arrival_stamp(tmp_path, stamps, gc):
    with broker(tmp_path / "b", "-stamps", stamps, "-gc", gc) as its:
        commands = its.client()
        commands.acquire("topic")
        publisher, reader = Client(its.connect("ingress"), 3), subscriber(its, "topic")
        began_ns = time.time_ns()
        publisher.publish("topic", numbered(0))
        publisher.publish("topic", *(numbered(i) for i in range(1, 100)))
        messages = reader.receive(100)
        assert [number_of(message) for message in messages] == list(range(100))
        stamps_ns = [message.timestamp_ns for message in messages]
        assert stamps_ns == sorted(stamps_ns)
        assert began_ns <= stamps_ns[0] <= stamps_ns[-1] <= time.time_ns()
        counted = commands.stats()
        assert (counted["message_count"], counted["command_count"]) == (100, 4)
        assert counted["missing_stamp_count"] == counted["lost_count"] == counted["panic_count"] == 0
        for each in (publisher, reader, commands):
            each.close()


def test_kernel_stamps_do_not_wait_for_the_reader(tmp_path):
    """A broker that is stopped reads late: its own clock is late too, the kernel's stamp is not."""
    for stamps in ("kernel", "read"):
        with broker(tmp_path / stamps, "-stamps", stamps) as its:
            commands = its.client()
            commands.acquire("t")
            commands.record("t", 10)
            publisher = Client(its.connect("ingress"), 1)
            publisher.publish("t", numbered(0))
            freeze(its.process.pid)
            publisher.send(nsq.pub("t", numbered(1)))
            time.sleep(0.3)
            continued_at_ns = time.time_ns()
            its.process.send_signal(signal.SIGCONT)
            assert publisher.frame().data == nsq.OK
            rows, _ = recorded(commands, tmp_path / f"{stamps}.rows")
            assert rows["read_at_ns"][1] > continued_at_ns
            assert rows["arrived_at_ns"][1] < continued_at_ns  # recorded, whatever the bucket goes by
            assert (rows["stamp_ns"][1] < continued_at_ns) == (stamps == "kernel")


def test_release_is_exact_and_in_order(running, commands, tmp_path):
    topic, envelope = "exact", Envelope(500.0, 7.5)
    commands.acquire(topic)
    commands.record(topic, 10_000)
    reader = subscriber(running, topic)
    commands.set_bucket(topic, envelope)

    def publish(publisher: int) -> None:
        client = Client(running.connect("ingress"), publisher)
        for i in range(40):
            client.publish(topic, *(numbered(1000 * publisher + 10 * i + j, publisher) for j in range(10)))
            time.sleep(0.003 * (publisher + 1))
        client.close()

    threads = [threading.Thread(target=publish, args=(publisher,)) for publisher in range(4)]
    for thread in threads:
        thread.start()
    received = [number_of(message) for message in reader.receive(1600)]
    for thread in threads:
        thread.join()
    rows, dropped = recorded(commands, tmp_path / "rows", topic)
    reader.close()
    assert dropped == 0
    assert received == rows["message"].tolist()  # what took its token first came first
    assert set(rows["publisher"]) == {0, 1, 2, 3}
    exact_ns = exact_releases_ns(rows["stamp_ns"], envelope)
    released_ns = rows["released_at_ns"]
    assert (released_ns >= exact_ns).all()  # never early, to the nanosecond
    assert (np.diff(released_ns) >= 0).all()
    assert (exact_ns - rows["stamp_ns"]).max() > 100_000_000  # the bucket was put to work
    # A machine that is shared may stand still for half of these three seconds.
    assert np.quantile(released_ns - exact_ns, 0.2) < 50_000_000


def test_a_report_tells_what_the_adaptor_wants(running):
    commands, other = running.client(), running.client()
    commands.acquire("told")
    assert commands.report()["told"]["message_count"] == 0
    commands.set_bucket("told", Envelope(0.1, 10.0))  # none of them gets its token while the test runs
    publisher = Client(running.connect("ingress"), 1)
    publisher.publish("told", *(numbered(i) for i in range(13)))
    report = commands.report()["told"]
    assert report["message_count"] == 13
    assert report["waiting_count"] == 3
    assert report["lowest_level"] == pytest.approx(-13 * token_bucket.TOKEN, rel=0.1)  # 13 of unfinished work
    assert report["lowest_balance"] == pytest.approx(-3 * token_bucket.TOKEN, rel=0.4)
    assert report["span_ns"] > 0
    again = commands.report()["told"]
    assert (again["message_count"], again["lowest_level"], again["waiting_count"]) == (0, 0, 3)
    assert other.report()["told"]["message_count"] == 13  # each reader of reports has its own
    commands.set_bucket("told", Envelope(10.0, 10.0), full=True)  # full, but for what the three take
    assert commands.report()["told"]["waiting_count"] == 0
    for each in (publisher, commands, other):
        each.close()


def test_a_bucket_keeps_its_tokens_and_can_be_taken_away(running, commands, tmp_path):
    commands.acquire("changed")
    publisher = Client(running.connect("ingress"), 1)
    commands.set_bucket("changed", Envelope(0.001, 5.0))
    publisher.publish("changed", *(numbered(i) for i in range(3)))
    commands.set_bucket("changed", Envelope(0.001, 4.0))  # two tokens are left
    publisher.publish("changed", *(numbered(i) for i in range(3)))
    assert commands.report()["changed"]["waiting_count"] == 1
    commands.set_bucket("changed", None)
    assert commands.report()["changed"]["waiting_count"] == 0
    publisher.close()


def test_move_loses_and_doubles_nothing(tmp_path):
    """Publishers follow MIGRATE while they send and while messages wait for tokens."""
    with broker(tmp_path / "one") as first, broker(tmp_path / "two") as second:
        brokers = {its.addresses["ingress"]: its for its in (first, second)}
        clients = {its: its.client() for its in (first, second)}
        readers = {}
        for its, commands in clients.items():
            commands.acquire("t")
            readers[its] = subscriber(its, "t")
            commands.set_bucket("t", Envelope(500.0, 5.0))
        count, moves = 300, 6
        sent: dict[int, list[str]] = {}
        threads = [
            threading.Thread(target=publish_and_follow, args=(brokers, first, publisher, count, sent))
            for publisher in range(3)
        ]
        received: dict[Broker, list[nsq.Delivered]] = {its: [] for its in readers}
        collectors = [
            threading.Thread(target=receive_all, args=(readers[its], received[its]), daemon=True) for its in readers
        ]
        for thread in threads + collectors:
            thread.start()
        until(lambda: len(sent) == len(threads) and all(sent.values()), "the first messages")
        here, there = first, second
        for move in range(moves):
            time.sleep(0.1)
            whom = None if move % 2 else [0, 2]
            answer = clients[here].move("t", whom, there.addresses["ingress"])
            assert answer["told_count"] + len(answer["missing"]) >= (0 if whom is None else 2)
            if whom is None:
                here, there = there, here
        for thread in threads:
            thread.join(60)
        assert {publisher: len(where) for publisher, where in sent.items()} == dict.fromkeys(range(3), count)
        assert all(len(set(where)) == 2 for where in sent.values())
        for commands in clients.values():
            assert commands.release("t") == 0
        for reader in readers.values():
            reader.socket.shutdown(2)
        for thread in collectors:
            thread.join(10)
        check_streams(received, sent, count)


def publish_and_follow(
    brokers: dict[str, Broker], first: Broker, publisher: int, count: int, sent: dict[int, list[str]]
) -> None:
    """Send pipelined messages; at MIGRATE wait for the OKs that are due, go there, go on.

    Half of them are sent after the first MIGRATE, however late that comes.
    """
    address = first.addresses["ingress"]
    client = Client(brokers[address].connect("ingress"), publisher)
    where = sent.setdefault(publisher, [])
    due, target, most = 0, "", count // 2
    while len(where) < count or due:
        while due < 8 and len(where) < most and not target:
            client.send(nsq.pub("t", numbered(len(where), publisher)))
            where.append(address)
            due += 1
        frame = client.frame()
        if frame.data == nsq.OK:
            due -= 1
            time.sleep(0.001)
        else:
            assert frame.data.startswith(nsq.MIGRATE)
            target, most = frame.data.removeprefix(nsq.MIGRATE).decode(), count
        if target and not due:
            client.close()
            address, target = target, ""
            client = Client(brokers[address].connect("ingress"), publisher)
    client.close()


def receive_all(reader: Client, into: list[nsq.Delivered]) -> None:
    """Until the connection ends."""
    try:
        while True:
            into += reader.receive(1)
    except (EOFError, OSError, ValueError):
        pass


def check_streams(received: dict[Broker, list[nsq.Delivered]], sent: dict[int, list[str]], count: int) -> None:
    """Each message came once, where it was sent, and each broker's in their order."""
    for publisher, where in sent.items():
        everything = []
        for its, messages in received.items():
            heads = [nsq.HEADER.unpack_from(message.body) for message in messages]
            numbers = [number for number, sender, *_ in heads if sender == publisher]
            assert numbers == [i for i in range(count) if where[i] == its.addresses["ingress"]]
            everything += numbers
        assert sorted(everything) == list(range(count))


def test_release_delivers_what_waits_and_forgets_the_topic(running, commands):
    commands.acquire("done")
    reader = subscriber(running, "done")
    commands.set_bucket("done", Envelope(0.001, 1.0))
    ours, stock = Client(running.connect("ingress"), 5), Client(running.connect("ingress"))
    ours.publish("done", *(numbered(i) for i in range(10)))
    stock.publish("done", numbered(10))
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.extend(map(number_of, reader.receive(11))))
    thread.start()

    def leave() -> None:
        assert ours.frame().data == nsq.CLOSE
        ours.close()

    leaver = threading.Thread(target=leave)
    leaver.start()
    assert commands.release("done") == 0
    leaver.join()
    thread.join()
    assert numbers == list(range(11))
    with pytest.raises(EOFError):
        stock.frame()
    assert "done" not in commands.report()
    with pytest.raises(MachineError, match="no topic"):
        commands.release("done")


def test_release_does_not_wait_for_subscribers_that_were_done_and_went(running, commands):
    commands.acquire("gone")
    reader, publisher = subscriber(running, "gone"), Client(running.connect("ingress"), 1)
    publisher.publish("gone", *(numbered(i) for i in range(10)))
    publisher.close()
    reader.receive(10)
    reader.close()
    assert commands.release("gone") == 0


def test_what_no_subscriber_finished_is_counted_at_the_release(running, commands):
    commands.acquire("lonely")
    publisher = Client(running.connect("ingress"), 1)
    publisher.publish("lonely", *(numbered(i) for i in range(10)))
    publisher.close()
    assert commands.release("lonely", limit_ns=100_000_000) == 10


def test_rows_beyond_the_room_are_counted(running, commands, tmp_path):
    commands.acquire("narrow")
    commands.record("narrow", 5)
    publisher = Client(running.connect("ingress"), 9)
    publisher.publish("narrow", *(b"x" for _ in range(8)))
    rows, dropped = recorded(commands, tmp_path / "rows", "narrow")
    assert (rows["publisher"].tolist(), rows["message"].tolist(), dropped) == ([9] * 5, [-1] * 5, 3)
    commands.record("narrow", 0)
    assert recorded(commands, tmp_path / "rows", "narrow")[0]["message"].tolist() == []
    publisher.close()


def test_reads_that_covered_more_than_one_command_are_counted(running, commands):
    before = commands.stats()["merged_read_count"]
    publisher = Client(running.connect("ingress"), 1)
    publisher.send(nsq.pub("merged", b"1") * 3)
    for _ in range(3):
        assert publisher.frame().data == nsq.OK
    assert commands.stats()["merged_read_count"] == before + 1
    publisher.close()


def test_wrong_tokens_are_refused(running, commands):
    before = commands.stats()["refused_token_count"]
    for token in ("", "of-this-tes", "of-this-test "):
        with pytest.raises(MachineError, match="wrong token"):
            BrokerClient(running.connect("control"), token)
    assert commands.stats()["refused_token_count"] == before + 3


@pytest.mark.parametrize(
    ("command", "arguments", "complaint"),
    [
        ("set_bucket", {"topic": "nowhere", "rate": 1, "capacity": 10**12}, "no topic"),
        ("set_bucket", {"topic": "t", "rate": 0, "capacity": 10**12}, "out of range"),
        ("set_bucket", {"topic": "t", "rate": 1, "capacity": 10**12 - 1}, "out of range"),
        ("set_bucket", {"topic": "t", "rate": 10**19, "capacity": 10**12}, "no request"),
        ("acquire", {"topic": "a b"}, "no name"),
        ("move", {"topic": "t", "target": "somewhere"}, "no ip:port"),
        ("record", {"topic": "t", "on": True, "rows": -1}, "rows"),
        ("record", {"topic": "t", "on": True, "rows": 500_001}, "announced 500000"),
        ("collect", {"path": "/nowhere/at/all"}, "no such file"),
        ("collect", {}, "path"),
        ("report", {"colour": "blue"}, "unknown field"),
        ("dance", {}, "no command"),
    ],
)
def test_impossible_commands_are_refused(commands, command, arguments, complaint):
    commands.acquire("t")
    with pytest.raises(MachineError, match=complaint):
        commands._ask(command, **arguments)
    assert commands.report()


@pytest.mark.parametrize("how", ["stdin", "SIGTERM"])
def test_it_ends_with_whoever_started_it(tmp_path, how):
    its = Broker(tmp_path / "b")
    publisher = Client(its.connect("ingress"), 1)
    for _ in range(20):
        publisher.publish("unread", *(numbered(i) for i in range(1000)))
    if how == "SIGTERM":
        its.process.send_signal(signal.SIGTERM)
        assert its.process.wait(60) == 0
    assert its.stop() == 0
    assert not list((tmp_path / "b/nsqd").glob("unread*"))  # a run's messages end with it
    publisher.close()


def test_a_start_that_cannot_work_says_why(tmp_path: Path):
    (tmp_path / "token").write_text("")
    command = [build.brokerd_path(), "-path", tmp_path, "-token-file", tmp_path / "token"]
    assert refusal_of(command) == "brokerd: -token-file: it holds no token\n"
    (tmp_path / "token").write_text(TOKEN)
    for more, complaint in (
        (["-stamps", "later"], "use kernel or read"),
        (["-gc", "odd"], "use default, friendly or off"),
        (["-control", "256.0.0.1:0"], "256.0.0.1"),
        (["-path", str(tmp_path / "missing")], "missing"),
        (["more"], "more than flags"),
    ):
        assert complaint in refusal_of([*command, *more])


def refusal_of(command: list[object]) -> str:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    return result.stderr
