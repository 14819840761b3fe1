"""Which decisions a node takes without the answer that it asked for, by what its process sees, not by what it says."""

from msgspec.structs import replace

from systems.api import Arrival, Decide, Delivery, Event, Report, System, Timer


class Witness:
    """Told of a node's events and questions, in order; nodes whose author forgot ``Decide.unanswered`` do not pass.

    It looks at systems that ask somebody: that declare ``servers``, or how long their nodes wait (``timeout_ns``).  An
    answer is a report of the node's plane, or a message.  Taken alone is

    * what a timer decides, where the request's own arrival had made the node ask;
    * of a system with servers also what is decided on no answer before the first one, or after a decision taken alone.

    What an answer says, an error for one, only the node can know.
    """

    def __init__(self, system: System):
        self._has_servers = bool(system.servers)
        self._looks = self._has_servers or system.timeout_ns is not None
        self._has_heard = False  # since the latest decision taken alone
        self._event: Event | None = None
        self._asked = set[int]()  # requests about which the node asked when they came

    def saw(self, event: Event) -> None:
        """The node is given this event; what it answers is told next."""
        self._event = event
        if isinstance(event, Delivery | Report):
            self._has_heard = True

    def asked(self) -> None:
        """The node has sent something, or commanded its plane."""
        if self._looks and isinstance(self._event, Arrival):
            self._asked.add(self._event.request.id)

    def judged(self, decision: Decide) -> Decide:
        """The same, as one without an answer if it is one."""
        was_asked = decision.request_id in self._asked
        self._asked.discard(decision.request_id)
        if not self._looks or isinstance(self._event, Delivery | Report):
            return decision
        is_silent = self._has_servers and not self._has_heard
        if decision.unanswered or is_silent or (was_asked and isinstance(self._event, Timer)):
            self._has_heard = False
            return replace(decision, unanswered=True)
        return decision
