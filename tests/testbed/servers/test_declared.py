"""Servers and planes by what systems declare: found, refused with the fix, started beside a node."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from core.errors import MachineError, SpecError
from systems import SYSTEMS
from systems.api import StandIn, System
from systems.limiting.drivers.redis_gcra import DRIVER
from systems.loader import load_system
from systems.parts.wires import resp
from testbed.hosts.capabilities import capability
from testbed.hosts.local import LocalSite
from testbed.servers import SERVERS, refuse_servers
from testbed.servers.driven import Driven
from testbed.servers.found import check_servers, load_server, servers_of
from testbed.servers.program import ServerProgram
from testbed.servers.server import Server
from testbed.topologies.topology import mesh
from tests.live import needs

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "redis_window.py"
TOPOLOGY = mesh("two", ["n1", "n2"], 0)


def gcra(**changes: Any) -> System:
    return replace(load_system("redis-gcra"), key="mine", **changes)


# --- found and refused --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVERS)
def test_every_server_says_what_it_needs(name: str) -> None:
    server = load_server(name)
    assert isinstance(server, Server) and server.name == name
    assert capability(name).what.lower() == name and re.match("apt-get install|make live", capability(name).fix)


def test_a_declaration_is_found_whatever_the_system_is_called(tmp_path: Path) -> None:
    (server,) = servers_of(gcra())
    assert isinstance(server, Driven) and server.driver is DRIVER
    named = servers_of(gcra(servers=("systems.limiting.drivers.redis_gcra:DRIVER", "redis-gcra", "zookeeper")))
    assert [server.name for server in named] == ["redis-gcra", "redis-gcra", "zookeeper"]
    example = load_system(str(EXAMPLE))
    assert [server.name for server in servers_of(example)] == ["redis-windows"]
    assert servers_of(gcra(servers=(f"{EXAMPLE}:SERVER",)))[0] is servers_of(example)[0]
    check_servers(gcra(), "local", commands=True)
    check_servers(example, "local", commands=True)


@pytest.mark.parametrize("key", SYSTEMS)
def test_what_registered_systems_declare_is_there(key: str) -> None:
    system = load_system(key)
    check_servers(system, "local", commands=bool(system.plane))
    if system.servers:
        with pytest.raises(SpecError, match="testbed virtual has none"):
            refuse_servers(system, "virtual")
    else:
        refuse_servers(system, "virtual")


@pytest.mark.parametrize(
    ("changes", "what", "fix"),
    [
        (
            {"servers": ("etcd",)},
            "system mine asks a server 'etcd', which nobody has",
            "ratelimit-sentinel, redis-gcra, serf, zookeeper",
        ),
        ({"servers": ("redis",)}, "'redis', which nobody has", "did you mean 'redis-gcra'?"),
        ({"servers": (":ETCD",)}, "':ETCD': systems.limiting.drivers.redis_gcra has no ETCD", "mine declares it"),
        ({"servers": ("no.such:SERVER",)}, "'no.such:SERVER': No module named 'no'", "mine declares it"),
        ({"servers": ("no/such.py:SERVER",)}, "no/such.py: No such file", "path of a Python file"),
        ({"servers": (":SCRIPT",)}, "':SCRIPT' is a str", "testbed.servers.Server"),
        ({"plane": ""}, "nobody on testbed local carries out the commands of system mine", 'plane="module:OBJECT"'),
        ({"plane": "testbed.servers.asking:no_plane"}, "testbed.servers.asking has no no_plane", "mine declares it"),
        ({"plane": "redis"}, "'redis' names no object", "as module:OBJECT"),
        ({"plane": ":SCRIPT"}, "':SCRIPT' cannot be called", "a class or a function"),
        ({"stand_in": StandIn(":nobody", ())}, "has no nobody", "mine declares it"),
        ({"stand_in": StandIn(":RedisGcra", ("etcd",))}, "'etcd', which nobody has", "known: bucket4j, haproxy"),
    ],
)
def test_what_nobody_has_is_refused_with_the_fix(changes: dict[str, Any], what: str, fix: str) -> None:
    with pytest.raises(SpecError, match=re.escape(what)) as caught:
        check_servers(gcra(**changes), "local")
    assert fix in caught.value.fix


def test_a_system_whose_commands_are_needed_has_a_plane() -> None:
    silent = replace(load_system("tb-adaptor"), plane="")
    check_servers(silent, "local")
    with pytest.raises(SpecError, match="nobody on testbed local carries out the commands of system tb-adaptor"):
        check_servers(silent, "local", commands=True)


def test_virtual_time_has_no_real_servers() -> None:
    with pytest.raises(SpecError, match=re.escape("asks a real server (zookeeper), and testbed virtual")) as caught:
        refuse_servers(gcra(servers=("zookeeper",)), "virtual")
    assert "--testbed local" in caught.value.fix
    with pytest.raises(SpecError, match=re.escape("asks a real server (redis-gcra)")):
        refuse_servers(load_system("redis-gcra"), "virtual")
    with pytest.raises(SpecError, match=re.escape("asks a real server (SERVER)")):
        refuse_servers(load_system(str(EXAMPLE)), "virtual")


# --- started ------------------------------------------------------------------------------------


@needs("redis-gcra")
def test_a_server_keeps_its_place_and_forgets_what_it_held(tmp_path: Path) -> None:
    (redis,) = servers_of(load_system(str(EXAMPLE)))
    assert isinstance(redis, ServerProgram)
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        with redis.beside(site, "n2", "secret") as server:
            at = server.reached_at()
            assert at.address == "127.0.0.1" and at.secret == "secret" and at.begun_s > 0
            hello = resp("AUTH", "secret")
            assert server.ask(hello + resp("SET", "key", "1"), b"+OK\r\n+OK\r\n") == b"+OK\r\n+OK\r\n"
            assert b"NOAUTH" in server.ask(resp("GET", "key"), b"\r\n")
            file = tmp_path / "redis-windows-n2" / "settings"
            assert "requirepass secret" in file.read_text() and file.stat().st_mode & 0o077 == 0
            assert "secret" not in (tmp_path / "logs" / "redis-windows-n2.log").read_text()
            server.kill()
            assert not server.process.alive
            server.start()
            server.wait()
            assert server.reached_at() == at
            assert server.ask(hello + resp("GET", "key"), b"$-1\r\n") == b"+OK\r\n$-1\r\n"
        assert not server.process.alive and site.processes == []


def program(**changes: Any) -> ServerProgram:
    usual = ServerProgram(
        "greeter", "python3", "apt-get install python3", 9, lambda spot: ["-m", "http.server", str(spot.port)],
        question=lambda spot: b"GET / HTTP/1.0\r\n\r\n", expected=b"200 OK",
    )  # fmt: skip
    return replace(usual, **changes)


def python(script: str) -> Callable[[Any], list[str]]:
    return lambda spot: ["-c", script, str(spot.port)]


def test_any_program_that_answers_will_do(tmp_path: Path) -> None:
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site, program().beside(site, "n1", "") as server:
        assert urlopen(f"http://127.0.0.1:{server.reached_at().port}/").status == 200


def test_a_program_that_is_not_there_is_named_with_its_fix(tmp_path: Path) -> None:
    missing = program(program="greeterd", fix="apt-get install greeter")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        server = missing.beside(site, "n1", "")
        server.start()
        with pytest.raises(MachineError, match="n1 has no greeterd") as caught:
            server.wait()
        assert caught.value.fix == "apt-get install greeter"
    assert missing.capability.find() is None and program().capability.find() is not None


def test_a_server_that_ends_is_tried_elsewhere_and_then_given_up(tmp_path: Path) -> None:
    note = tmp_path / "ports"
    ends = program(words=python(f"import sys; open({str(note)!r}, 'a').write(sys.argv[1] + ' '); sys.exit(3)"))
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        server = ends.beside(site, "n1", "")
        server.start()
        with pytest.raises(MachineError, match=re.escape("greeter-n1 has ended (code 3) before it answered")):
            server.wait()
    assert len(note.read_text().split()) == 5


def test_a_server_that_says_nothing_is_ended(tmp_path: Path) -> None:
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        server = program(words=python("import time; time.sleep(60)")).beside(site, "n1", "")
        server.start()
        with pytest.raises(MachineError, match="does not answer within"):
            server.wait(0.5)
        assert not server.process.alive
