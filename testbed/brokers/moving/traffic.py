"""The processes of publishers that move, and of subscribers that give them receipts, commanded all at once."""

from collections.abc import Mapping, Sequence

from core.records import Json
from testbed.brokers.traffic import Columns, Publishers, Subscribers
from testbed.trust.accounts import shifted

COMMAND_S = 20.0
TRIES = 10_000  # of a subscriber, in a row, five a second: a broker may be down for long
_INSTANTS = ("fired_at_ns", "sending_at_ns", "move_told_at_ns", "move_opened_at_ns")


class KeepingPublishers(Publishers):
    """See ``testbed.brokers.moving.publish_host``."""

    module = "testbed.brokers.moving.publish_host"

    def listen(self, token: str) -> list[str]:
        """Take receipts; returns where, in the order of the hosts."""
        answers = self.ask_all("listen", COMMAND_S, lambda host: {"address": self.site.address(host), "token": token})
        return [f"{self.site.address(host)}:{answers[host]['port']}" for host in self.names]

    def withhold(self, targets: Sequence[str], on: bool) -> None:
        """Keep all from these brokers, or let them go there again."""
        self.ask_all("withhold", COMMAND_S, lambda host: {"targets": list(targets), "on": on})

    def counters(self) -> dict[str, int]:
        """What all have counted so far."""
        total: dict[str, int] = {}
        for answer in self.ask_all("status", COMMAND_S).values():
            for name, count in answer["counters"].items():
                total[name] = total.get(name, 0) + count
        return total

    def collect(self, tag: int) -> list[Columns]:
        """See ``Publishers``."""
        _, rows = self.collect_all(f"{tag}.rows", tag=tag)
        for host, columns in rows.items():
            for name in _INSTANTS:
                columns[name] = shifted(columns[name], self.site.clock_offset_ns(self.agents[host].host))
        return list(rows.values())


class ReceiptedSubscribers(Subscribers):
    """See ``testbed.brokers.moving.subscribe_host``."""

    module = "testbed.brokers.moving.subscribe_host"

    def confirm(self, addresses: Sequence[str], token: str) -> None:
        """Give receipts, there."""
        self.ask_all("confirm", COMMAND_S, lambda host: {"addresses": list(addresses), "token": token})

    def _wanted(self, topic: str, addresses: Mapping[int, str], token: str, host: str) -> Json:
        return {**super()._wanted(topic, addresses, token, host), "tries": TRIES}
