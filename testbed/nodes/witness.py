"""Which decisions a node takes without the answer that it asked for, by what its process sees, not by what it says."""

from msgspec.structs import replace

from systems.api import Arrival, Decide, Delivery, Event, Report, System


class Witness:
    """Told of a node's events and questions, in order; nodes whose author forgot ``Decide.unanswered`` do not pass.

    It looks at systems that ask somebody: that declare ``servers``, or how long their nodes wait (``timeout_ns``).  An
    answer is a report of the node's plane, or a message.  Taken alone is

    * what a timer decides, or another request's arrival, where the request's own had made the node ask;
    * of a system with servers also what is decided on no answer before the first one, or after a decision taken alone.

    What an answer says, an error for one, only the node can know.
    """

    def __init__(self, system: System):
        self._has_servers = bool(system.servers)
        self._looks = self._has_servers or system.timeout_ns is not None
        self._has_heard = False  # since the latest decision taken alone
        self._is_answer = False  # the event that the node is given
        self._own: int | None = None  # the request that it is the arrival of, as long as the node keeps it
        self._asked = set[int]()  # requests about which the node asked when they came

    def saw(self, event: Event) -> None:
        """The node is given this event; what it answers is told next."""
        self._own = event.request.id if isinstance(event, Arrival) else None
        self._is_answer = isinstance(event, Delivery | Report)
        self._has_heard |= self._is_answer

    def asked(self) -> None:
        """The node has sent something, or commanded its plane."""
        if self._looks and self._own is not None:
            self._asked.add(self._own)

    def released(self, request_id: int) -> None:
        """The node has handed a request on: it decides nothing of it any more."""
        self._asked.discard(request_id)
        if request_id == self._own:
            self._own = None

    def judged(self, decision: Decide) -> Decide:
        """The same, as one without an answer if it is one."""
        was_asked = decision.request_id in self._asked and decision.request_id != self._own
        self.released(decision.request_id)
        if not self._looks or self._is_answer:
            return decision
        is_silent = self._has_servers and not self._has_heard
        if decision.unanswered or is_silent or was_asked:
            self._has_heard = False
            return replace(decision, unanswered=True)
        return decision
