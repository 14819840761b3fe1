"""What each process of clients sends, and when: the same of a real Pulsar and of the modelled one."""

import numpy as np

from core.clients import instants
from core.records import Int64
from studies.placement_on_pulsar.asked import ClientCrew, PulsarRequest
from testbed.servers.pulsar.client_host import DUE


def due_of(asked: PulsarRequest, crew: ClientCrew, number: int) -> dict[str, Int64]:
    """What a crew of that number sends, by the columns ``client_host.DUE``: topics evenly spread in turn, and crews."""
    topics, messages, instants_ns = [], [], []
    for place, topic in enumerate(crew.producing):
        phase = (place + number / len(asked.crews)) / len(crew.producing)
        at_ns = instants(0, asked.duration_ns, asked.load.topics[0].rate_rps, phase)  # topics are alike
        topics.append(np.full(len(at_ns), topic))
        messages.append(np.arange(len(at_ns)))
        instants_ns.append(at_ns)
    columns = [np.concatenate(parts) for parts in (topics, messages, instants_ns)]
    order = np.argsort(columns[2], kind="stable")
    return {name: column[order].astype(np.int64) for name, column in zip(DUE, columns, strict=True)}
