"""One limit's share at one server of a DST, and what it and its neighbours said about it, cycle by cycle.

Eq. (3) of Siami & Skaf, "DST", by messages: at the end of cycle k a server tells its neighbours its
measure p_i(k); x_i(k+1) = x_i(k) + sum of the links' flows g w_ij (p_i - p_j).  The paper's exchange takes no
time.  Where it does, there are two ways to pair measures:

* ``same-cycle`` (ours, the default): a link's flow is that of one cycle, applied when both its measures
  are there.  Both ends apply the very same flow, so Lemma 1 (a constant sum) outlives any delay; a message
  that is lost makes one end apply what the other does not.
* ``latest``: one's own newest measure against whatever was heard last.  It reacts to one's own demand at
  once; while news are late the sum is off by g sum_i d_i (p_i(k) - p_i(k - delay)).

Both are (3) to the letter when nothing is late.  Case IV has a second exchange: a server that the freeze
rule stops says so, and the links beside it carry nothing in that cycle.
"""

from dataclasses import dataclass, field
from math import log

from systems.parts.throttling import SMALLEST

HISTORY = 20  # cycles that a late measure is waited for; ours: 6 s of the default cycle
PAIRINGS = ("same-cycle", "latest")
CLAMPS = ("links", "none")
FROZEN_MEASURE = "allowed"  # Case IV, which needs the freeze rule

# What is said of a cycle: p; the most that one's limit gives to one link; how full the bucket is, in millionths.
Words = tuple[float, float, int]
Flow = tuple[float, int]  # a link's, below 0 where it takes; how full the bucket is that it comes from


@dataclass(frozen=True)
class Law:
    """What all ledgers of a server share.

    ``pull``: neighbour -> g w.  ``clamp``: no link takes more from a limit than its part, x over the number
    of links, so that no limit falls below 0 while nothing is late (D5; ours).
    """

    measure: str
    pull: dict[str, float]
    latest: bool = False
    clamp: bool = True

    @property
    def freezes(self) -> bool:
        """Whether a second exchange is needed."""
        return self.measure == FROZEN_MEASURE

    def words(self, x: float, r: float, fill: int = 0) -> Words:
        """What a server with limit ``x`` and demand ``r`` says; ``fill``: how full its bucket is."""
        return performance(self.measure, x, r), max(0.0, x) / len(self.pull) if self.pull else 0.0, fill

    def flow(self, neighbour: str, mine: Words, theirs: Words) -> Flow:
        """What the link brings in, below 0 what it takes, and the fill of the end that gives.

        The other end finds the very same, negative.
        """
        wanted = self.pull[neighbour] * (mine[0] - theirs[0])
        if wanted > 0.0:
            return (theirs[1] if self.clamp and wanted > theirs[1] else wanted), theirs[2]
        return (-mine[1] if self.clamp and wanted < -mine[1] else wanted), mine[2]


def performance(measure: str, x: float, r: float) -> float:
    """``systems.parts.throttling.performance`` of one server."""
    if measure == "throttled":
        return r - x
    if measure == "throttled-ratio":
        return (r - x) / max(r, SMALLEST)
    if measure == "log-ratio":
        return log(max(r, SMALLEST) / max(x, SMALLEST))
    assert measure == FROZEN_MEASURE
    return x


@dataclass
class _Round:
    """A cycle that is not settled: own words, own verdict of the freeze rule, and the neighbours'."""

    own: Words | None = None
    stopped: bool | None = None
    heard: dict[str, Words] = field(default_factory=dict)
    heard_stopped: dict[str, bool] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)  # whose flow is applied


class Ledger:
    """The limit ``x`` of one server for one key.

    ``settle`` carries the flows of its links into x; whoever counts the limit in whole parts takes ``flows``
    and sets x to what became of them.
    """

    def __init__(self, law: Law, x: float):
        self.law, self.x, self.r = law, x, 0.0
        self.cycle = -(2**62)  # the last one closed
        self.rounds: dict[int, _Round] = {}
        self._due = False  # closed, and not settled since

    def close(self, cycle: int, r: float, fill: int = 0) -> Words:
        """Cycle ``cycle`` ends, in which ``r`` was asked for; returns what the neighbours are to hear."""
        self.cycle, self.r, self._due = cycle, r, True
        words = self.law.words(self.x, r, fill)
        self._round(cycle).own = words
        return words

    def hear(self, source: str, cycle: int, words: Words) -> bool:
        """What a neighbour says of a cycle, late or early; returns whether that cycle was closed here before.

        A copy that comes when its flow is applied says nothing.
        """
        if cycle <= self.cycle - HISTORY:
            return False
        record = self._round(cycle)
        if source in record.settled:
            return False
        record.heard[source] = words
        return record.own is not None

    def hear_stopped(self, source: str, cycle: int, stopped: bool) -> None:
        """The freeze rule's verdict on a neighbour."""
        if cycle > self.cycle - HISTORY:
            self._round(cycle).heard_stopped[source] = stopped

    def verdict(self, cycle: int) -> bool | None:
        """Case IV: does the freeze rule stop this server?  None until all is heard, and when it was said before."""
        record = self.rounds.get(cycle)
        if not self.law.freezes or record is None or record.own is None or record.stopped is not None:
            return None
        if len(record.heard) < len(self.law.pull):
            return None
        record.stopped = self._stopped(record.own, record.heard)
        return record.stopped

    def settle(self) -> None:
        """Apply what is known of the cycles that were closed: x(k) becomes x(k + 1)."""
        self.x += sum(flow for flow, _ in self.flows())

    def flows(self) -> list[Flow]:
        """The flows that are known of the cycles that were closed, each told once."""
        flows: list[Flow] = []
        if not self.law.latest:
            flows = self._matched_flows()
        elif self._due:
            flows = self._latest_flows()
        self._due = False
        for cycle in [cycle for cycle in self.rounds if cycle <= self.cycle - HISTORY]:
            del self.rounds[cycle]
        return flows

    def _round(self, cycle: int) -> _Round:
        record = self.rounds.get(cycle)
        if record is None:
            record = self.rounds[cycle] = _Round()
        return record

    def _stopped(self, own: Words, heard: dict[str, Words]) -> bool:
        """The freeze rule (appendix, Case IV), for limits that may have jumped over r or 0."""
        change = sum(self.law.pull[name] * (own[0] - words[0]) for name, words in heard.items())
        return (self.x >= self.r and change > 0.0) or (self.x <= 0.0 and change < 0.0)

    def _matched_flows(self) -> list[Flow]:
        """The flows of all cycles of which both ends' words are there, each once."""
        flows: list[Flow] = []
        law, links, freezes = self.law, len(self.law.pull), self.law.freezes
        for cycle, record in list(self.rounds.items()):
            own, told = record.own, record.heard
            if own is None or (freezes and record.stopped is None) or (links and not told):
                continue  # nothing new: where messages are lost most rounds are like that
            if freezes:
                told = {name: words for name, words in told.items() if name in record.heard_stopped}
            for name, words in told.items():
                if not (freezes and (record.stopped or record.heard_stopped[name])):
                    flows.append(law.flow(name, own, words))
            record.settled |= told.keys()
            record.heard = {name: words for name, words in record.heard.items() if name not in told} if freezes else {}
            if len(record.settled) == links:
                del self.rounds[cycle]
        return flows

    def _latest_flows(self) -> list[Flow]:
        """The flows from one's own last words and the last that each neighbour is known to have said."""
        own = self.rounds[self.cycle]
        assert own.own is not None
        heard: dict[str, Words] = {}
        stopped: dict[str, bool] = {}
        for cycle in sorted(self.rounds):
            heard.update(self.rounds[cycle].heard)
            stopped.update(self.rounds[cycle].heard_stopped)
        if self.law.freezes and own.stopped is None:
            own.stopped = self._stopped(own.own, heard)
        for cycle in [cycle for cycle in self.rounds if cycle < self.cycle]:
            del self.rounds[cycle]
        own.heard, own.heard_stopped = heard, stopped  # remembered until something newer is heard
        if own.stopped:
            return []
        return [self.law.flow(name, own.own, words) for name, words in heard.items() if not stopped.get(name)]

    def entries_count(self) -> int:
        """Entries that are kept for cycles not settled: what the state weighs beside the limit itself."""
        return sum((record.own is not None) + len(record.heard) for record in self.rounds.values())
