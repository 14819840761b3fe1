"""Who a user is on the wire of the replicated limiters: 128 bits, whatever the length of the text."""

from functools import lru_cache
from hashlib import blake2b

KEY_BYTES = 16
MODEL_BYTES = 32  # of a user's key in the thesis' model: 32 hexadecimal characters (digest A18)


@lru_cache(maxsize=1 << 16)
def user_key(user: str) -> bytes:
    """The ``KEY_BYTES`` of a user: BLAKE2b of the text."""
    return blake2b(user.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
