"""Receiving a delta state: Listings 4.2 to 4.4 on the arrays of ``crdt_queue_kernel``."""

# mypy: allow-untyped-defs, allow-untyped-calls
from core.compiled import njit
from systems.limiting.crdt_queue_kernel import (
    BASE,
    BIRTH,
    BITS,
    CLEAN,
    DEATH,
    DELTA_USERS,
    ELEMENT,
    GONE,
    HEAD,
    IDENTITY,
    KEEP_LAST,
    LENGTH,
    LOCAL_ELEMENTS,
    LOCAL_USERS,
    MASK,
    MASKS,
    NEED,
    NEED_LISTS,
    NEED_POOL,
    NEED_SCRATCH,
    NEED_USERS,
    NEIGHBOURS,
    QUEUED,
    SEEN,
    STEP,
    USERS,
    count_bits,
    enlist,
    find,
    insert,
    listed_room,
    room,
    trim,
)
from systems.limiting.queue_common import IDENTITIES

_BY_BIRTH, _NOT_LATER = IDENTITIES.index("birth"), IDENTITIES.index("not-later")


@njit(cache=True)
def receive(
    meta, pool, users, table, lists, full, rule, scratch, keys, counts, births, deaths, begin, source, now
):  # fmt: skip
    """Merge a message's users from the ``begin``-th on; returns the user to go on with, once there is room.

    ``keys`` int64: two words a user.  ``source``: the neighbour that sent it, -1 if none did.
    ``full``: mask words of all neighbours, to which news are queued.  ``meta[ELEMENT]`` is the place of
    the first element of user ``begin``.
    """
    first = meta[ELEMENT]
    _touch(meta, pool, users, table, keys, begin, counts.shape[0])
    for number in range(begin, counts.shape[0]):
        high, low, end = keys[2 * number], keys[2 * number + 1], first + counts[number]
        slot = find(users, table, high, low)
        if slot < 0 and meta[USERS] == users.shape[0]:
            meta[NEED] = NEED_USERS
        elif not listed_room(meta, lists, rule[NEIGHBOURS]):
            meta[NEED] = NEED_LISTS
        else:
            if slot < 0:
                slot = insert(meta, users, table, high, low)
            _purge(meta, pool, users, slot)
            _merge(meta, pool, users, full, rule, scratch, slot, births, deaths, first, end, source, now)
        if meta[NEED] != 0:
            meta[ELEMENT] = first
            return number
        _drop_dead(meta, pool, users, rule, slot, now)
        _settle(meta, pool, users, lists, rule, slot)
        first = end
    return counts.shape[0]


@njit(cache=True)
def _touch(meta, pool, users, table, keys, begin, end):
    """Read what the users of a message will need, independently, so that the memory's waits overlap."""
    mask = table.shape[0] - 1
    seen = 0
    for number in range(begin, end):
        slot = table[keys[2 * number + 1] & mask]  # may be another user's: no harm
        if slot > 0:
            seen ^= users[slot - 1, BASE] ^ users[slot - 1, MASKS]
    for number in range(begin, end):
        slot = table[keys[2 * number + 1] & mask]
        if slot > 0:
            at = users[slot - 1, BASE] + users[slot - 1, HEAD]
            seen ^= pool[at, BIRTH] ^ pool[at + users[slot - 1, LENGTH] // 2, BIRTH]
    meta[SEEN] = seen


@njit(cache=True)
def _tally(meta, bits, word, sign):
    """Count one element more or less as queued for the neighbours ``bits`` of a mask word."""
    at = QUEUED + word * BITS
    while bits:
        if bits & 1:
            meta[at] += sign
        bits >>= 1
        at += 1


@njit(cache=True)
def _purge(meta, pool, users, slot):
    """Listing 4.4, first half: what left the local queue before is queued no more."""
    base = users[slot, BASE] + users[slot, HEAD]
    for at in range(base + users[slot, CLEAN], base + users[slot, GONE]):
        for word in range(pool.shape[1] - MASK):
            _tally(meta, pool[at, MASK + word], word, -1)
    users[slot, HEAD] += users[slot, GONE]
    users[slot, LENGTH] -= users[slot, GONE]
    users[slot, CLEAN] = max(0, users[slot, CLEAN] - users[slot, GONE])
    users[slot, GONE] = 0


@njit(cache=True)
def _drop_dead(meta, pool, users, rule, slot, now):
    """Listing 4.1 after a merge, and 4.4, second half: the dead leave the local queue and all delta states."""
    base = users[slot, BASE] + users[slot, HEAD]
    last, count = users[slot, LENGTH] - rule[KEEP_LAST], 0
    while count < last and pool[base + count, DEATH] <= now:
        for word in range(pool.shape[1] - MASK):
            _tally(meta, pool[base + count, MASK + word], word, -1)
        count += 1
    users[slot, HEAD] += count
    users[slot, LENGTH] -= count
    users[slot, CLEAN] = max(0, users[slot, CLEAN] - count)
    meta[LOCAL_ELEMENTS] -= count
    if count > 0 and users[slot, LENGTH] == 0:
        meta[LOCAL_USERS] -= 1


@njit(cache=True)
def _settle(meta, pool, users, lists, rule, slot):
    """Learn for which neighbours something of this user is queued now."""
    trim(meta, pool, users, slot)
    base = users[slot, BASE] + users[slot, HEAD]
    for word in range(pool.shape[1] - MASK):
        bits = 0
        for at in range(base + users[slot, CLEAN], base + users[slot, LENGTH]):
            bits |= pool[at, MASK + word]
        if bits != users[slot, MASKS + word]:
            meta[DELTA_USERS] += count_bits(bits) - count_bits(users[slot, MASKS + word])
            users[slot, MASKS + word] = bits
            enlist(meta, users, lists, slot, word, bits, rule[NEIGHBOURS])


@njit(cache=True)
def _merge(meta, pool, users, full, rule, scratch, slot, births, deaths, first, end, source, now):
    """Merge elements ``first`` to ``end`` of a message into a user's block, all of which is local."""
    step = rule[STEP]
    base, length = users[slot, BASE] + users[slot, HEAD], users[slot, LENGTH]
    chained, last = False, 0  # whether there is a previous death, and the previous death
    if rule[KEEP_LAST] == 0:  # what would be dropped from the front at once need not be inserted
        while first < end and (length == 0 or births[first] < pool[base, BIRTH]):
            death = max(deaths[first], last + step) if chained else deaths[first]
            if death > now:
                break
            chained, last, first = True, death, first + 1
    pressed = chained and length > 0 and pool[base, DEATH] < last + step  # those dead raise the first death here
    at = 0
    if not pressed:
        if first == end:
            return
        at = _position(pool, base, length, births[first])
        if at > 0:
            chained, last = True, pool[base + at - 1, DEATH]
        if _known(pool, base, length, at, births, deaths, first, end):
            _unqueue(meta, pool, rule, base + at, base + length, births, deaths, first, end, source)
            return
    if scratch.shape[0] < length + end - first:
        meta[NEED] = NEED_SCRATCH
    elif not room(meta, pool, users, slot, length + end - first):
        meta[NEED] = NEED_POOL
    if meta[NEED] != 0:
        return
    base = users[slot, BASE] + users[slot, HEAD]
    until, filled = _weave(meta, pool, full, step, scratch, base, length, at, births, deaths, first, end, chained, last)
    grown = filled - (until - at)
    for i in range(length - 1, until - 1, -1):
        for column in range(pool.shape[1]):
            pool[base + i + grown, column] = pool[base + i, column]
    for i in range(filled):
        for column in range(pool.shape[1]):
            pool[base + at + i, column] = scratch[i, column]
    _unqueue(meta, pool, rule, base + at, base + length + grown, births, deaths, first, end, source)
    users[slot, LENGTH] += grown
    users[slot, CLEAN] = min(users[slot, CLEAN], at)
    meta[LOCAL_ELEMENTS] += grown
    if length == 0 and grown > 0:
        meta[LOCAL_USERS] += 1


@njit(cache=True)
def _position(pool, base, length, birth):
    """The first row of a block whose birth is not before ``birth``."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        if pool[base + middle, BIRTH] < birth:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _known(pool, base, length, at, births, deaths, first, end):
    """Whether a message says nothing new: every element is here, and dies here no earlier."""
    for i in range(first, end):
        while at < length and pool[base + at, BIRTH] < births[i]:
            at += 1
        if at == length or pool[base + at, BIRTH] != births[i] or pool[base + at, DEATH] < deaths[i]:
            return False
        at += 1
    return True


@njit(cache=True)
def _unqueue(meta, pool, rule, row, until, births, deaths, first, end, source):
    """What its sender has sent itself, by the rule's identity, is not queued for it; rows from ``row`` on."""
    if source < 0:
        return
    column, bit = MASK + source // BITS, 1 << (source % BITS)
    while row < until and first < end:
        if births[first] < pool[row, BIRTH]:
            first += 1
            continue
        i = first
        while pool[row, column] & bit and i < end and births[i] == pool[row, BIRTH]:
            later = deaths[i] - pool[row, DEATH]
            if later == 0 or rule[IDENTITY] == _BY_BIRTH or (later > 0 and rule[IDENTITY] == _NOT_LATER):
                pool[row, column] ^= bit
                meta[QUEUED + source] -= 1
            i += 1
        row += 1


@njit(cache=True)
def _weave(meta, pool, full, step, scratch, base, length, at, births, deaths, first, end, chained, last):
    """Listings 4.2 and 4.3 into ``scratch``, until the rest of the block stays as it is.

    Returns the first row that stays, and how many rows ``scratch`` has.
    """
    words, filled = full.shape[0], 0
    while first < end or at < length:
        here = at < length and (first == end or pool[base + at, BIRTH] <= births[first])
        there = first < end and (at == length or births[first] <= pool[base + at, BIRTH])
        own = pool[base + at, DEATH] if here else 0
        death = own if here else deaths[first]
        if here and there:
            death = max(own, deaths[first])
        if chained:
            death = max(death, last + step)
        news = not here or death > own
        if first == end and not news:
            break
        scratch[filled, BIRTH] = pool[base + at, BIRTH] if here else births[first]
        scratch[filled, DEATH] = death
        for word in range(words):
            old = pool[base + at, MASK + word] if here else 0
            new = full[word] if news else old
            if new != old:
                _tally(meta, new & ~old, word, 1)
                _tally(meta, old & ~new, word, -1)
            scratch[filled, MASK + word] = new
        chained, last = True, death
        filled += 1
        at += here
        first += there
    return at, filled
