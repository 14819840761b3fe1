"""Which files a spec opens: whoever makes it, a byte of any of them makes another run of it."""

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from core.errors import SpecError
from harness.code_version import files_of, id_of
from harness.experiment import SCALES
from harness.matrix import ad_hoc, read_matrix
from paper_figs import load_figure
from paper_figs.epulsar import fig4
from ratebed.altered import altered
from ratebed.options import make_request
from ratebed.pipeline import adapted
from ratebed.verbs.run import points_of
from studies.api import point_slo_ns
from studies.inputs import input_digests, inputs_of
from studies.spec import RunSpec
from testbed.brokers.model import CALIBRATIONS
from tests.command import ROOT
from workloads import load as load_workload

LIMITED = RunSpec(system="centralised", workload="requests", topology="wan", study="limiting")
FIVE = ("New York", "London", "Singapore", "Sao Paulo", "Sydney")
PINGS = "source,destination,avg\n1,2,70\n2,1,70\n"
SERVERS = "id,title\n1,Chicago\n2,Boston\n"
EXAMPLES = ROOT / "docs/examples"
PLANE = load_figure("limiters-plane").experiment


def table(folder: Path) -> str:
    path = folder / "mine.csv"
    path.write_text("\n".join(f"{a},{b},{90 + len(a + b)}" for a in FIVE for b in FIVE if a < b))
    return str(path)


def log(folder: Path) -> str:
    path = folder / "log.csv"
    path.write_text("user,instant\n" + "".join(f"u{n % 5},{n}\n" for n in range(60)))
    return str(path)


def set_in_a_figure(folder: Path) -> tuple[RunSpec, set[str]]:
    (spec,), _ = altered("x", [LIMITED], {"topology.table": table(folder)})
    return spec, {"mine.csv"}


def log_set_in_a_figure(folder: Path) -> tuple[RunSpec, set[str]]:
    recorded = RunSpec(system="srtm", workload="trace", workload_options={"path": "of the figure"})
    (spec,), _ = altered("x", [recorded], {"workload.path": log(folder)})
    return spec, {"log.csv"}


def ad_hoc_log(folder: Path) -> tuple[RunSpec, set[str]]:
    words = [f"workload.path={log(folder)}", "workload.columns=user=user,instant=instant"]
    (spec,) = ad_hoc("centralised", "request-log", "wan", [*words, f"topology.table={table(folder)}"], 1, 1)
    return spec, {"log.csv", "mine.csv"}


def of_a_matrix(folder: Path) -> tuple[RunSpec, set[str]]:
    matrix = folder / "m.toml"
    options = f"topology_options = {{ table = {json.dumps(table(folder))} }}"
    matrix.write_text(f'[[grid]]\nsystem = "centralised"\nworkload = "requests"\ntopology = "wan"\n{options}\n')
    (spec,) = read_matrix(matrix, 1)
    return spec, {"mine.csv"}


def fitted_in_a_matrix(folder: Path) -> tuple[RunSpec, set[str]]:
    """The shipped table, by its name: no file of the user's."""
    matrix = folder / "m.toml"
    words = 'topology = "us-cities"\nstudy = "policies"\ntopology_options = { table = "fitted" }'
    matrix.write_text(f'[[grid]]\nsystem = "static-split"\nworkload = "requests"\n{words}\n')
    (spec,) = read_matrix(matrix, 1)
    return spec, set()


def with_a_calibration(folder: Path) -> tuple[RunSpec, set[str]]:
    path = folder / "mine.toml"
    path.write_bytes((CALIBRATIONS / "small.toml").read_bytes())
    request = SimpleNamespace(calibration=str(path), testbed="", testbed_options={})
    return adapted(RunSpec(system="srtm", workload="poisson"), request), {"mine.toml"}  # type: ignore[arg-type]


def of_named_servers(folder: Path) -> tuple[RunSpec, set[str]]:
    """Set by hand, beside a list that is then not read."""
    (folder / "pings.csv").write_text(PINGS)
    (folder / "servers.csv").write_text(SERVERS)
    (folder / "others.csv").write_text(SERVERS)
    settings = {"topology.table": str(folder / "pings.csv"), "topology.servers": str(folder / "others.csv")}
    (spec,), _ = altered("x", [LIMITED], settings)
    return spec, {"pings.csv", "others.csv"}


def of_servers_beside(folder: Path) -> tuple[RunSpec, set[str]]:
    (folder / "pings.csv").write_text('\n\n"source","destination" ,avg\n1,2,70\n2,1,70\n')
    (folder / "servers-2020.csv").write_text(SERVERS)
    (spec,), _ = altered("x", [LIMITED], {"topology.table": str(folder / "pings.csv")})
    return spec, {"pings.csv", "servers-2020.csv"}


def of_a_latency_table(folder: Path) -> tuple[RunSpec, set[str]]:
    (folder / "pings.csv").write_text(PINGS)
    (folder / "servers.csv").write_text(SERVERS)
    spec, *_ = fig4.points(SCALES["quick"], {"latency-table": str(folder / "pings.csv")})
    return spec, {"pings.csv", "servers.csv"}


def of_a_figures_log(folder: Path) -> tuple[RunSpec, set[str]]:
    options = {option.name: option.default for option in PLANE.options}
    chosen = {"log": log(folder), "columns": "user=user,instant=instant", "limit": "3,1", "duration": "all"}
    spec, *_ = PLANE.runs(SCALES["tiny"], {**options, **chosen}, 1)
    return spec, {"log.csv"}


def from_outside(folder: Path) -> tuple[RunSpec, set[str]]:
    """Options of what is not the tree's: whatever of them is a file, in a list or with a long path, too."""
    deep = folder.joinpath(*["long" * 20] * 4)
    deep.mkdir(parents=True)
    (folder / "a.csv").write_text("a\n")
    (deep / "b.csv").write_text("b\n")
    options = {"cities": [str(folder / "a.csv"), {"of": str(deep / "b.csv")}], "nodes": 5}
    name = f"{EXAMPLES / 'ring.py'}:TOPOLOGY"
    return RunSpec(system="srtm", workload="poisson", topology=name, topology_options=options), {"a.csv", "b.csv"}


KINDS = (
    set_in_a_figure, log_set_in_a_figure, ad_hoc_log, of_a_matrix, fitted_in_a_matrix, with_a_calibration,
    of_named_servers, of_servers_beside, of_a_latency_table, of_a_figures_log, from_outside,
)  # fmt: skip


@pytest.mark.parametrize("made", KINDS, ids=lambda made: made.__name__)
def test_a_byte_of_a_file_that_a_run_opens_makes_it_another_run(made, tmp_path: Path) -> None:
    spec, names = made(tmp_path)
    opened = [Path(name) for name in inputs_of(spec) if Path(name).is_relative_to(tmp_path)]
    assert {path.name for path in opened} == names and len(opened) == len(names)
    before = id_of(spec)
    for path in opened:
        kept = path.read_bytes()
        path.write_bytes(kept + b"\n")
        assert id_of(spec) != before, path
        path.write_bytes(kept)
    assert id_of(spec) == before


def test_a_point_is_checked_with_the_calibration_that_it_runs_with(tmp_path: Path) -> None:
    """One that has an SLO, which the usual one has not; and the point is on the testbed that it is given."""
    path = tmp_path / "mine.toml"
    path.write_bytes((CALIBRATIONS / "small.toml").read_bytes())
    request = make_request((), False, "quick", 1, 1, tmp_path, (), calibration=str(path), extra_system="lb")
    (spec,) = points_of(request, "", "poisson", "", ["slo=calibrated"]) or ()
    assert point_slo_ns(adapted(spec, request)) == 20_000_000
    plain = make_request((), False, "quick", 1, 1, tmp_path, (), extra_system="lb")
    with pytest.raises(SpecError, match="slo"):
        points_of(plain, "", "poisson", "", ["slo=calibrated"])


def test_a_server_that_a_system_names_counts_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the working directory, not beside the system; on real hosts alone, with what of ours it imports."""
    (tmp_path / "beside").mkdir()
    system, server = tmp_path / "beside" / "my.py", tmp_path / "srv.py"
    text = (EXAMPLES / "tally.py").read_text()
    assert "tally_server.py:" in text
    system.write_text(text.replace("tally_server.py:", "srv.py:"))
    server.write_text((EXAMPLES / "tally_server.py").read_text())
    monkeypatch.chdir(tmp_path)
    limited = {"workload": "requests", "topology": "full-mesh", "study": "limiting"}
    spec, virtual = (RunSpec(system=str(system), testbed=name, **limited) for name in ("local", "virtual"))
    assert set(inputs_of(spec)) - set(inputs_of(virtual)) == {"srv.py"}
    before = id_of(spec), id_of(virtual)
    server.write_text(server.read_text() + "import testbed.erlang.emulator\n")
    assert id_of(spec) != before[0] and id_of(virtual) == before[1]
    assert Path("testbed/erlang/emulator.py") in files_of(spec) and Path("testbed/erlang/emulator.py") not in files_of(
        virtual
    )
    (tmp_path / "beside" / "srv.py").write_text(server.read_text())
    assert [name for name in inputs_of(spec) if name.endswith("srv.py")] == [str(tmp_path / "beside" / "srv.py")]


def test_a_file_is_read_once_for_all_specs_that_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its digest: a log of a gigabyte is that of hundreds of specs."""
    path = Path(log(tmp_path))
    options = {"path": str(path), "columns": "user=user,instant=instant"}
    specs = [
        RunSpec(system="centralised", workload="request-log", workload_options=options, topology="wan", seed=seed)
        for seed in range(5)
    ]
    read, hashed = [], hashlib.file_digest

    def counted(file: BinaryIO, name: str) -> object:
        read.append(file)
        return hashed(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read past what is kept"))
    for _ in range(2):
        before = {name: digest for spec in specs for name, digest in input_digests(spec).items()}
    assert len(read) == 10, "it was just written, and may be written again in this very tick"
    monkeypatch.setattr("core.digests.SETTLED_NS", -(10**12))
    read.clear()
    assert {name: digest for spec in specs for name, digest in input_digests(spec).items()} == before
    workload = load_workload("request-log")
    first = workload.id(workload.configure(options), 1)
    assert len(read) == 1, "what tells pairs apart asks in the same way"
    state = path.stat()
    path.write_text(path.read_text().replace("u1,1", "u2,1"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert input_digests(specs[0]) != before and len(read) == 2 and path.stat().st_size == state.st_size
    assert workload.id(workload.configure(options), 1) != first


def test_lists_of_servers_are_beside_wondernetworks_tables_alone(tmp_path: Path) -> None:
    (tmp_path / "servers.csv").write_text(SERVERS)
    spec = RunSpec(system="srtm", workload="poisson", topology="wan", topology_options={"table": table(tmp_path)})
    assert inputs_of(spec) == [str(tmp_path / "mine.csv")]
    (tmp_path / "mine.csv").write_text(PINGS)
    assert inputs_of(spec) == [str(tmp_path / "mine.csv"), str(tmp_path / "servers.csv")]
    (tmp_path / "servers-2.csv").write_text(SERVERS)
    with pytest.raises(SpecError, match="2 files servers"):
        inputs_of(spec)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    spec = RunSpec(system="srtm", workload="trace", workload_options={"path": str(tmp_path / "none.csv")})
    with pytest.raises(SpecError, match=r"none\.csv: No such file"):
        id_of(spec)
