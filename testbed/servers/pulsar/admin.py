"""Pulsar's REST: what the harness asks a cluster, and what a load manager from outside tells it.

A broker is known by its *id*, ``"address:web port"``, as Pulsar has it.  What moves is a *bundle*, a range of a
namespace's hashes; here a topic lies alone in a bundle of its own, in one of two ways: a namespace a topic
(``make_namespace`` with one bundle), or a namespace whose bundles are cut to measure (``boundaries``).
"""

import http.client
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit
from zlib import crc32

from core.errors import MachineError
from testbed.servers.pulsar.settings import CLUSTER

ASK_S = 40.0  # more than settings.UNLOAD_TIMEOUT_MS
WHOLE = "0x00000000_0xffffffff"  # the only bundle of a namespace that has one
_REDIRECTS = 4  # of a question: to the owner, or to the leader
_THERE_ALREADY = 409

Connect = Callable[[float], socket.socket]  # to a broker's web port; told a time-out, s


class Topic(NamedTuple):
    """A topic's full name, in its parts."""

    tenant: str
    namespace: str
    name: str
    persistent: bool = True

    @property
    def space(self) -> str:
        """The namespace, with its tenant."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def kind(self) -> str:
        """As paths have it."""
        return "persistent" if self.persistent else "non-persistent"

    def __str__(self) -> str:
        return f"{self.kind}://{self.tenant}/{self.namespace}/{self.name}"


class NotDone(MachineError):
    """A broker answered, and did not do it."""

    def __init__(self, status: int, what: str):
        super().__init__(what, "see the brokers' logs")
        self.status = status


class Unreached(MachineError):
    """Nobody was asked: there is no way to that broker."""


class Admin:
    """Asks any of the brokers, and whom that one names; thread-safe: each question has a connection of its own.

    ``brokers``: id -> a way there.  Those that do not answer are left out, as long as one does.
    """

    def __init__(self, brokers: Mapping[str, Connect]):
        self._brokers = dict(brokers)

    def make_tenant(self, tenant: str) -> None:
        """A new one; its runs see nothing of others."""
        self._make(f"/admin/v2/tenants/{quote(tenant)}", {"allowedClusters": [CLUSTER], "adminRoles": []})

    def make_namespace(self, tenant: str, namespace: str, cuts: Sequence[str] = ()) -> None:
        """With one bundle, or with bundles between ``cuts`` (see ``boundaries``)."""
        bundles = {"boundaries": list(cuts), "numBundles": len(cuts) - 1} if cuts else {"numBundles": 1}
        self._make(f"/admin/v2/namespaces/{quote(tenant)}/{quote(namespace)}", {"bundles": bundles})

    def owner_of(self, topic: Topic, ask: str = "") -> str:
        """The id of the broker that has it; if none had, one has it now.  ``ask``: whom, first."""
        path = f"/lookup/v2/topic/{topic.kind}/{topic.tenant}/{topic.namespace}/{quote(topic.name)}"
        told = json.loads(self._ask("GET", path, ask=ask))
        return str(urlsplit(told["httpUrl"]).netloc)

    def move(self, topic: Topic, bundle: str, target: str = "", timeout_s: float = ASK_S) -> None:
        """Have a bundle's owner give it up, to ``target`` (an id), or to whom Pulsar finds at the next lookup.

        Returns when that is done: the new owner has it, the clients have been told.
        """
        where = f"?{urlencode({'destinationBroker': target})}" if target else ""
        path = f"/admin/v2/namespaces/{topic.tenant}/{topic.namespace}/{bundle}/unload{where}"
        self._ask("PUT", path, timeout_s=timeout_s, is_once=True)

    def stats(self, topic: Topic) -> dict[str, Any]:
        """Rates and clients of a topic, from its owner."""
        path = f"/admin/v2/{topic.kind}/{topic.tenant}/{topic.namespace}/{quote(topic.name)}/stats"
        told: dict[str, Any] = json.loads(self._ask("GET", path))
        return told

    def served(self, broker: str) -> dict[str, Any]:
        """What a broker says of all topics that it has loaded: namespace -> bundle -> kind -> topic -> its figures."""
        told: dict[str, Any] = json.loads(self._ask("GET", "/admin/v2/broker-stats/topics", ask=broker))
        return told

    def subscribe(self, topic: Topic, subscription: str) -> None:
        """Make a topic with a subscription that misses nothing; its owner has loaded it then."""
        path = f"/admin/v2/{topic.kind}/{topic.tenant}/{topic.namespace}/{quote(topic.name)}/subscription"
        self._make(f"{path}/{quote(subscription)}", {"ledgerId": -1, "entryId": -1})

    def group_bookie(self, bookie: str, group: str) -> None:
        """Let a bookie, ``"address:port"``, be of a group, alone in its rack."""
        rack = {"rack": f"/{group}", "hostname": bookie}
        self._ask("POST", f"/admin/v2/bookies/racks-info/{bookie}?{urlencode({'group': group})}", rack)

    def keep_on(self, topic: Topic, group: str) -> None:
        """Let the ledgers of a topic's namespace be on bookies of a group, from its next owner on."""
        path = f"/admin/v2/namespaces/{topic.tenant}/{topic.namespace}/persistence/bookieAffinity"
        self._ask("POST", path, {"bookkeeperAffinityGroupPrimary": group})

    def make_group(self, name: str, rate_rps: int) -> None:
        """A resource group (PIP-82): brokers together take so many messages a second for all of its namespaces."""
        self._ask("PUT", f"/admin/v2/resourcegroups/{quote(name)}", {"publishRateInMsgs": rate_rps})

    def join_group(self, topic: Topic, name: str) -> None:
        """Let a topic's namespace have its part of a group's quota; "": of none any more."""
        path = f"/admin/v2/namespaces/{topic.tenant}/{topic.namespace}/resourcegroup"
        if name:
            self._ask("POST", f"{path}/{quote(name)}")
        else:
            self._ask("DELETE", path)

    def limit(self, topic: Topic, rate_rps: int) -> None:
        """Let each topic of a topic's namespace take so many messages a second; 0: as many as come."""
        path = f"/admin/v2/namespaces/{topic.tenant}/{topic.namespace}/publishRate"
        if rate_rps:
            self._ask("POST", path, {"publishThrottlingRateInMsg": rate_rps, "publishThrottlingRateInByte": -1})
        else:
            self._ask("DELETE", path)

    def alive(self) -> list[str]:
        """The ids of brokers that the cluster knows to be there."""
        return sorted(json.loads(self._ask("GET", f"/admin/v2/brokers/{CLUSTER}")))

    def leader(self) -> str:
        """The id of the broker that leads."""
        return str(json.loads(self._ask("GET", "/admin/v2/brokers/leaderBroker"))["brokerId"])

    def _make(self, path: str, body: object) -> None:
        try:
            self._ask("PUT", path, body)
        except NotDone as error:
            if error.status != _THERE_ALREADY:
                raise

    def _ask(
        self,
        method: str,
        path: str,
        body: object | None = None,
        ask: str = "",
        timeout_s: float = ASK_S,
        is_once: bool = False,
    ) -> bytes:
        """``is_once``: who was asked may have done it, answer or not, and nobody else is to do it again."""
        problem: Exception = MachineError("no broker to ask", "start one")
        for broker in [ask] if ask else self._brokers:
            try:
                return self._follow(broker, method, path, body, timeout_s)
            except NotDone:
                raise
            except (OSError, http.client.HTTPException, MachineError) as error:
                problem = error
                if is_once and not isinstance(error, Unreached):
                    break
        raise MachineError(
            f"Pulsar, {method} {path}: {str(problem) or type(problem).__name__}", "see the brokers' logs"
        )

    def _follow(self, broker: str, method: str, path: str, body: object | None, timeout_s: float) -> bytes:
        for _ in range(_REDIRECTS):
            status, where, content = self._once(broker, method, path, body, timeout_s)
            if status not in (http.client.TEMPORARY_REDIRECT, http.client.FOUND):
                break
            target = urlsplit(where)
            broker, path = target.netloc, f"{target.path}?{target.query}" if target.query else target.path
            if broker not in self._brokers:
                raise MachineError(f"Pulsar sends us to {broker}, which is no broker of ours", "see the brokers' logs")
        if not 200 <= status < 300:
            raise NotDone(status, f"Pulsar, {method} {path}: {status} {content[:300].decode(errors='replace')}")
        return content

    def _once(
        self, broker: str, method: str, path: str, body: object | None, timeout_s: float
    ) -> tuple[int, str, bytes]:
        try:
            sock = self._brokers[broker](timeout_s)
        except (OSError, MachineError) as error:
            raise Unreached(str(error) or type(error).__name__) from error
        sock.settimeout(timeout_s)
        with closing(http.client.HTTPConnection(broker, timeout=timeout_s)) as connection:
            connection.sock = sock
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.getheader("Location") or "", response.read()


def connect_to(broker: str, timeout_s: float) -> socket.socket:
    """A connection to the web port of a broker, by its id, from where this process is."""
    address, _, port = broker.rpartition(":")
    return socket.create_connection((address, int(port)), timeout_s)


def bundles_of(topics: Sequence[Topic]) -> dict[Topic, str]:
    """The bundle of each, as ``make_topics`` makes them: ``topics`` are all that their namespaces have."""
    spaces: dict[str, list[Topic]] = {}
    for topic in sorted(topics, key=topic_hash):
        spaces.setdefault(topic.space, []).append(topic)
    return {
        topic: f"{low}_{high}"
        for members in spaces.values()
        for topic, (low, high) in zip(members, pairwise(boundaries(members)), strict=True)
    }


def topic_hash(topic: Topic) -> int:
    """Where a topic lies among the hashes of its namespace, 0 to 2^32 - 1."""
    return crc32(str(topic).encode())


def boundaries(topics: Sequence[Topic]) -> list[str]:
    """Cuts that give each topic of a namespace a bundle of its own; MachineError where two have the same hash."""
    hashes = sorted(map(topic_hash, topics))
    if len(set(hashes)) < len(hashes):
        raise MachineError("two topics have the same hash", "call one of them otherwise")
    return [f"0x{cut:08x}" for cut in (0, *hashes[1:], 0xFFFFFFFF)]
