"""``ratebed doctor``: what this machine has of what the testbeds and Spark need."""

import json
from collections.abc import Iterator

from core.errors import MachineError
from core.records import Row
from ratebed import options as o
from testbed.findings import Finding
from testbed.hosts.capabilities import find_capability, fix_of

MACHINE = "machine"
DEFAULT = ("analysis", "virtual")  # what `make figures` cannot do without


def doctor(as_json: o.AsJson = False) -> int:
    """Probe all testbeds and Java; exit code 1 where the default testbed or the analysis lacks something."""
    rows = list(_rows())
    unusable = {row["for"] for row in rows if row["needed"] and not row["found"]}
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            word = (
                "ok" if row["found"] else "missing" if row["needed"] else "note" if row["for"] == MACHINE else "absent"
            )
            print(f"{word:<9}{row['for']:<10}{row['what']:<22}{row['detail']}")
        print(f"\nusable: {', '.join(_names(rows, unusable, usable=True)) or 'nothing'}")
        if unusable:
            print(f"not usable: {', '.join(_names(rows, unusable, usable=False))}")
    return int(bool(unusable & set(DEFAULT)))


def _names(rows: list[Row], unusable: set[str], usable: bool) -> list[str]:
    """The testbeds and the analysis, in order; with what is missing if they are not usable."""
    labels = []
    for name in dict.fromkeys(row["for"] for row in rows if row["for"] != MACHINE):
        if (name not in unusable) == usable:
            lacks = [row["what"] for row in rows if row["for"] == name and row["needed"] and not row["found"]]
            labels.append(name + (f" (lacks {', '.join(lacks)})" if lacks else ""))
    return labels


def _rows() -> Iterator[Row]:
    """What was looked for, and whether it is needed: ``absent`` things only make a testbed better."""
    from testbed import TESTBEDS, load_testbed

    yield _row("analysis", _java())
    for name in TESTBEDS:
        for finding in load_testbed(name).probe():
            yield _row(name, Finding(*finding))
    for finding in _machine():
        yield _row(MACHINE, finding)


def _row(name: str, finding: Finding) -> Row:
    return {"for": name, **finding._asdict()}


def _java() -> Finding:
    from core.java import find_java

    try:
        return Finding("Java for Spark", True, str(find_java()))
    except MachineError as error:
        return Finding("Java for Spark", False, str(error))


def _machine() -> Iterator[Finding]:
    """Whether live campaigns are going on, or have left something; whether virtual machines can be made."""
    from testbed.hosts import lock, state
    from testbed.hosts.vm import hypervisor

    held = ", and ".join(f"held by {who}" for who in lock.holders())
    yield Finding("lock", not held, held or "no live campaign is going on", needed=False)
    try:
        left = [one for one in state.all_states() if not one.is_running]
    except MachineError as error:
        yield Finding("state of live runs", False, str(error), needed=False)
        return
    tools = [name for name in hypervisor.NEEDED if find_capability(name) is None]
    yield Finding("virtual machines", not tools, fix_of(tools[0]) if tools else "make test-vm", needed=False)
    text = f"{len(left)} runs were killed and left things behind: ratebed clean" if left else "nothing is left behind"
    yield Finding("killed runs", not left, text, needed=False)
