"""What the thesis' nodes weigh as Erlang processes, in which terms are shared: one term, however many refer to it.

The thesis watched the memory of processes (4.3.1).  A bucket, or an element of a queue, is one term there to which the
local state and up to 29 delta states refer: what is queued costs a place in a map, or a cell of a list, and not
its content once more.  Words are those that ``erts_debug:size_shared`` counts in OTP 25 on 64 bits; instants
are small integers, as Fig. 4.3 has them.

``shared`` are the bytes of such terms; ``process`` is what ``process_info`` says once garbage is collected: an empty
process, and the smallest size of heap that the terms fit in.  ``columns`` is our older model, which shares
nothing (``systems.parts.user_key.MODEL_BYTES``).
"""

from collections.abc import Iterable

MEMORIES = ("columns", "shared", "process")  # option memory: by which model ``state_bytes`` counts
WORD_BYTES = 8
KEY_WORDS = 6  # a user's 32 characters
CONS_WORDS = 2  # a cell of a list
ELEMENT_WORDS = 4  # {element, Birth, Death}
BUCKET_WORDS = 7  # {bucket, Counts, Limit, Refilled}, with Limit's float
STALE_WORDS = 10  # an older bucket, and its map but for the values: the names of nodes are the newer one's
FLAT_MAXIMUM = 32  # entries of a map that is two tuples; larger ones are trees
TREE_WORDS = 3.75  # an entry of these, measured at 50 to 5,000 entries
_EMPTY_PROCESS_BYTES = 2_640 - 233 * WORD_BYTES  # but for its heap
_FIBONACCI_HEAPS = 21  # sizes of heaps up to here are sums of the two before, then each is a fifth larger


def map_words(entries: int) -> int:
    """A map's words without its keys' and values'."""
    if entries > FLAT_MAXIMUM:
        return int(TREE_WORDS * entries)
    return 4 + 2 * entries if entries else 3


def node_words(neighbour_count: int, local_users: int, delta_users: Iterable[int], user_count: int) -> int:
    """{LocalState, DeltaStates}: maps of users, ``user_count`` in all, without what these map to."""
    maps = map_words(local_users) + sum(map(map_words, delta_users))
    return 3 + map_words(neighbour_count) + maps + KEY_WORDS * user_count


def weight_bytes(memory: str, words: int, neighbour_count: int, linf: bool = False) -> int:
    """Bytes of a node whose states have so many ``words``, by a model of ``MEMORIES`` but ``columns``.

    A process knows its neighbours' names and processes too, and under LINF their priorities.
    """
    if memory == "shared":
        return WORD_BYTES * words
    own = map_words(8) + map_words(neighbour_count + 1) + CONS_WORDS * neighbour_count
    return _EMPTY_PROCESS_BYTES + WORD_BYTES * _heap_words(words + own + (map_words(neighbour_count) if linf else 0))


def _heap_words(live: int) -> int:
    """The smallest size of a process's heap, 233 words or more, that holds so many."""
    before, size, count = 142, 233, 6
    while size < live:
        count += 1
        before, size = size, before + size + 1 if count <= _FIBONACCI_HEAPS else size + size // 5
    return size
