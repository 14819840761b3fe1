"""``ratebed doctor``: what this machine has of what the testbeds and Spark need."""

import json

from ratebed import options as o


def doctor(as_json: o.AsJson = False) -> int:
    """Probe all testbeds and Java; exit code 1 where something is missing."""
    from analysis.spark import find_java
    from core.errors import MachineError
    from testbed import TESTBEDS, load_testbed

    try:
        java = ("Java for Spark", True, str(find_java()))
    except MachineError as error:
        java = ("Java for Spark", False, str(error))
    rows = [("analysis", *java)]
    rows += [(name, *probe) for name in TESTBEDS for probe in load_testbed(name).probe()]
    if as_json:
        print(json.dumps([dict(zip(("for", "what", "found", "detail"), row, strict=True)) for row in rows], indent=2))
    else:
        for name, what, found, detail in rows:
            print(f"{'ok     ' if found else 'missing'}  {name:<10}{what:<18}{detail}")
    return 0 if all(row[2] for row in rows) else 1
