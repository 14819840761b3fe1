"""What outlives a session, and what a broker's life ends: known answers."""

from core.clients import Role
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Actuate, Delivery, Effect, Message, Report, Send, Start, Timer
from systems.parts.vivaldi import Coordinate
from systems.placement.broker import BrokerNode
from systems.placement.client import ClientNode
from systems.placement.epulsar import Config, EPulsar, policy_of
from systems.placement.messages import (
    Beat,
    ClientLocation,
    Connect,
    Connected,
    Create,
    Done,
    Found,
    Lookup,
    Noted,
    Unfollow,
    Wanted,
)
from systems.placement.store import StoreNode

OPTIONS = Config()
ANSWERED = Connected("red", Role.CONSUMER)


def sent(effects: list[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def test_what_was_asked_in_a_session_ends_with_it() -> None:
    store = StoreNode("store", MILLISECOND_NS, SECOND_NS)
    store.handle(Start(None), 0)
    store.handle(Delivery("broker1", Beat(opens=True)), 0)
    store.handle(Delivery("broker1", Create(1, "/owner/red", "broker1")), 10)
    store.handle(Delivery("broker1", Beat(opens=True)), 20)  # another session, before the entry is made
    store.handle(Delivery("broker1", Create(2, "/owner/red", "broker1")), 30)
    assert sent(store.handle(Timer("work", MILLISECOND_NS), MILLISECOND_NS)) == []
    assert sent(store.handle(Timer("work", 2 * MILLISECOND_NS), 2 * MILLISECOND_NS)) == [Done(2, True)]


def broker() -> BrokerNode:
    node = BrokerNode("broker1", "store", EPulsar(["broker1"], OPTIONS, policy_of(OPTIONS)), OPTIONS, 1)
    node.handle(Start(None), 0)
    return node


def test_a_broker_says_whom_it_has_let_in() -> None:
    node = broker()
    where = Delivery("ann", client_location())
    assert sent(node.handle(where, 1)) == [Noted()]
    node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), 2)
    assert sent(node.handle(where, 3)) == [Noted()]  # it waits for the store
    node.handle(Delivery("store", Done(1, True)), 4)
    assert sent(node.handle(where, 5)) == [Noted((("red", Role.CONSUMER),))]
    assert sent(broker().handle(where, 6)) == [Noted()]  # its next life


def client_location() -> Message:
    return ClientLocation(Coordinate((0.0,) * 8, 1.5, 0.0, 0.0))


def test_a_client_leaves_a_broker_that_has_forgotten_it() -> None:
    node = ClientNode("ann", ["manager1"], OPTIONS, 1)
    node.handle(Start(None), 0)
    node.handle(Report(Wanted("red", Role.CONSUMER)), 1)
    node.handle(Delivery("manager1", Found("red", "broker1")), 2)
    node.handle(Delivery("broker1", ANSWERED), 3)
    assert node.idle()
    assert node.handle(Delivery("broker1", Noted((("red", Role.CONSUMER),))), 4) == []
    effects = node.handle(Delivery("broker1", Noted((("red", Role.PRODUCER),))), 5)
    assert Actuate(Unfollow("red")) in effects
    assert sent(effects) == [Lookup("red", None)]
    assert not node.idle()
