"""How deployed limiters were configured, word for word: what a driver gives the testbed for five nodes."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from shlex import join

from core.registry import configure
from paper_figs.beyond.contenders import NODES, PRODUCTS, Regime
from systems import SYSTEMS
from systems.limiting.deployed import Cluster, Driver, Process, quota_of
from systems.loader import declared, load_system
from testbed.servers import BUILT

SECRET = "SECRET"  # a new one in each run


def configurations(names: Iterable[str], regime: Regime) -> dict[str, str]:
    """Title -> text, of each product of ``names``; addresses are those of some network, ports the usual ones.

    Of processes that are beside every node the first is shown.
    """
    known = [name for name in names if name in PRODUCTS and PRODUCTS[name].system in SYSTEMS]
    return {f"{PRODUCTS[name].look.label}: configuration": _said(name, regime) for name in known}


def _said(name: str, regime: Regime) -> str:
    who = PRODUCTS[name]
    system = load_system(who.system)
    config = configure(f"system {who.system}", system.config, {**regime.limit, **who.options})
    addresses = {f"n{number}": f"10.0.0.{number}" for number in range(1, NODES + 1)}
    driver = declared(system, ":DRIVER")
    assert isinstance(driver, Driver), name
    processes = driver.servers(Cluster(addresses, "n1", SECRET), quota_of(config), config)
    first: dict[str, Process] = {}
    for process in processes:
        first.setdefault(process.name, process)
    return "\n\n".join(
        _process(process, sum(other.name == process.name for other in processes)) for process in first.values()
    )


def _process(process: Process, count: int) -> str:
    where = f"beside {process.node}" if count == 1 else f"beside each of {count} nodes; here {process.node}"
    parts = [f"# {process.name}, {where}", join(process.command)]
    parts += [f"{name}={value}" for name, value in sorted(process.environment.items())]
    files = {**process.files, **_built_with(process.command[0])}
    parts += [f"\n# {name}\n{text.rstrip()}" for name, text in files.items()]
    return "\n".join(parts)


def _built_with(program: str) -> dict[str, str]:
    """The options that are built into a program of this checkout: name -> text."""
    if program not in BUILT:
        return {}
    module = find_spec(BUILT[program].partition(":")[0])
    assert module is not None and module.origin is not None, program
    return {file.name: file.read_text() for file in sorted(Path(module.origin).parent.glob("*.options"))}
