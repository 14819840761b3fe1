"""What replicas of a bucket may admit, however fast or slowly they hear of each other."""

from collections import Counter

from core.records import Request


def least_and_most(requests: dict[str, list[Request]], capacity: int) -> tuple[int, int]:
    """Requests that all nodes admit together while nothing refills: with one bucket for all, and one at each node."""
    of_user = Counter(request.user for offered in requests.values() for request in offered)
    of_node = Counter((node, request.user) for node, offered in requests.items() for request in offered)
    least, most = (sum(min(asked, capacity) for asked in counts.values()) for counts in (of_user, of_node))
    return least, most
