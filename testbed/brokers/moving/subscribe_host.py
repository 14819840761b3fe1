"""Agent: a subscriber that gives publishers a receipt for every delivery.

As ``testbed.brokers.subscribe_host``, and

    {"do": "confirm", "addresses": ["ip:port"], "token": RUN'S}    where publishers take receipts, in their order
"""

import sys
from collections.abc import Sequence

from testbed.brokers import nsq
from testbed.brokers.moving.receipts import Receipt, Receipts
from testbed.brokers.publish_host import allow_descriptors
from testbed.brokers.subscribe_host import ROWS, Rows, SubscribeHost
from testbed.hosts.agent import serve


class ReceiptedRows(Rows):
    """Deliveries, each of which is confirmed."""

    def __init__(self, capacity: int):
        super().__init__(capacity)
        self.confirm: Receipt | None = None

    def add(self, data: bytes, received_at_ns: int, broker: int, topic: int) -> bytes:
        """See ``Rows``."""
        message_id = super().add(data, received_at_ns, broker, topic)
        body = nsq.message(data).body
        if self.confirm is not None and len(body) >= nsq.HEADER.size:
            message, publisher, tag, _ = nsq.HEADER.unpack_from(body)
            self.confirm(publisher, tag, message)
        return message_id


class ReceiptHost(SubscribeHost):
    """The commands."""

    def __init__(self, row_count: int = ROWS):
        super().__init__(row_count)
        self.rows: ReceiptedRows = ReceiptedRows(row_count)

    def confirm(self, addresses: Sequence[str], token: str) -> None:
        """Give receipts from now on."""

        def begin() -> None:
            self.rows.confirm = Receipts(self.loop, addresses, token).add

        self.thread.call(begin)


def main() -> None:
    """Serve until standard input ends."""
    allow_descriptors()
    host = ReceiptHost(*(int(argument) for argument in sys.argv[1:2]))
    serve({name: getattr(host, name) for name in ("subscribe", "status", "collect", "confirm")})


if __name__ == "__main__":
    main()
