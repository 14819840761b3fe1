"""Pulsar's REST: topics cut apart, brokers that are asked in turn, answers that are refusals."""

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import MachineError
from testbed.servers.pulsar.admin import WHOLE, Admin, NotDone, Topic, boundaries, bundles_of, topic_hash

names = st.lists(st.text("abcdefgh-.0123456789", min_size=1, max_size=12), min_size=1, max_size=40, unique=True)


@given(names)
def test_each_topic_lies_alone_in_its_bundle(given_names: list[str]) -> None:
    topics = [Topic("t", "n", name) for name in given_names]
    cuts = [int(cut, 16) for cut in boundaries(topics)]
    assert cuts[0] == 0 and cuts[-1] == 2**32 - 1 and len(cuts) == len(topics) + 1
    for low, high in pairwise(cuts):
        assert sum(low <= topic_hash(topic) < high for topic in topics) == 1
    others = [Topic("t", name, "x") for name in given_names if name != "n"]
    bundles = bundles_of([*topics, *others])
    assert all(bundles[topic] == WHOLE for topic in others)
    for topic in topics:
        low, high = (int(cut, 16) for cut in bundles[topic].split("_"))
        assert low <= topic_hash(topic) < high
    assert len({bundles[topic] for topic in topics}) == len(topics)


def test_a_topic_is_called_as_pulsar_calls_it() -> None:
    assert str(Topic("t", "n", "x")) == "persistent://t/n/x"
    assert str(Topic("t", "n", "x", persistent=False)) == "non-persistent://t/n/x"


class _Brokers(http.server.BaseHTTPRequestHandler):
    """Answers as its server says: a status and a place for each path."""

    def do_GET(self) -> None:
        status, where = self.server.says[self.path]  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Location", where)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(says: dict[str, tuple[int, str]]) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Brokers) as server:
        server.says = says  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_question_goes_where_it_is_sent_and_past_brokers_that_are_gone() -> None:
    path = "/admin/v2/brokers/ratebed"
    with answering({path: (200, "")}) as owner, answering({path: (307, f"http://b:2{path}")}) as other:
        to = {port: partial(socket.create_connection, ("127.0.0.1", port)) for port in (owner, other)}
        gone = partial(socket.create_connection, ("127.0.0.1", 1))
        assert Admin({"a:1": gone, "c:3": to[other], "b:2": to[owner]}).alive() == []
        with pytest.raises(MachineError, match="b:2, which is no broker of ours"):
            Admin({"c:3": to[other]}).alive()
        with pytest.raises(MachineError, match=r"GET /admin/v2/brokers/ratebed: .*refused"):
            Admin({"a:1": gone}).alive()
        with pytest.raises(MachineError, match="no broker to ask"):
            Admin({}).alive()


def test_who_may_have_moved_a_topic_is_the_last_to_be_asked() -> None:
    topic = Topic("t", "n", "x")
    path = f"/admin/v2/namespaces/t/n/{WHOLE}/unload"
    with answering({path: (204, "")}) as well, answering({}) as ill:  # takes the question, and gives no answer
        to = {port: partial(socket.create_connection, ("127.0.0.1", port)) for port in (well, ill)}
        gone = partial(socket.create_connection, ("127.0.0.1", 1))
        Admin({"a:1": gone, "b:2": to[well]}).move(topic, WHOLE)
        with pytest.raises(MachineError, match="unload: Remote end closed"):
            Admin({"c:3": to[ill], "b:2": to[well]}).move(topic, WHOLE)


def test_what_is_there_already_is_made_and_what_is_refused_is_said() -> None:
    says = {"/admin/v2/tenants/t": (409, ""), "/admin/v2/tenants/u": (500, ""), "/admin/v2/namespaces/t/n": (409, "")}
    with answering(says) as port:
        admin = Admin({"a:1": partial(socket.create_connection, ("127.0.0.1", port))})
        admin.make_tenant("t")
        admin.make_namespace("t", "n")
        with pytest.raises(NotDone, match=r"PUT /admin/v2/tenants/u: 500"):
            admin.make_tenant("u")
