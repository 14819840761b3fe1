"""Every parser of bytes from outside, as a function of bytes; it raises errors of ``core.errors`` and no others."""

import inspect
import json
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from zlib import crc32

import msgspec

from analysis.audit import Promise
from analysis.report.folder import _former
from collectors.integrity import read_manifest
from collectors.schema import MANIFEST
from core.codec import Codec
from core.errors import HarnessError, MachineError, SpecError
from core.registry import lookup
from core.units import duration_ns, rational
from harness.matrix import _study, ad_hoc, read_matrix
from harness.run import check_all
from harness.soak.ledger import read_ledger
from harness.soak.schedule import read_schedule
from harness.soak.trial import staged
from ratebed import digitised
from ratebed.auditing import Audit
from ratebed.record import differences, read_record, write_record
from ratebed.reporting import _changes, earlier
from studies import load_study
from studies.inputs import run_id
from studies.spec import RunSpec
from systems import SYSTEMS
from systems.loader import load_system
from systems.parts.wires import HttpReader, RespReader
from testbed.brokers import nsq
from testbed.brokers.brokerd.client import BrokerClient
from testbed.brokers.model import load_calibration, slo_ns
from testbed.faults import check_faults, read_faults
from testbed.hosts.ssh.inventory import read_inventory
from testbed.hosts.state import read_state
from testbed.nodes.frames import read_request, read_verdict
from testbed.servers import SERVERS
from testbed.servers.driven import Driven
from testbed.servers.found import load_server
from testbed.servers.serf_rpc import SerfRpc
from testbed.topologies.tables import read_square, read_table
from testbed.topologies.topology import TOPOLOGIES, load_topology
from tests.fuzz.mutate import mutated, values_mutated, words_mutated
from workloads import load as load_workload
from workloads.service_log import LogQuery, read_service_log
from workloads.towers import read_towers

CORPUS = Path(__file__).parent / "corpus"
FOUND = "found-"  # begins the names of what fuzzing has found
SERF_MARK = b"\0--\0"
SOCKET_BYTES = 60_000  # of an answer: what a socket takes without a reader
REPLICAS = (1, 2, 1_000, 100_000)  # of a trace
MESSAGES = Codec(load_system("leases").messages)
STAR = load_topology("star")


@dataclass(frozen=True)
class Parser:
    """``read(data, folder)`` reads ``data``, perhaps from a file in ``folder``; ``mutated`` makes it of kept ones."""

    read: Callable[[bytes, Path], object]
    mutated: Callable[[Sequence[bytes], random.Random], bytes] = mutated


def _file(read: Callable[[Path], object], name: str) -> Parser:
    """A parser of files."""

    def parse(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return Parser(parse)


def _planned(spec: RunSpec) -> None:
    """What planning does with a point."""
    check_all([spec])
    run_id(spec, "")


def _words(data: bytes, folder: Path) -> None:
    """The first line: system, workload, topology; the others: words of ``--set``."""
    head, *settings = data.decode("utf-8", "surrogateescape").split("\n")  # as Python gives the words of a command
    words = [*head.split(), "", "", ""][:3]
    for spec in ad_hoc(*words, [word for word in settings if word], 1, 1):
        run_id(spec, "")


def _calibration(path: Path) -> None:
    model = load_calibration(str(path))
    model.costs()
    slo_ns("calibrated", str(path))


def _point(
    study: str, system: str, workload: str, options: dict[str, object], topology: str, of: dict[str, object]
) -> None:
    _planned(
        RunSpec(
            system=system,
            workload=workload,
            workload_options=options,
            topology=topology,
            topology_options=of,
            study=study,
        )
    )


def _trace(form: dict[str, object], path: Path) -> None:
    """As often as its bytes say."""
    replicas = REPLICAS[crc32(path.read_bytes()) % len(REPLICAS)]
    _point("distribution", "lb", "trace", {"path": str(path), "replicas": replicas, **form}, "srtm-lan", {})


def _log(path: Path) -> None:
    for more in ({}, {"skip_bad": True}):
        _point("limiting", "centralised", "request-log", {"path": str(path), **more}, "full-mesh", {})


def _service_log(path: Path) -> None:
    for skip_bad in (False, True):
        log = read_service_log([str(path)], LogQuery({}, skip_bad=skip_bad))
        found = Audit(log, Promise("bucket", 5, 5, 1_000_000_000, 1_000_000_000), 1_000_000)
        json.dumps(found.document())
        assert found.lines(3)


def _curve(path: Path) -> None:
    workload = load_workload("load-curve")
    made = workload.make(workload.configure({"kind": "log", "path": str(path)}), 1)
    made.demands(3, 20)


def _delays(path: Path) -> None:
    """As a table of each topology that takes one."""
    square = read_square(str(path))
    names = square[0] if square else list(dict.fromkeys(name for ends in read_table(str(path)) for name in ends))
    load_topology(
        "matrix-sites", {"table": str(path), "sites": min(4, len(names)), "repair": "detour", "detours": True}
    )
    if not square:
        load_topology("wan", {"table": str(path), "cities": names[:4], "repair": "detour"})


def _faults(data: bytes, folder: Path) -> None:
    try:
        rows = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise SpecError("faults that are no JSON", "it is text to whoever reads options") from None
    check_faults(read_faults(rows if isinstance(rows, list) else [rows]), STAR)


def _answered(ask: Callable[[socket.socket], object]) -> Parser:
    """A parser of what comes over a socket, which then is closed."""

    def parse(data: bytes, folder: Path) -> object:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(data[:SOCKET_BYTES])
            theirs.shutdown(socket.SHUT_WR)
            return ask(ours)

    return Parser(parse)


class _Said:
    """A connection to an agent that says its parts one after another, whatever it is asked."""

    def __init__(self, parts: list[bytes]):
        self.parts = parts

    def settimeout(self, timeout_s: float) -> None:
        """It never is late."""

    def sendall(self, data: bytes) -> None:
        """It does not listen."""

    def recv(self, most: int) -> bytes:
        return self.parts.pop(0) if self.parts else b""

    def close(self) -> None:
        """It has gone already."""


def _serf(data: bytes, folder: Path) -> None:
    """Parts between marks: what is answered to handshake, secret, and a question; which one, the first byte says."""
    asks = (
        SerfRpc.stats,
        SerfRpc.alive,
        partial(SerfRpc.coordinate, node="n1"),
        partial(SerfRpc.join, addresses=["n"]),
    )
    parts = data[1:].split(SERF_MARK)
    with SerfRpc(lambda timeout_s: _Said(parts), "n1", "secret") as rpc:  # type: ignore[arg-type, return-value]
        asks[data[0] % len(asks) if data else 0](rpc)


def _broker(ours: socket.socket) -> None:
    client = BrokerClient(ours.dup(), "token")
    try:
        client.report(), client.queues(), client.stats(), client.release("topic")
    finally:
        client.close()


def _asked(wire: str, reader: type[HttpReader | RespReader], data: bytes, folder: Path) -> None:
    """What a deployed limiter answers, in two parts, and what the drivers of that wire make of it."""
    drivers = [server.driver for server in map(load_server, SERVERS) if isinstance(server, Driven)]
    taking = reader()
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        try:
            answers = taking.take(part)
        except ValueError as error:
            raise MachineError(f"no answer: {error}", "see its log") from None
        for driver, answer in product([driver for driver in drivers if driver.wire == wire], answers):
            assert driver.verdict(answer) in (True, False, None)


def _frames(data: bytes, folder: Path) -> None:
    parser = nsq.FrameParser()
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        for frame in parser.feed(part):
            if frame.kind == nsq.MESSAGE:
                nsq.message(frame.data)
            elif b":" in frame.data:
                nsq.address(nsq.text(frame.data))


def _manifest(data: bytes, folder: Path) -> None:
    (folder / MANIFEST).write_bytes(data)
    json.dumps(read_manifest(folder))


def _record(path: Path) -> None:
    """What is compared with it, and added to it."""
    record = read_record(path)
    "\n".join(differences(record, [])).encode()
    made = {"machine": "", "commit": "", "made_by": [], "date": ""}
    write_record(path, [], [], made, path.parent, record)


def _report(path: Path) -> None:
    """What a report says that was changed since, and what of it is removed."""
    assert all((path.parent / name).is_file() for name in _former(path.parent))
    _changes(earlier(str(path.parent)), [], {})


def _number(read: Callable[[str], int | Fraction], data: bytes, folder: Path) -> None:
    """Where options have it: ValueError is what its readers turn into an error of theirs."""
    try:
        read(data.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise SpecError(str(error)) from None


PARSERS: dict[str, Parser] = {
    "matrix": _file(partial(read_matrix, seed=1), "matrix.toml"),
    "set": Parser(_words, words_mutated),
    "inventory": _file(read_inventory, "hosts.toml"),
    "calibration": _file(_calibration, "model.toml"),
    "faults": Parser(_faults, values_mutated),
    "delays": _file(_delays, "delays.csv"),
    "servers": _file(lambda path: read_table(str(Path(__file__).parent / "pings.csv"), str(path)), "servers.csv"),
    "towers": _file(lambda path: read_towers(str(path), {}), "towers.csv"),
    "digitised": _file(digitised.frame_of, "curve.csv"),
    "log": _file(_log, "log.csv"),
    "service-log": _file(_service_log, "service.log"),
    "curve": _file(_curve, "log.csv"),
    "trace-csv": _file(partial(_trace, {}), "trace.csv"),
    "trace-ulb": _file(partial(_trace, {"format": "ulb-wsn"}), "trace.txt"),
    "trace-parquet": _file(partial(_trace, {"format": "parquet"}), "trace.parquet"),
    "serf": Parser(_serf),
    "broker": _answered(_broker),
    "http": Parser(partial(_asked, "http", HttpReader)),
    "resp": Parser(partial(_asked, "resp", RespReader)),
    "nsq": Parser(_frames),
    "request": Parser(lambda data, folder: read_request(data)),
    "verdict": Parser(lambda data, folder: read_verdict(data)),
    "message": Parser(lambda data, folder: MESSAGES.decode(data)),
    "manifest": Parser(_manifest),
    "record": _file(_record, "claims.json"),
    "report": _file(_report, "report.json"),
    "schedule": _file(lambda path: staged(read_schedule(path)), "schedule.json"),
    "ledger": _file(read_ledger, "soak.json"),
    "state": _file(read_state, "run-1-00000000.jsonl"),
    "span": Parser(partial(_number, duration_ns)),
    "rational": Parser(partial(_number, rational)),
}


def seeds(name: str) -> list[bytes]:
    """The inputs that are kept for a parser, in the order of their names; of ``--set`` also every option there is.

    What was found is as it was found: no words, perhaps, to which options could be added.
    """
    paths = sorted((CORPUS / name).iterdir())
    kept = [path.read_bytes() for path in paths]
    if name != "set":
        return kept
    points = [path.read_text() for path in paths if not path.name.startswith(FOUND)]
    return [*kept, *(_every_option(point) for point in (*points, *_of_others(points)))]


def _of_others(points: list[str]) -> Iterator[str]:
    """A point of each system that has none: the first one of a study that fits it, without the other's options."""
    named = {point.split()[0] for point in points}
    for key, system in ((key, load_system(key)) for key in SYSTEMS if key not in named):
        fitting = next(point for point in points if load_study(_study_of(point)).fits(system))
        head, *words = fitting.split("\n")
        own = [word for word in words if not word.startswith("system.")]
        yield "\n".join([" ".join([key, *head.split()[1:]]), *own])


def _study_of(point: str) -> str:
    head, *words = point.split("\n")
    told = (word.removeprefix("study=") for word in words if word.startswith("study="))
    return next(told, None) or _study(*head.split()[:2])


def _every_option(point: str) -> bytes:
    """A point with its study and all other options of its parts, with their defaults: what is new is fuzzed, too."""
    head, *words = point.split("\n")
    system, workload, topology = head.split()
    study = _study_of(point)
    factories = {
        "system": load_system(system).config,
        "workload": load_workload(workload).config,
        "topology": lookup("topology", TOPOLOGIES, topology),
        "study": load_study(study).config,
    }
    told = {word.partition("=")[0] for word in words}
    if "study" not in told:
        words.append(f"study={study}")
    for axis, factory in factories.items():
        for name, parameter in inspect.signature(factory).parameters.items():
            if f"{axis}.{name}" not in told and isinstance(parameter.default, int | float | str):
                value = parameter.default
                words.append(f"{axis}.{name}={value if isinstance(value, str) else json.dumps(value)}")
    return "\n".join([head, *words]).encode()


def complaint(name: str, data: bytes, folder: Path) -> str:
    """What is wrong with how a parser takes ``data``; empty: it reads it, or says in one short line why not."""
    try:
        PARSERS[name].read(data, folder)
    except HarnessError as error:
        text = str(error)
        if isinstance(error.__context__, MemoryError):
            return "takes all memory"
        if len(text) > 300 or len(text.splitlines()) != 1 or not text.isprintable():
            return f"no short line: {text[:400]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return ""
