"""Messages as bytes: the same encoding in virtual time and on real sockets.

An encoded message is one byte, the index of its class in the system's ``messages``, and its fields
in MessagePack.  Classes are msgspec's structs of plain values: numbers, text, bytes, None, enums, tuples,
lists, sets, dicts, structs and dataclasses of those, with full type annotations.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.errors import SystemFault

_CLASSES_MAXIMUM = 256  # the class index is one byte


class Codec:
    """Encodes and decodes the messages of one system; SystemFault on what is not declared or not plain."""

    def __init__(self, messages: Sequence[type]):
        assert len(messages) <= _CLASSES_MAXIMUM
        self._encoder = msgspec.msgpack.Encoder()
        self._first = {cls: bytes([index]) for index, cls in enumerate(messages)}
        self._decoders = [_decoder(cls) for cls in messages]

    def encode(self, message: object) -> bytes:
        """The bytes of one message."""
        cls = type(message)
        if cls not in self._first:
            raise SystemFault(f"message class {cls.__name__} is not declared", "list it in the system's messages")
        try:
            return self._first[cls] + self._encoder.encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SystemFault(f"cannot encode {message!r}: {error}", "messages hold plain values only") from error

    def decode(self, data: bytes) -> Any:
        """The message that ``encode`` wrote."""
        if not data or data[0] >= len(self._decoders):
            raise SystemFault(f"unknown message class in {data[:16]!r}", "do all nodes run the same system?")
        try:
            return self._decoders[data[0]].decode(memoryview(data)[1:])
        except (msgspec.DecodeError, ValueError, RecursionError) as error:  # no UTF-8, endless nesting
            raise SystemFault(f"cannot decode {data[:16]!r}: {error}", "fields must match their annotations") from error


def _decoder(cls: type) -> msgspec.msgpack.Decoder[Any]:
    try:
        return msgspec.msgpack.Decoder(cls)
    except (TypeError, NameError) as error:
        raise SystemFault(f"message class {cls.__name__}: {error}", "annotate its fields with plain types") from error
