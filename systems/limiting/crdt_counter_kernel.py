"""The counter's inner loops, compiled: admit, merge, flush.  ``crdt_counter_literal`` says what they mean.

A node's state is five arrays:

* ``rows``, int64 (users, columns below): a user's key, limit, sums, and, in the second line of cache, what
  is queued: the limit as it was then, for whom an older bucket is (1 + its place; as terms are weighed it is
  another one), and a bit mask of the neighbours.  A limit is in whole tokens and
  in ticks beyond them (fewer than a token's), so that nothing overflows, however fine the rate.
* ``counts``, uint32 (users, nodes or a little more): the counters.
* ``table``, int32 (a power of two): where a user is in ``rows``, by open addressing; -1 = free.
* ``queue``, int32 (neighbours, users): users whose bucket is queued, in the order of queueing.
* ``book``, int64: number of users, model bytes, and then the length of each neighbour's queue.

``terms``, int64, are the node's constants: own, capacity, ticks_per_ns, token_ticks, capped, whole_tokens, queues.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np

from core.compiled import njit
from systems.parts.erlang_terms import BUCKET_WORDS, FLAT_MAXIMUM, STALE_WORDS, TREE_WORDS

KEY, LIMIT, SUM, ENTRIES, QUEUED, QUEUED_LIMIT, STALE, MASK = 0, 2, 5, 6, 7, 8, 11, 12  # columns; a limit has three
USERS, BYTES, LENGTHS = 0, 1, 2  # of the book
REJECTED, FULL, OVERFLOW = -1, -2, -3  # what ``admit`` returns where it is no user

_LIMIT_AND_KEY_BYTES = 48  # model of A18: a user's key, a limit and its instant
_COUNTER_BYTES = 16
_COUNT_MAXIMUM = 2**32 - 1
_STEP_TICKS = 2**62  # a refill in one multiplication


@njit(cache=True, inline="always")
def _find(rows, table, key0, key1):
    """Where the user's place in the table is, taken or free."""
    last = table.shape[0] - 1
    slot = key0 & last
    while table[slot] >= 0 and (rows[table[slot], KEY] != key0 or rows[table[slot], KEY + 1] != key1):
        slot = (slot + 1) & last
    return slot


@njit(cache=True)
def rehash(rows, table, users):
    """Fill an empty table."""
    for user in range(users):
        table[_find(rows, table, rows[user, KEY], rows[user, KEY + 1])] = user


@njit(cache=True, inline="always")
def _add(rows, table, book, slot, key0, key1, tokens, ticks, at_ns):
    """A new user's row, without counters."""
    user = book[USERS]
    book[USERS] += 1
    book[BYTES] += _LIMIT_AND_KEY_BYTES
    table[slot] = user
    row = rows[user]
    row[:] = 0
    row[KEY], row[KEY + 1] = key0, key1
    row[LIMIT], row[LIMIT + 1], row[LIMIT + 2] = tokens, ticks, at_ns
    return user


@njit(cache=True, inline="always")
def _count(counts, row, book, user, node, count):
    """Set one counter to a larger value."""
    old = np.int64(counts[user, node])
    if old == 0:
        row[ENTRIES] += 1
        book[BYTES] += _COUNTER_BYTES * (1 + row[QUEUED])
    row[SUM] += count - old
    counts[user, node] = count


@njit(cache=True)
def _enqueue(row, queue, book, user, sender):
    """The bucket as it is now is queued for everybody but ``sender``, for whom it stays queued if it was."""
    row[QUEUED_LIMIT], row[QUEUED_LIMIT + 1], row[QUEUED_LIMIT + 2] = row[LIMIT], row[LIMIT + 1], row[LIMIT + 2]
    is_old = sender >= 0 and row[MASK + (sender >> 6)] & (np.int64(1) << (sender & 63))
    row[STALE] = sender + 1 if is_old else 0
    if row[QUEUED] == queue.shape[0]:
        return
    added = 0
    for place in range(queue.shape[0]):
        word, bit = MASK + (place >> 6), np.int64(1) << (place & 63)
        if place != sender and not row[word] & bit:
            row[word] |= bit
            queue[place, book[LENGTHS + place]] = user
            book[LENGTHS + place] += 1
            added += 1
    row[QUEUED] += added
    book[BYTES] += added * (_LIMIT_AND_KEY_BYTES + _COUNTER_BYTES * row[ENTRIES])


@njit(cache=True)
def _refill(row, terms, now_ns):
    """Listing 3.1, 13-18, with the bucket or the refill capped (A6)."""
    elapsed_ns = now_ns - row[LIMIT + 2]
    if elapsed_ns <= 0:
        return
    capacity, ticks_per_ns, token_ticks = terms[1], terms[2], terms[3]
    tokens, ticks = row[LIMIT], row[LIMIT + 1]
    if terms[4]:
        ceiling = row[SUM] + capacity
        while elapsed_ns > 0:
            step_ns = min(elapsed_ns, _STEP_TICKS // ticks_per_ns)
            elapsed_ns -= step_ns
            ticks += step_ns * ticks_per_ns
            tokens += ticks // token_ticks
            ticks %= token_ticks
            if tokens >= ceiling:
                tokens, ticks, elapsed_ns = ceiling, 0, 0
    else:
        full = capacity * token_ticks
        ticks += full if elapsed_ns > full // ticks_per_ns else elapsed_ns * ticks_per_ns
        tokens += ticks // token_ticks
        ticks %= token_ticks
    row[LIMIT], row[LIMIT + 1], row[LIMIT + 2] = tokens, ticks, now_ns


@njit(cache=True)
def admit(rows, counts, table, queue, book, terms, key, cost, now_ns):
    """Listings 3.1 and 3.2: the user's row if the request is admitted, else REJECTED, FULL (grow first), OVERFLOW."""
    slot = _find(rows, table, key[0], key[1])
    user = np.int64(table[slot])
    if user < 0:
        if book[USERS] == rows.shape[0]:
            return FULL
        user = _add(rows, table, book, slot, key[0], key[1], terms[1], 0, now_ns)
    else:
        _refill(rows[user], terms, now_ns)
    row = rows[user]
    left = row[LIMIT] - row[SUM] - cost
    if left < 0 and (terms[5] or left < -1 or row[LIMIT + 1] == 0):
        return REJECTED
    own = terms[0]
    count = np.int64(counts[user, own]) + cost
    if count > _COUNT_MAXIMUM:
        return OVERFLOW
    if cost > 0:
        _count(counts, row, book, user, own, count)
    if terms[6]:
        _enqueue(row, queue, book, user, -1)
    return user


@njit(cache=True)
def _look_up(rows, counts, table, users, begin, places):
    """Find the users' rows, -1 = new, and read from each row and its counters.

    A pass of its own, because these reads depend on nothing: many cache misses are under way at once,
    and the loop that follows has none.  The sum returned keeps the compiler from leaving them out.
    """
    touched = np.int64(0)
    last = counts.shape[1] - 1
    for index in range(begin, places.shape[0]):
        user = np.int64(table[_find(rows, table, users[2 * index], users[2 * index + 1])])
        places[index] = user
        if user >= 0:
            touched += np.int64(counts[user, 0]) + np.int64(counts[user, last]) + rows[user, MASK]
    return touched


@njit(cache=True)
def merge(rows, counts, table, queue, book, terms, users, sizes, limits, nodes, values, begin, sender):
    """Listings 3.3 and 3.4 on the columns of a ``Delta``, from row begin[0] and counter begin[1] on.

    Returns whether all is merged; if not, there was no room for a user, and ``begin`` says where to go on.
    """
    places = np.empty(sizes.shape[0], np.int64)
    begin[2] = _look_up(rows, counts, table, users, begin[0], places)
    first = begin[1]
    for index in range(begin[0], sizes.shape[0]):
        key0, key1 = users[2 * index], users[2 * index + 1]
        tokens, ticks, at_ns = limits[3 * index], limits[3 * index + 1], limits[3 * index + 2]
        user = places[index]
        changed = bool(user < 0)
        if changed:
            slot = _find(rows, table, key0, key1)
            if book[USERS] == rows.shape[0]:
                begin[0], begin[1] = index, first
                return False
            user = _add(rows, table, book, slot, key0, key1, tokens, ticks, at_ns)
        row = rows[user]
        last = first + np.int64(sizes[index])
        for entry in range(first, last):
            if values[entry] > counts[user, nodes[entry]]:
                _count(counts, row, book, user, nodes[entry], np.int64(values[entry]))
                changed = True
        first = last
        if (tokens, ticks, at_ns) > (row[LIMIT], row[LIMIT + 1], row[LIMIT + 2]):
            row[LIMIT], row[LIMIT + 1], row[LIMIT + 2] = tokens, ticks, at_ns
            changed = True
        if changed and terms[6]:
            _enqueue(row, queue, book, user, sender)
    return True


@njit(cache=True)
def pack(rows, counts, chosen, limit):
    """The buckets of the users ``chosen``, with the limits in column ``limit``, as the columns of a ``Delta``.

    Returns one buffer, which costs less to hand over than five arrays, and the numbers of users and counters.  The
    columns stand widest first: users, limits, counts, nodes, sizes; counts and nodes have a row more, not to be kept.
    """
    total, touched, width = np.int64(0), np.int64(0), counts.shape[1]
    for user in chosen:  # as in _look_up
        total += rows[user, ENTRIES]
        touched += np.int64(counts[user, 0]) + np.int64(counts[user, width - 1]) + rows[user, MASK]
    count = chosen.shape[0]
    values_at = 40 * count
    nodes_at = values_at + 4 * (total + 1)
    sizes_at = nodes_at + 2 * (total + 1)
    columns = np.empty(sizes_at + 2 * count, np.uint8)
    users, limits = columns[: 16 * count].view(np.int64), columns[16 * count : values_at].view(np.int64)
    values, nodes = columns[values_at:nodes_at].view(np.uint32), columns[nodes_at:sizes_at].view(np.uint16)
    sizes = columns[sizes_at:].view(np.uint16)
    values[total] = touched & 1
    entry = 0
    for index in range(count):
        user = chosen[index]
        row = rows[user]
        users[2 * index], users[2 * index + 1] = row[KEY], row[KEY + 1]
        sizes[index] = row[ENTRIES]
        for part in range(3):
            limits[3 * index + part] = row[limit + part]
        for node in range(width):
            value = counts[user, node]
            nodes[entry], values[entry] = node, value
            entry += value > 0
    return columns, count, total


@njit(cache=True)
def weigh(rows, users):
    """Texts of users, and words of all buckets, out of date or not, as terms of Erlang."""
    keys, words = np.int64(users), np.int64(0)
    for user in range(users):
        entries = rows[user, ENTRIES]
        if entries > FLAT_MAXIMUM:
            words += BUCKET_WORDS + np.int64(TREE_WORDS * entries)
        else:
            words += BUCKET_WORDS + (4 + 2 * entries if entries else 0)
        keys += rows[user, QUEUED] > 0
        if rows[user, STALE]:
            keys += 1
            words += STALE_WORDS + entries
    return keys, words


@njit(cache=True)
def flush(rows, counts, queue, book, place):
    """What is queued for a neighbour, packed; its queue is then empty."""
    chosen = queue[place, : book[LENGTHS + place]]
    packed = pack(rows, counts, chosen, QUEUED_LIMIT)
    word, bit = MASK + (place >> 6), np.int64(1) << (place & 63)
    freed = 0
    for user in chosen:
        rows[user, word] &= ~bit
        rows[user, QUEUED] -= 1
        if rows[user, STALE] == place + 1:
            rows[user, STALE] = 0
        freed += _LIMIT_AND_KEY_BYTES + _COUNTER_BYTES * rows[user, ENTRIES]
    book[BYTES] -= freed
    book[LENGTHS + place] = 0
    return packed
