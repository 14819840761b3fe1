"""Parsers of outside bytes: what is kept, mutated, and what once escaped; each is read, or refused in a line."""

import io
import json
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import HarnessError, MachineError, SpecError
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs import FIGURES, load_figure
from ratebed.options import figure_options
from tests.fuzz.__main__ import enter, least_fuzzed_first
from tests.fuzz.mutate import LENGTH_MAXIMUM, mutated
from tests.fuzz.parsers import PARSERS, Parser, seeds
from tests.fuzz.worker import CURRENT, WARMED, Outcome, judged, run, warm_up, work

FOLDER_IS_SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def _matrix(options: str) -> bytes:
    return f'[[grid]]\nsystem = "lb"\nworkload = "poisson"\n{options}'.encode()


def _set(*words: str, head: str = "srtm poisson srtm-lan") -> bytes:
    return "\n".join([head, *words]).encode("utf-8", "surrogateescape")


def _parquet(**columns: pa.Array) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()


def _broker(line: str) -> bytes:
    costs = "".join(
        f"{name} = 1\n" for name in ("network_ns", "wakeup_ns", "message_ns", "pump_ns", "cores", "mcap_rps")
    )
    costs += "read_time_stamps = false\n"
    return f'[broker]\n{costs}{line}\n[origin]\nfitted_on = []\nprovenance = "ours"\n'.encode()


NESTED = b"a = " + b"[" * 3_000
SERF = b"\0\x82\xa3Seq\x01\xa5Error\xa0\0--\0\x82\xa3Seq\x02\xa5Error\xa0\0--\0\x82\xa3Seq\x03\xa5Error\xa0\0--\0"
PLACES = "pulsar static-topics city-mec"

# What once ended in a traceback, or never: the parser, its input, and what it must say.
ESCAPES = {
    "matrix-no-utf8": ("matrix", b"# caf\xe9\n", "matrix.toml: 'utf-8' codec"),
    "matrix-nested": ("matrix", NESTED, "matrix.toml: RecursionError"),
    "matrix-repetitions": ("matrix", b"repetitions = 100000000\n" + _matrix(""), "100,000,000 runs; at most 100,000"),
    "matrix-axes": (
        "matrix",
        _matrix("".join(f"{axis} = {['x'] * 200}\n" for axis in ("topology", "study", "slo", "round"))),
        "1,600,000,000 runs",
    ),
    "matrix-options": (
        "matrix",
        _matrix(f"workload_options = {{ batch = {list(range(1, 200_000))} }}"),
        "199,999 runs",
    ),
    "matrix-delay": (
        "matrix",
        _matrix('topology = "wan"\ntopology_options = { delay_factor = inf }'),
        "delay_factor = inf",
    ),
    "inventory-nested": ("inventory", NESTED, "hosts.toml: RecursionError"),
    "inventory-no-utf8": ("inventory", b"# caf\xe9\n", "hosts.toml: 'utf-8' codec"),
    "inventory-home": (
        "inventory",
        b'[[host]]\nhost = "a"\nkey = "~nobody-of-that-name/x"\naddress = "1.2.3.4"\n',
        "host 1",
    ),
    "calibration-nested": ("calibration", NESTED, "model.toml: RecursionError"),
    "calibration-no-utf8": ("calibration", b"# caf\xe9\n", "model.toml: 'utf-8' codec"),
    "calibration-inf": ("calibration", _broker("slo = inf"), "slo = inf"),
    "calibration-list": ("calibration", _broker("slo = [1]"), "slo = [1]"),
    "calibration-date": ("calibration", _broker("slo = 1979-05-27"), "slo = datetime.date"),
    "calibration-table": ("calibration", b"broker = 3\norigin = []\n", "write [broker] and [origin]"),
    "delays-far": ("delays", b"here,there,1e305\n", "delays.csv, line 1: '1e305'"),
    "delays-far-square": ("delays", b"0,1e305\n1,0\n", "delays.csv, line 1, field 2: '1e305'"),
    "parquet-decimals": (
        "trace-parquet",
        _parquet(publisher=pa.array(["a", "b"]), instant=pa.array([1, 2], pa.duration("s")).cast(pa.int64())),
        "",
    ),
    "parquet-far": (
        "trace-parquet",
        _parquet(publisher=pa.array(["a", "b"]), instant=pa.array([1, 2**53], pa.timestamp("s"))),
        "give instants between 1678 and 2262",
    ),
    "serf-no-utf8": ("serf", SERF + b"\x81\xa4serf\x81\xa1a\xa1\xff", "the Serf agent n1 does not answer to stats"),
    "serf-nested": ("serf", SERF + b"\x81\xa4serf" + b"\x91" * 9_000 + b"\x90", "the Serf agent n1 does not answer"),
    "resp-large": ("resp", b"*99999999\r\n", "millions of elements"),
    "resp-list-as-key": ("resp", b"%1\r\n*0\r\n:1\r\n", "no answer: unhashable"),
    "http-answer-to-nobody": ("http", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no answer"),
    "set-profile": ("set", _set("study.profile=1/3"), "profile = '1/3'"),
    "set-brokers": ("set", _set("topology.brokers=1000000000"), "give at most 1,000: each host has a path"),
    "set-managers": ("set", _set("topology.managers=99999999999", head=PLACES), "managers = 99999999999"),
    "set-nodes": (
        "set",
        _set("topology.nodes=100000", head="centralised requests full-mesh"),
        "give at most 500: each pair of hosts has a link",
    ),
    "set-topics": (
        "set",
        _set("workload.topics=99999999999999999999999", head=PLACES),
        "workload static-topics, option topics",
    ),
    "set-clients": (
        "set",
        _set("workload.topics=5000", "workload.producers=5000", head=PLACES),
        "at most 10,000 in all",
    ),
    "set-mmog-stay": (
        "set",
        _set("workload.sites=5", "topology.cities=5", "workload.stay=uniform:1ns:1ns", head="pulsar mmog us-cities"),
        "at most 500,000: longer stays, fewer clients, or a shorter run",
    ),
    "set-topic-life": (
        "set",
        _set("workload.topic_life=1ns", "workload.topic_gap=1ns", head="pulsar topic-churn us-cities"),
        "clients come, go and move some 9,600,000,000,",
    ),
    "set-drones": (
        "set",
        _set("workload.speed_mps=1e9", head="epulsar uav-swarms city-mec"),
        "clients come, go and move some",
    ),
    "set-one-place": (
        "set",
        _set("workload.zones=1", "workload.tower_count=1", head="epulsar uav-swarms city-mec"),
        "clients come, go and move some",
    ),
    "set-profile-of-churn": (
        "set",
        _set(
            "study=profile", "workload.topic_life=1ns", "workload.topic_gap=1ns", head="all-pairs topic-churn srtm-lan"
        ),
        "study profile does not run on testbed virtual",
    ),
    "set-avatars": (
        "set",
        _set("workload.avatars=10000", "workload.groups=100", head="pulsar mmog us-cities"),
        "give at most 400,000 in all",
    ),
    "set-zones": (
        "set",
        _set("workload.tower_count=10000", "workload.zones=1000", head="epulsar uav-swarms city-mec"),
        "places = 10,000 times zones = 1,000; give at most 200,000 in all",
    ),
    "set-capacity": (
        "set",
        _set("workload.capacity=1000000", head="centralised data-set star"),
        "68,300,000 requests, and at most 5,000,000 may be",
    ),
    "set-users": (
        "set",
        _set("workload.set=C", "workload.users=1000000", "workload.requests=2000000", head="centralised data-set star"),
        "users=1000000; give 1 to 50,000 users",
    ),
    "set-keys": (
        "set",
        _set("workload.keys=390000", "workload.count=1", "workload.period=20s", head="centralised hot-keys star"),
        "keys = 390,000 times factors = 4 times shapes = 3; give at most 50,000 in all",
    ),
    "set-phases": (
        "set",
        _set("workload.publishers=10000000", head="lb periodic srtm-lan"),
        "groups = 10,000,000; give at most 500,000 in all",
    ),
    "set-unlike-rates": (
        "set",
        _set("workload.publishers=10000000", "workload.rates=zipf"),
        "groups = 10,000,000; give at most 500,000 in all",
    ),
    "set-topics-publishers": (
        "set",
        _set("study=topics", "study.publishers=[10000000]"),
        "topics = 35 times publishers = 10,000,000; give at most 500,000 in all",
    ),
    "set-clients-at": (
        "set",
        _set(
            "topology.nodes=500",
            "workload.clients=10000",
            f"study.clients_at={[*range(30)]}",
            head="throttler load-curve full-mesh",
        ),
        "clients_at = 30 times clients = 5,000,000; give at most 10,000,000 in all",
    ),
    "set-handovers": (
        "set",
        _set("study=coordinates", "study.clients=2", "study.handover=1us", head="static-split requests city-mec"),
        "clients = 2 times handovers = 600,000,000",
    ),
    "set-windows": ("set", _set("study=control", "study.window=10ms", head="tb-adaptor shifting srtm-lan"), "windows"),
    "set-round": ("set", _set("round=99999999999999h"), "longer than ten years"),
    "set-duration": (
        "set",
        _set("study.duration=99999999999999h", head="centralised requests star"),
        "study limiting: duration",
    ),
    "set-skew": ("set", _set("study.clock_skew=99999999999999h", head="centralised requests star"), "clock_skew"),
    "set-long-round": ("set", _set("round=80000h"), "days; ask for less: at most 7"),
    "set-rate": ("set", _set("system.rate=1e999999999", head="centralised requests star"), "rate = '1e999999999'"),
    "set-no-utf8": ("set", b"srtm poisson srtm-lan\nround=\xff", "write them in UTF-8"),
    "set-long-value": ("set", _set("round=" + "x" * 100_000), "xxx…xxx"),
    "set-nested": ("set", _set("workload.publishers=" + "[" * 5_000), "publishers"),
}


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a parser imports and compiles is not its inputs'."""
    for name in PARSERS:
        warm_up(name, tmp_path_factory.mktemp("warm"))


@pytest.mark.parametrize("name", ESCAPES)
def test_what_once_escaped_is_one_line_that_says_where(tmp_path, name):
    parser, data, words = ESCAPES[name]
    assert judged(parser, data, tmp_path) == ""
    if words:
        with pytest.raises(HarnessError) as told:
            PARSERS[parser].read(data, tmp_path)
        assert words in str(told.value)


@pytest.mark.parametrize("name", PARSERS)
def test_kept_inputs_are_read_or_refused(tmp_path, name):
    kept = seeds(name)
    assert kept and [problem for data in kept if (problem := judged(name, data, tmp_path))] == []


@pytest.mark.parametrize("name", PARSERS)
def test_some_kept_input_of_each_parser_is_right(tmp_path, name):
    def is_right(data: bytes) -> bool:
        try:
            PARSERS[name].read(data, tmp_path)
        except HarnessError:
            return False
        return True

    assert any(is_right(data) for data in seeds(name))


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=40, suppress_health_check=FOLDER_IS_SHARED)
@given(rng=st.randoms(use_true_random=False))
def test_mutated_inputs_are_read_or_refused(tmp_path_factory, name, rng):
    data = PARSERS[name].mutated(seeds(name), rng)
    assert len(data) <= 2 * LENGTH_MAXIMUM
    assert judged(name, data, tmp_path_factory.getbasetemp()) == ""


@settings(max_examples=200)
@given(data=st.binary(max_size=400), name=st.sampled_from(sorted(PARSERS)))
def test_any_bytes_are_read_or_refused(tmp_path_factory, name, data):
    assert judged(name, data, tmp_path_factory.getbasetemp()) == ""


def _raises(error: BaseException):
    def read(data: bytes, folder: Path) -> None:
        raise error

    return read


def _memory(data: bytes, folder: Path) -> None:
    try:
        raise MemoryError
    except MemoryError:
        raise SpecError("too large") from None


def _endless(data: bytes, folder: Path) -> None:
    while True:
        pass


def _waits(data: bytes, folder: Path) -> None:
    time.sleep(0.5)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (_raises(KeyError("x")), "KeyError"),
        (_raises(AssertionError()), "AssertionError"),
        (_raises(SpecError("two\nlines", "x" * 500)), ""),
        (_memory, "takes all memory"),
        (_endless, "takes more than"),
        (_waits, "waits more than"),
    ],
)
def test_the_judge_sees_what_is_wrong(tmp_path, monkeypatch, read, said):
    monkeypatch.setitem(PARSERS, "planted", Parser(read))
    monkeypatch.setattr("tests.fuzz.worker.INPUT_S", 0.2)
    problem = judged("planted", b"", tmp_path)
    assert problem.startswith(said) and bool(problem) == bool(said)


def test_mutations_are_of_their_seed_and_of_many_kinds():
    inputs = seeds("log")
    first, again = ([mutated(inputs, random.Random(seed)) for seed in range(300)] for _ in range(2))
    assert first == again and len(set(first)) > 250
    assert any(data[:2] == b"\x1f\x8b" for data in first) and any(b"[" * 60 in data for data in first)


def test_the_ledger_adds_up(tmp_path):
    path = tmp_path / "fuzz.json"
    enter(path, "log", Outcome(1, 10, 2.0, 0.5, 90))
    enter(path, "log", Outcome(2, 5, 1.0, 0.7, 80, {"log/found-1": "KeyError"}))
    enter(path, "set", Outcome(3, 1, 0.5))
    kept = json.loads(path.read_text())
    assert kept["inputs"] == 16 and kept["parsers"]["log"]["runs"] == 2
    assert kept["parsers"]["log"]["failures"] == {"log/found-1": "KeyError"}
    assert kept["parsers"]["log"]["slowest_seconds"] == 0.7 and kept["parsers"]["log"]["largest_megabytes"] == 90
    assert least_fuzzed_first(["log", "set", "never", "new"], path) == ["never", "new", "set", "log"]
    assert least_fuzzed_first(["log", "set"], tmp_path / "none.json") == ["log", "set"]


class _Death(BaseException):
    """A worker ends, of an input."""


def test_a_machine_that_stalls_once_accuses_no_input(tmp_path, monkeypatch):
    stalls = [0.5]
    monkeypatch.setitem(PARSERS, "planted", Parser(lambda data, folder: stalls and time.sleep(stalls.pop())))
    assert judged("planted", b"", tmp_path, 0.2) == ""


def _deadly(data: bytes, folder: Path) -> None:
    if data == b"guilty":
        raise _Death
    if data == b"wrong":
        raise KeyError(0)


def _dies(data: bytes, folder: Path) -> None:
    raise _Death


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """That of the parser "planted", in the order in which a worker warms up; it tries the last first."""
    folder = tmp_path / "corpus" / "planted"
    folder.mkdir(parents=True)
    for name in ("guilty", "wrong"):
        (folder / name).write_bytes(name.encode())
    monkeypatch.setitem(PARSERS, "planted", Parser(_deadly))
    for module in ("parsers", "worker"):
        monkeypatch.setattr(f"tests.fuzz.{module}.CORPUS", folder.parent)
    return folder


def _run_as(monkeypatch, does: Callable[[str, Path], object]) -> Outcome:
    """One worker, which in place of a process does this, until it dies."""

    def played(command, timeout):
        name, folder = command[-4], Path(command[-1])
        try:
            does(name, folder)
        except _Death:
            return subprocess.CompletedProcess(command, 9)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr("tests.fuzz.worker.resource.setrlimit", lambda what, limits: None)
    monkeypatch.setattr("tests.fuzz.worker.subprocess.run", played)
    return run("planted", 1, 1e-9)  # it lasts longer


def test_of_a_worker_that_dies_stays_what_it_had_found(corpus, monkeypatch):
    outcome = _run_as(monkeypatch, lambda name, folder: work(name, 1, 60.0, folder))
    assert outcome.failures == {"planted/wrong": "KeyError: 0", "planted/guilty": "its process ended with 9"}
    assert outcome.inputs == 2
    assert sorted(path.name for path in corpus.iterdir()) == ["guilty", "wrong"]  # they are kept already


def test_a_worker_that_dies_as_it_warms_up_names_the_input(corpus, monkeypatch):
    outcome = _run_as(monkeypatch, warm_up)
    assert outcome.failures == {"planted/guilty": "its process ended with 9"}
    assert len(list(corpus.iterdir())) == 2


def test_what_a_worker_that_hangs_waited_is_no_processor_time(corpus, monkeypatch):
    def hangs(name: str, folder: Path) -> None:
        time.sleep(1.0)
        raise subprocess.TimeoutExpired([], 1.0)

    outcome = _run_as(monkeypatch, hangs)
    assert outcome.seconds < 0.5 and list(outcome.failures.values()) == ["its process ended with -9, before any input"]


def test_the_time_of_a_worker_that_dies_is_its_inputs(corpus, monkeypatch):
    used_s = iter((10.0, 17.0))
    monkeypatch.setattr("tests.fuzz.worker.children_s", lambda: next(used_s))
    assert _run_as(monkeypatch, lambda name, folder: (folder / WARMED).write_text("4.0")).seconds == 3.0


def test_a_worker_that_dies_of_no_input_accuses_none(corpus, monkeypatch):
    outcome = _run_as(monkeypatch, lambda name, folder: None)
    assert outcome.failures == {"planted": "its process ended with 1, before any input"}
    assert len(list(corpus.iterdir())) == 2


def test_an_input_that_is_not_kept_yet_is(corpus, monkeypatch):
    (corpus / "guilty").unlink()
    monkeypatch.setitem(PARSERS, "planted", Parser(_dies))
    monkeypatch.setattr("tests.fuzz.worker.seeds", lambda name: [b"new"])
    (file,) = _run_as(monkeypatch, warm_up).failures
    assert file.startswith("planted/found-") and (corpus.parent / file).read_bytes() == b"new"


def test_a_warm_up_goes_on_after_an_input_that_hangs(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(PARSERS, "planted", Parser(lambda data, folder: data == b"wrong" or _endless(data, folder)))
    monkeypatch.setattr("tests.fuzz.worker.WARM_UP_S", 0.2)
    warm_up("planted", tmp_path)
    assert (tmp_path / CURRENT).read_bytes() == b"wrong"


@pytest.mark.long
@pytest.mark.parametrize("key", FIGURES)
def test_the_papers_sizes_are_within_all_limits(key):
    experiment = load_figure(key).experiment
    try:
        check_all(experiment.runs(SCALES["paper"], figure_options([key], [])[key], 1))
    except MachineError as lacking:  # pulsar-quota's runs are Apache Pulsar's
        pytest.skip(str(lacking))
