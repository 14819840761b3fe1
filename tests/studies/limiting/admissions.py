"""What replicas of a bucket may admit, however fast or slowly they hear of each other."""

from collections import Counter

from core.records import Request


def least_and_most(requests: dict[str, list[Request]], capacity: int) -> tuple[int, int]:
    """Requests that all nodes admit together while nothing refills: with one bucket for all, and one at each node."""
    return of_users(requests, capacity), of_nodes(requests, capacity)


def of_users(requests: dict[str, list[Request]], capacity: int) -> int:
    """What one bucket of ``capacity`` for each user admits."""
    asked = Counter(request.user for offered in requests.values() for request in offered)
    return sum(min(count, capacity) for count in asked.values())


def of_nodes(requests: dict[str, list[Request]], capacity: int) -> int:
    """What a bucket of ``capacity`` for each user at each node admits."""
    asked = Counter((node, request.user) for node, offered in requests.items() for request in offered)
    return sum(min(count, capacity) for count in asked.values())
