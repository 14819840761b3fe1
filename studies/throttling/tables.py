"""What a throttler's run showed, as rows of its tables.  Pure: from the nodes' samples to columns."""

from collections.abc import Iterable

from collectors.rows import Sample
from collectors.writer import Columns
from studies.tables import columns, sample_rows

OF_CYCLES = ("limit", "demand", "admitted", "nodal_measure")
OF_CLIENTS = {"client_demand": "demand", "client_admitted": "admitted"}  # one after the other, in the clients' order
_NEGATIVE = "negative_limit_count"  # what the limit itself says


def cycle_tables(samples: Iterable[Sample], cycle_ns: int) -> dict[str, Columns]:
    """The tables ``cycles``, ``client_cycles`` and ``samples``: the rest; cycle k ends at (k + 1) x ``cycle_ns``.

    ``samples``: in the order in which nodes told them.
    """
    rest: list[Sample] = []
    cycles: dict[tuple[int, str], dict[str, float]] = {}
    clients: dict[tuple[int, str], dict[str, list[float]]] = {}
    for at_ns, node, metric, value in samples:
        if metric in OF_CYCLES:
            cycles.setdefault((at_ns, node), {})[metric] = value
        elif metric in OF_CLIENTS:
            clients.setdefault((at_ns, node), {}).setdefault(OF_CLIENTS[metric], []).append(value)
        elif metric != _NEGATIVE:
            rest.append((at_ns, node, metric, value))
    ended = [
        (at_ns, at_ns // cycle_ns - 1, server, *(told.get(name) for name in OF_CYCLES))
        for (at_ns, server), told in cycles.items()
    ]
    each = [
        (at_ns, at_ns // cycle_ns - 1, server, number, demand, admitted)
        for (at_ns, server), told in clients.items()
        for number, (demand, admitted) in enumerate(zip(told["demand"], told["admitted"], strict=True))
    ]
    return {
        "cycles": columns(("at_ns", "cycle", "server", *OF_CYCLES), ended),
        "client_cycles": columns(("at_ns", "cycle", "server", "client", "demand", "admitted"), each),
        "samples": sample_rows(rest),
    }
