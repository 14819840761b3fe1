"""Who owns a bundle by Pulsar's entry in ZooKeeper."""

import json

import pytest

from core.errors import MachineError
from testbed.servers.pulsar.admin import WHOLE, Topic
from testbed.servers.pulsar.owners import entry_of, owner_in


def test_a_bundle_has_an_owner_while_it_is_owned() -> None:
    entry = {"state": "Owned", "dstBroker": "10.0.0.2:8080", "sourceBroker": "10.0.0.1:8080", "versionId": 4}
    assert owner_in(json.dumps(entry).encode()) == "10.0.0.2:8080"
    for state in ("Init", "Assigning", "Releasing", "Splitting", "Free", "Deleted"):
        assert owner_in(json.dumps({**entry, "state": state}).encode()) == ""
    assert owner_in(None) == owner_in(b"") == ""
    assert entry_of(Topic("t", "n", "x"), WHOLE) == "/service_unit_state/t/n/0x00000000_0xffffffff"


@pytest.mark.parametrize("content", [b"\x00\x01", b"[]", b"{}", b'{"state": "Owned"}', b"[" * 100_000])
def test_another_content_is_refused(content: bytes) -> None:
    with pytest.raises(MachineError, match="cannot be read"):
        owner_in(content)
