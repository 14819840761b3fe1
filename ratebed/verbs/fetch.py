"""``ratebed fetch``: bring runs that were made on other machines."""

from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from ratebed import interrupts
from ratebed import options as o

Folder = Annotated[str, typer.Option("--from", help="folder of results there; relative to the user's home")]


def fetch(inventory: o.Inventory = "", folder: Folder = "out", out: o.Out = Path("out")) -> None:
    """Copy finished runs from the machines of an inventory into --out, those that are not whole there."""
    from testbed.hosts.ssh.fetching import fetch_runs
    from testbed.hosts.ssh.inventory import read_inventory

    if not inventory:
        raise SpecError("from which machines?", "name them: --inventory FILE (see testbed/hosts/ssh/inventory.py)")
    interrupts.writes_to(out)
    for machine in read_inventory(Path(inventory)):
        print(f"{machine.name}: {len(fetch_runs(machine, folder, out))} runs")
