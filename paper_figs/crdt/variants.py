"""The limiters that the thesis compares, by the names that its figures have for them, as systems with options."""

from core.records import Json

COUNTER, QUEUE, L, F, FL = "counter", "queue", "queue+L", "queue+F", "queue+F+L"
EXTENSIONS = (COUNTER, QUEUE, L, F, FL)
LOG = "sliding-log"  # 4.1.1, on many nodes
ORACLE, CENTRAL_COUNTER, CENTRAL_QUEUE = "centralised", "central counter", "central queue"

# label -> system and its options
VARIANTS: dict[str, Json] = {
    ORACLE: {"system": "centralised"},  # without delay: the ground truth (thesis 4.3.1)
    COUNTER: {"system": "crdt-counter"},
    QUEUE: {"system": "crdt-queue"},
    L: {"system": "crdt-queue", "linf": True},
    F: {"system": "crdt-queue", "frequency": True},
    FL: {"system": "crdt-queue", "frequency": True, "linf": True},
    LOG: {"system": "sliding-log"},
}
CENTRAL = {COUNTER: CENTRAL_COUNTER, QUEUE: CENTRAL_QUEUE}  # on one node
