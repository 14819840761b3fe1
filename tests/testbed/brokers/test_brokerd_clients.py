"""Stock Python clients publish through the ingress and subscribe from nsqd: every message arrives."""

import asyncio
import json
import subprocess
import sys

import pytest

from tests.live import needs
from tests.testbed.brokers.running import TOKEN, broker

pytestmark = [needs("go"), pytest.mark.slow]

COUNT, BATCH = 200, 10

# pynsq has one event loop a process, which it starts and ends: it gets a process.
PYNSQ = """
import json, sys
import nsq, tornado.ioloop

ingress, nsqd, count, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
token = sys.argv[5]
received, errors = [], []
writer = nsq.Writer([ingress], heartbeat_interval=1, auth_secret=token)

def answered(connection, data):
    if data != b"OK":
        errors.append(repr(data))

def handle(message):
    received.append(message.body.decode())
    if len(received) == 2 * count:
        tornado.ioloop.IOLoop.current().call_later(2.5, tornado.ioloop.IOLoop.current().stop)
    return True

async def publish():
    while not writer.conns:
        await tornado.gen.sleep(0.01)
    for i in range(count):
        writer.pub("pynsq", b"single-%d" % i, answered)
        if i % batch == 0:
            writer.mpub("pynsq", [b"batch-%d" % j for j in range(i, i + batch)], answered)


reader = nsq.Reader(topic="pynsq", channel="sub", nsqd_tcp_addresses=[nsqd], message_handler=handle, max_in_flight=1,
                    auth_secret=token)
loop = tornado.ioloop.IOLoop.current()
loop.call_later(100, loop.stop)
loop.add_callback(publish)
nsq.run()
print(json.dumps({"received": received, "errors": errors, "connected": len(writer.conns)}))
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with broker(tmp_path_factory.mktemp("broker")) as its:
        yield its


def test_pynsq(running):
    pytest.importorskip("nsq")
    client = running.client()
    client.acquire("pynsq")
    command = [sys.executable, "-c", PYNSQ, running.addresses["ingress"], running.addresses["nsqd"]]
    result = subprocess.run([*command, str(COUNT), str(BATCH), TOKEN], capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    wanted = [f"{kind}-{i}" for kind in ("single", "batch") for i in range(COUNT)]
    assert found["errors"] == []
    assert found["connected"] == 1
    assert sorted(found["received"]) == sorted(wanted)
    client.close()


def test_ansq(tmp_path):
    """It knows AUTH only by hand, after it has subscribed: at a broker that is open to all."""
    ansq = pytest.importorskip("ansq")
    with broker(tmp_path / "broker", "-open") as running:
        _exchange_by_ansq(ansq, running)


def _exchange_by_ansq(ansq, running):
    client = running.client()
    client.acquire("ansq")

    async def exchange() -> list[bytes]:
        writer = await ansq.create_writer([running.addresses["ingress"]])
        reader = await ansq.create_reader("ansq", "sub", [running.addresses["nsqd"]])
        for i in range(0, COUNT, BATCH):
            for j in range(i, i + BATCH):
                assert (await writer.pub("ansq", b"single-%d" % j)).is_ok
            assert (await writer.mpub("ansq", *(b"batch-%d" % j for j in range(i, i + BATCH)))).is_ok
        received = []
        while len(received) < 2 * COUNT:
            message = await reader.wait_for_message()
            await message.fin()
            received.append(message.body)
        await writer.close()
        await reader.close()
        return received

    received = asyncio.run(asyncio.wait_for(exchange(), 120))
    assert sorted(received) == sorted(b"%s-%d" % (kind, i) for kind in (b"single", b"batch") for i in range(COUNT))
    client.close()
