"""What drivers of deployed limiters share: a user as one word of a path, and requests that count as one each."""

from hashlib import blake2b
from urllib.parse import quote

from core.errors import SpecError


def counts_requests(driver: str, cost: int) -> None:
    """SpecError for a request that costs more than 1: a limiter that counts requests would take it for one, unseen."""
    if cost != 1:
        raise SpecError(f"{driver} counts requests, not what they cost ({cost})", "offer requests of cost 1")


def word(user: str, longest: int | None = None) -> str:
    """A user, percent-encoded; where that has more than ``longest`` characters, ``!`` and a digest of it, 33 in all.

    Nothing that is percent-encoded has a ``!``: no user passes for another one's digest.
    """
    text = quote(user, safe="", errors="surrogatepass")
    if longest is None or len(text) <= longest:
        return text
    return f"!{blake2b(text.encode(), digest_size=16).hexdigest()}"
