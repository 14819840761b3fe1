"""A broker that drains gives a topic up only when its data plane has delivered it; clients wait meanwhile."""

from typing import Any

import pytest

from core.clients import Role
from systems.api import Actuate, Delivery, Effect, Report, Send, Start
from systems.placement.broker import BrokerNode
from systems.placement.epulsar import Config, EPulsar, policy_of
from systems.placement.messages import (
    Close,
    Connect,
    Connected,
    Create,
    Delete,
    Done,
    Drained,
    Fence,
    Release,
    Released,
)

TOPICS = ("t", "u")


@pytest.fixture(params=[True, False], ids=["drains", "does-not"])
def broker(request: pytest.FixtureRequest) -> BrokerNode:
    """Owns two topics, with a producer each."""
    config = Config(drain=request.param)
    node = BrokerNode("broker1", "store", EPulsar(("broker1", "broker2"), config, policy_of(config)), config, 1)
    node.handle(Start(None), 0)
    for topic in TOPICS:
        (asked,) = sent(node.handle(Delivery("c", Connect(topic, Role.PRODUCER)), 1), Create)
        assert sent(node.handle(Delivery("store", Done(asked.ticket, True)), 2), Connected)
    return node


def sent(effects: list[Effect], kind: type) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def test_the_order_of_a_release(broker: BrokerNode) -> None:
    effects = broker.handle(Delivery("manager1", Release("t", "broker2")), 3)
    assert Actuate(Fence("t")) in effects
    if broker.drain:
        assert not sent(effects, Delete)
        assert not broker.handle(Report(Drained("u")), 4), "another topic"
        assert not broker.handle(Delivery("d", Connect("t", Role.CONSUMER)), 5)
        effects = broker.handle(Report(Drained("t")), 6)
        assert not broker.handle(Report(Drained("t")), 7), "once"
    (asked,) = sent(effects, Delete)
    effects = broker.handle(Delivery("store", Done(asked.ticket, True)), 8)
    assert sent(effects, Close) == [Close("t", "broker2")] and sent(effects, Released)


def test_a_unit_without_topics_need_not_be_drained() -> None:
    config = Config(drain=True)
    node = BrokerNode("broker1", "store", EPulsar(("broker1",), config, policy_of(config)), config, 1)
    node.handle(Start(None), 0)
    (asked,) = sent(node.handle(Delivery("c", Connect("t", Role.PRODUCER)), 1), Create)
    node._units["t"].waiting.clear()  # whoever waited has gone
    node.handle(Delivery("store", Done(asked.ticket, True)), 2)
    assert sent(node.handle(Delivery("manager1", Release("t", "broker2")), 3), Delete)
