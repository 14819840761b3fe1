"""What the thesis leaves open and what moves a verdict, as readings; their defaults are its cell of record.

A reading that is a system's or a workload's own default is left out of specs, so that equal points are one run.
"""

from core.defaults import CAPACITY as DEFAULT_CAPACITY
from core.records import Options
from harness.experiment import Reading

PHASE = Reading(
    "phase",
    "when the nodes' rounds of gossip fall: all at once, or each at a phase of its own",
    "aligned",
    values=("aligned", "random"),
    source="5.4 counts rounds of all nodes at once; nodes are spawned in a loop with one interval (4.3.1, Table 4.1)",
    after=True,
)
CHOICE = Reading(
    "choice",
    "whom a round may choose: neighbours that lack something, or all, with wasted rounds",
    "pending",
    values=("pending", "all"),
    source="3.1: a neighbour at random; that the counter falls silent (5.2.1) leaves no wasted rounds",
)
CAPACITY = Reading(
    "capacity",
    "the secret c, in tokens",
    DEFAULT_CAPACITY,
    int,
    values=(150, DEFAULT_CAPACITY, 450),
    source="Table 4.1 prints a letter; c / 30 is a whole number, and 2.4 s suspicious for 150 to 420 (Table 4.2)",
)
BIRTHS = Reading(
    "births",
    "births of elements: the clock's milliseconds, equal or not, or unique at a node",
    "ms",
    values=("ms", "unique"),
    source="4.2.2: UNIX time in milliseconds; 4.3.1: a user's requests of one millisecond go to one node",
    after=True,
)
IDENTITY = Reading(
    "identity",
    "which elements the sender of a message is not sent back: of equal birth, equal, or not later",
    "birth",
    values=("birth", "exact", "not-later"),
    source='4.1.2: elements with the same timestamp are treated as one; 4.2.1: "duplicates" are removed',
    after=True,
)
MEMORY = Reading(
    "memory",
    "a node's memory: an Erlang process, its live terms, or columns that share nothing",
    "process",
    values=("process", "shared", "columns"),
    source="4.3.1: a module monitors the node processes; terms are shared within one, as Erlang's are",
    after=True,
)
UNIT = Reading(
    "unit",
    "bytes of a message: of our encoding, of Erlang's external format, or of its words of memory",
    "encoded",
    values=("encoded", "external", "words"),
    source="4.3.1: a module monitors the processes; 5.1.3: bandwidth in percent of the counter's peak, not of what",
    after=True,
)
BARELY = Reading(
    "barely",
    'requests of the user "barely" limited: one above c and a minute\'s refill, or 1.1 c',
    "1.06c",
    values=("1.06c", "1.1c"),
    source='4.3.4: "closest to - yet above" c and the refill of a minute, printed as 1.1c',
    after=True,
)
BURSTS_A = Reading(
    "bursts-a",
    "data set A: the share of a user's requests that fall within 20 s",
    0.5,
    float,
    values=(0.5, 0.0),
    source="5.2.1 calls such traffic an influx; the recording is secret",
    after=True,
)
BURSTS_C = Reading(
    "bursts-c",
    "data set C: the share of a user's requests that fall within 20 s",
    0.0,
    float,
    values=(0.0, 0.5),
    source="the recording is secret (4.3.4)",
    after=True,
)
USERS_C = Reading(
    "users-c",
    "data set C: users come for sessions, 5 % of them limited, or send a few requests each",
    "sessions",
    values=("sessions", "few"),
    source="4.3.4: 5,000 users, limited as often as in production; how often, and how much they send, is secret",
    after=True,
)
GARBAGE = Reading(
    "garbage",
    "a process is weighed with its garbage collected, or as it lies",
    "collected",
    values=("collected", "left"),
    source="4.3.1: a module monitors the processes; 5.1.3: memory usage, not how",
)
OWN_WORDS = Reading(
    "own-words",
    "words of memory that a process has beside the state of Fig. 4.3",
    0,
    int,
    values=(0, 40),
    source="Fig. 4.3 says what a replica stores, not what its process is made of",
    after=True,
)
OF_RUNS = (PHASE, CHOICE, CAPACITY, BIRTHS, IDENTITY)  # of every experiment with nodes that gossip
OF_USAGE = (*OF_RUNS, MEMORY, UNIT)
FEW_EACH = 4  # requests of a user of data set C who sends few
# The systems' own rules, for experiments that compare rules: sound ones, whatever the thesis did.
SOUND: Options = {"phase": "random", "births": "unique", "identity": "not-later", "memory": "columns"}


def of_system(system: str, options: Options) -> Options:
    """The options of a gossiping system under the readings ``options``."""
    told: dict[str, object] = {}
    if system not in ("crdt-counter", "crdt-queue", "sliding-log"):
        return told
    own = {PHASE: "random", CHOICE: "pending"}
    if system != "sliding-log":
        own |= {MEMORY: "columns", UNIT: "encoded"}
    told |= {reading.name: reading.of(options) for reading, value in own.items() if reading.of(options) != value}
    if system != "crdt-counter":
        if BIRTHS.of(options) == "ms":
            told |= {"resolution": "1ms", "births": "clock"}
        if IDENTITY.of(options) != "not-later":
            told["identity"] = IDENTITY.of(options)
    return told


def of_load(data_set: str, options: Options) -> Options:
    """The options of a data set under the readings ``options``, beside its capacity."""
    told: dict[str, object] = {}
    if data_set == "B-barely" and BARELY.of(options) != BARELY.default:
        told["barely"] = BARELY.of(options)
    of_bursts = {"A": BURSTS_A, "C": BURSTS_C}.get(data_set)
    if of_bursts and of_bursts.of(options) != of_bursts.default:
        told["bursts"] = f"{of_bursts.of(options):g}"
    return told


def of_data_set(data_set: str, usage: bool = False) -> tuple[Reading, ...]:
    """The readings of a figure on a data set, of memory and bandwidth or not."""
    own = {"A": (BURSTS_A,), "B-barely": (BARELY,), "C": (BURSTS_C, USERS_C)}.get(data_set, ())
    return (*(OF_USAGE if usage else OF_RUNS), *own)
