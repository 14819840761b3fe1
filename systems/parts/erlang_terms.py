"""What the thesis' nodes and their messages weigh in Erlang.

In a process terms are shared: one term, however many refer to it.

The thesis watched the memory of processes (4.3.1).  A bucket, or an element of a queue, is one term there to which the
local state and up to 29 delta states refer: what is queued costs a place in a map, or a cell of a list, and not
its content once more.  Words are those that ``erts_debug:size_shared`` counts in OTP 25 on 64 bits; instants
are small integers, as Fig. 4.3 has them.

``shared`` are the bytes of such terms: under data set B within 8 % of those that Erlang counts, at c = 300 and 450.
``process`` is about what ``process_info`` says once garbage is collected.  A heap comes in sizes, and shrinks only when
three quarters of it are free; that is not followed: a line is fitted to the means of processes under data set B at
c = 300, off by 7 % in the root mean square, and at c = 450, where nothing was fitted, too.  ``columns`` is our older
model, which shares nothing (``systems.parts.user_key.MODEL_BYTES``).

The thesis does not say in which unit it measured bandwidth.  A message is a map of users; ``external`` are its bytes in
Erlang's external term format, as nodes on several machines would send it, ``words`` those of the copy that a process
gets in its memory, where nothing is shared any more.  Both are to the byte what Erlang says (``external_size``,
``flat_size``), for instants of UNIX time in milliseconds and counters below 2^27; beyond ``FLAT_MAXIMUM`` users or
nodes words are off by a few percent.  ``encoded`` is our own encoding (``core.codec``).
"""

from collections.abc import Iterable, Sequence

MEMORIES = ("columns", "shared", "process")  # option memory: by which model ``state_bytes`` counts
UNITS = ("encoded", "external", "words")  # option unit: in which ``sent_bytes`` counts
WORD_BYTES = 8
KEY_WORDS = 6  # a user's 32 characters
CONS_WORDS = 2  # a cell of a list
ELEMENT_WORDS = 4  # {element, Birth, Death}
BUCKET_WORDS = 7  # {bucket, Counts, Limit, Refilled}, with Limit's float
STALE_WORDS = 10  # an older bucket and its map but for the values: the names of nodes are the newer one's
FLAT_MAXIMUM = 32  # entries of a map that is two tuples; larger ones are trees
TREE_WORDS = 3.75  # an entry of these, measured at 50 to 5,000 entries
_PROCESS_BYTES = 7_000  # of a node among 30 without its states: options, names and processes, what is being worked on
_HEAP_BYTES = 20  # of a process for each word that lives
# In the external term format.
_VERSION_BYTES = 1
_MAP_BYTES = 5
_LIST_BYTES = 6  # with its end
_KEY_BYTES = 37
_ELEMENT_BYTES = 30  # a tuple, 2, its tag, 10, and two instants, 9 each
_BUCKET_BYTES = 34  # a tuple, 2, its tag, 9, a map, a float, 9, and an instant, 9
_COUNTER_BYTES = 4  # a node and a count below 256
_LARGE_BYTES = 3  # more, of a node or count from there on


def map_words(entries: int) -> int:
    """A map's words without its keys' and values'; an empty one is a constant."""
    if entries > FLAT_MAXIMUM:
        return int(TREE_WORDS * entries)
    return 4 + 2 * entries if entries else 0


def node_words(neighbour_count: int, local_users: int, delta_users: Iterable[int], key_count: int) -> int:
    """LocalState and DeltaStates: maps of users without what these map to.

    ``key_count``: texts of users.  One of the local state, and a copy with what is queued: it came in a message.
    """
    maps = map_words(local_users) + sum(map(map_words, delta_users))
    return map_words(neighbour_count) + maps + KEY_WORDS * key_count


def weight_bytes(memory: str, words: int) -> int:
    """Bytes of a node whose states have so many ``words``, by a model of ``MEMORIES`` but ``columns``."""
    return WORD_BYTES * words if memory == "shared" else _PROCESS_BYTES + _HEAP_BYTES * words


def queue_message_bytes(unit: str, users: int, elements: int) -> int:
    """Bytes of a message with so many elements, by a unit of ``UNITS`` but ``encoded``."""
    if unit == "words":
        return WORD_BYTES * (map_words(users) + KEY_WORDS * users + (CONS_WORDS + ELEMENT_WORDS) * elements)
    return _VERSION_BYTES + _MAP_BYTES + (_KEY_BYTES + _LIST_BYTES) * users + _ELEMENT_BYTES * elements


def counter_message_bytes(unit: str, sizes: Sequence[int], large: int) -> int:
    """The same of a message with a bucket of each of ``sizes`` counters; ``large``: nodes and counts from 256 on."""
    users = len(sizes)
    if unit == "words":
        return WORD_BYTES * (map_words(users) + (KEY_WORDS + BUCKET_WORDS) * users + sum(map(map_words, sizes)))
    content = (_KEY_BYTES + _BUCKET_BYTES) * users + _COUNTER_BYTES * sum(sizes) + _LARGE_BYTES * large
    return _VERSION_BYTES + _MAP_BYTES + content
