"""The queue's state in arrays: storage, requests, sending.  Receiving is in ``queue_merge_kernel``.

A user's elements lie in one *block* of the pool, ascending by birth: first those that have left the
local queue but are still queued for somebody (GONE of them), then the local queue.  One copy serves the
local state and all delta states; its mask says for which neighbours it is queued.  So a delta state
needs no room of its own, and raising a death raises it wherever the element is queued.

``pool`` int64 (rows, 2 + words): birth in ns, death in ticks, mask.  ``users`` int64 (slots, MASKS + 2
words): a user's block, its key, and two masks over neighbours: who has something of this user queued,
and on whose list the user is.  ``lists`` int32 (neighbours, slots): the users to look at for a
neighbour, so that a round costs what changed.  ``table``: open addressing, key -> slot + 1.  ``meta``:
the scalars below, the heads of free blocks, elements queued for each neighbour, lengths of its list.

Kernels change nothing before they know that there is room; if there is none they say what is too
small, and are called again with a larger array.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from core.compiled import njit

TOP, USERS, LOCAL_USERS, LOCAL_ELEMENTS, DELTA_USERS, LISTED, NEED, ELEMENT, SEEN, FREE = range(10)  # of meta
CLASSES = 40  # block sizes: 4, 8, 16 … rows
QUEUED = FREE + CLASSES  # of meta: from here on one count a neighbour, then one list length a neighbour
BASE, CAPACITY, HEAD, LENGTH, GONE, CLEAN, HIGH, LOW, MASKS = range(9)  # of a row of users
LIMIT, LIFE, STEP, KEEP_LAST, FREQUENCY, WINDOW, SPAN, APART, IDENTITY, NEIGHBOURS = range(10)  # of rule
BIRTH, DEATH, MASK = range(3)  # of a row of the pool
NEED_POOL, NEED_USERS, NEED_LISTS, NEED_SCRATCH, NEED_OUT = range(1, 6)
BITS = 62  # neighbours a word: masks stay positive


@njit(cache=True)
def find(users, table, high, low):
    """The slot of a user, -1 if there is none."""
    mask = table.shape[0] - 1
    at = low & mask
    while table[at] != 0:
        slot = table[at] - 1
        if users[slot, LOW] == low and users[slot, HIGH] == high:
            return slot
        at = (at + 1) & mask
    return -1


@njit(cache=True)
def insert(meta, users, table, high, low):
    """The slot of a new user; there must be a free one."""
    slot = meta[USERS]
    meta[USERS] += 1
    users[slot, :] = 0
    users[slot, HIGH], users[slot, LOW] = high, low
    enter(table, low, slot)
    return slot


@njit(cache=True)
def enter(table, low, slot):
    """Point the table at a slot."""
    mask = table.shape[0] - 1
    at = low & mask
    while table[at] != 0:
        at = (at + 1) & mask
    table[at] = slot + 1


@njit(cache=True)
def rebuild(meta, users, table):
    """Fill an empty, larger table."""
    for slot in range(meta[USERS]):
        enter(table, users[slot, LOW], slot)


@njit(cache=True)
def room(meta, pool, users, slot, size):
    """Give a user's block place for ``size`` rows from its head on; False if the pool is too small."""
    base, capacity, head, length = users[slot, BASE], users[slot, CAPACITY], users[slot, HEAD], users[slot, LENGTH]
    if head + size <= capacity:
        return True
    if size <= capacity // 4 * 3:  # then moving is paid for by the many rows that were dropped before
        target = base
    else:
        kind = _kind(size + size // 3)
        if meta[FREE + kind] != 0:
            target = meta[FREE + kind] - 1
            meta[FREE + kind] = pool[target, 0]
        elif meta[TOP] + (4 << kind) <= pool.shape[0]:
            target = meta[TOP]
            meta[TOP] += 4 << kind
        else:
            return False
        users[slot, CAPACITY] = 4 << kind
    for i in range(length):
        for column in range(pool.shape[1]):
            pool[target + i, column] = pool[base + head + i, column]
    if target != base or capacity == 0:
        _free(meta, pool, base, capacity)
    users[slot, BASE], users[slot, HEAD] = target, 0
    return True


@njit(cache=True)
def _kind(size):
    kind = 0
    while (4 << kind) < size:
        kind += 1
    return kind


@njit(cache=True)
def _free(meta, pool, base, capacity):
    if capacity > 0:
        kind = _kind(capacity)
        pool[base, 0] = meta[FREE + kind]
        meta[FREE + kind] = base + 1


@njit(cache=True)
def trim(meta, pool, users, slot):
    """Forget leading rows that are neither local nor queued, and an empty block; learn how many rows are clean."""
    words = pool.shape[1] - MASK
    while users[slot, CLEAN] < users[slot, LENGTH]:
        at = users[slot, BASE] + users[slot, HEAD] + users[slot, CLEAN]
        word = 0
        while word < words and pool[at, MASK + word] == 0:
            word += 1
        if word < words:
            break
        users[slot, CLEAN] += 1
    drop = min(users[slot, GONE], users[slot, CLEAN])
    users[slot, HEAD] += drop
    users[slot, LENGTH] -= drop
    users[slot, GONE] -= drop
    users[slot, CLEAN] -= drop
    if users[slot, LENGTH] == 0 and users[slot, CAPACITY] > 0:
        _free(meta, pool, users[slot, BASE], users[slot, CAPACITY])
        users[slot, CAPACITY] = users[slot, HEAD] = 0


@njit(cache=True)
def listed_room(meta, lists, neighbours):
    """Whether every list has a free place; ``meta[LISTED]`` bounds their lengths, and is exact only at times."""
    if meta[LISTED] < lists.shape[1]:
        return True
    longest = 0
    for k in range(neighbours):
        longest = max(longest, meta[QUEUED + neighbours + k])
    meta[LISTED] = longest
    return longest < lists.shape[1]


@njit(cache=True)
def enlist(meta, users, lists, slot, word, bits, neighbours):
    """Put a user on the lists of the neighbours ``bits`` of one mask word that do not have it yet."""
    listed = MASKS + (users.shape[1] - MASKS) // 2 + word
    new = bits & ~users[slot, listed]
    if new == 0:
        return
    users[slot, listed] |= new
    k = word * BITS
    while new:
        if new & 1:
            at = QUEUED + neighbours + k
            lists[k, meta[at]] = slot
            meta[at] += 1
            if meta[at] > meta[LISTED]:
                meta[LISTED] = meta[at]
        new >>= 1
        k += 1


@njit(cache=True)
def count_bits(bits):
    """How many bits are set."""
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@njit(cache=True)
def refill(meta, pool, users, rule, slot, now):
    """Listing 4.1 at a request: the dead leave the local queue, but stay queued.  Returns how many live."""
    base = users[slot, BASE] + users[slot, HEAD]
    before = users[slot, LENGTH] - users[slot, GONE]
    last = users[slot, LENGTH] - rule[KEEP_LAST]
    while users[slot, GONE] < last and pool[base + users[slot, GONE], DEATH] <= now:
        users[slot, GONE] += 1
    local = users[slot, LENGTH] - users[slot, GONE]
    meta[LOCAL_ELEMENTS] -= before - local
    if before > 0 and local == 0:
        meta[LOCAL_USERS] -= 1
    living, at = local, users[slot, GONE]
    while at < users[slot, LENGTH] and pool[base + at, DEATH] <= now:  # kept beyond their deaths
        living -= 1
        at += 1
    trim(meta, pool, users, slot)
    return living


@njit(cache=True)
def accept(meta, pool, users, lists, full, rule, out, segments, slot, now, clock, cost):
    """Serve a request: the number of urgent messages, -1 if rejected; ``meta[NEED]`` is set if room lacks.

    Message s goes to neighbour ``segments[s, 0]`` and is ``out[:, segments[s, 1]:segments[s, 2]]``.
    """
    if refill(meta, pool, users, rule, slot, now) + cost > rule[LIMIT]:
        return -1
    neighbours = rule[NEIGHBOURS]
    length = users[slot, LENGTH]
    if not room(meta, pool, users, slot, length + cost):
        meta[NEED] = NEED_POOL
    elif not listed_room(meta, lists, neighbours):
        meta[NEED] = NEED_LISTS
    elif rule[FREQUENCY] and out.shape[1] < neighbours * (length + cost):
        meta[NEED] = NEED_OUT
    if meta[NEED] != 0:
        return 0
    base = users[slot, BASE] + users[slot, HEAD]
    if length == users[slot, GONE]:
        meta[LOCAL_USERS] += 1
    for at in range(base + length, base + length + cost):
        pool[at, BIRTH], pool[at, DEATH] = clock, now + rule[LIFE]
        if at > base + users[slot, GONE]:
            pool[at, BIRTH] = max(pool[at, BIRTH], pool[at - 1, BIRTH] + rule[APART])
            pool[at, DEATH] = max(pool[at, DEATH], pool[at - 1, DEATH] + rule[STEP])
        for word in range(full.shape[0]):
            pool[at, MASK + word] = full[word]
    users[slot, LENGTH] += cost
    meta[LOCAL_ELEMENTS] += cost
    for k in range(neighbours):
        meta[QUEUED + k] += cost
    for word in range(full.shape[0]):
        meta[DELTA_USERS] += count_bits(full[word] & ~users[slot, MASKS + word])
        users[slot, MASKS + word] = full[word]
        enlist(meta, users, lists, slot, word, full[word], neighbours)
    if rule[FREQUENCY]:
        return _push(meta, pool, users, rule, out, segments, slot)
    trim(meta, pool, users, slot)
    return 0


@njit(cache=True)
def _push(meta, pool, users, rule, out, segments, slot):
    """Listing 4.5 for every neighbour; equal messages share their place in ``out``."""
    pushed = filled = 0
    for k in range(rule[NEIGHBOURS]):
        if not _frequent(pool, users, rule, slot, k):
            continue
        count = take(meta, pool, users, out, filled, slot, k)
        begin = filled
        if pushed > 0 and segments[pushed - 1, 2] - segments[pushed - 1, 1] == count:
            begin = segments[pushed - 1, 1]
            i = 0
            while i < count and out[0, begin + i] == out[0, filled + i] and out[1, begin + i] == out[1, filled + i]:
                i += 1
            if i < count:
                begin = filled
        segments[pushed, 0], segments[pushed, 1], segments[pushed, 2] = k, begin, begin + count
        filled = max(filled, begin + count)
        pushed += 1
    trim(meta, pool, users, slot)
    return pushed


@njit(cache=True)
def _frequent(pool, users, rule, slot, k):
    """Whether the w-th newest element queued for a neighbour is younger than the span."""
    base = users[slot, BASE] + users[slot, HEAD]
    at = base + users[slot, LENGTH] - 1
    newest, column, bit, count = pool[at, BIRTH], MASK + k // BITS, 1 << (k % BITS), 0
    while at >= base + users[slot, CLEAN] and newest - pool[at, BIRTH] < rule[SPAN]:
        if pool[at, column] & bit:
            count += 1
            if count == rule[WINDOW]:
                return True
        at -= 1
    return False


@njit(cache=True)
def take(meta, pool, users, out, filled, slot, k):
    """Move what is queued of a user for a neighbour to ``out``, from column ``filled`` on; returns how much."""
    base, word, bit, count = users[slot, BASE] + users[slot, HEAD], k // BITS, 1 << (k % BITS), 0
    for at in range(base + users[slot, CLEAN], base + users[slot, LENGTH]):
        if pool[at, MASK + word] & bit:
            pool[at, MASK + word] ^= bit
            out[0, filled + count], out[1, filled + count] = pool[at, BIRTH], pool[at, DEATH]
            count += 1
    users[slot, MASKS + word] &= ~bit
    meta[DELTA_USERS] -= 1
    meta[QUEUED + k] -= count
    return count


@njit(cache=True)
def flush(meta, pool, users, lists, rule, out, out_users, out_counts, k):
    """Move a neighbour's whole delta state to the out arrays; returns its users."""
    at = QUEUED + rule[NEIGHBOURS] + k
    word, bit = k // BITS, 1 << (k % BITS)
    listed = MASKS + (users.shape[1] - MASKS) // 2 + word
    seen = 0
    for i in range(meta[at]):  # two walks, the first without branches, so that the memory's waits overlap
        slot = lists[k, i]
        users[slot, listed] &= ~bit
        seen ^= pool[users[slot, BASE] + users[slot, HEAD] + users[slot, CLEAN] // 2, BIRTH]
    meta[SEEN] = seen
    taken = filled = 0
    for i in range(meta[at]):
        slot = lists[k, i]
        if users[slot, MASKS + word] & bit:
            count = take(meta, pool, users, out, filled, slot, k)
            out_users[taken, 0], out_users[taken, 1] = users[slot, HIGH], users[slot, LOW]
            out_counts[taken] = count
            taken += 1
            filled += count
            trim(meta, pool, users, slot)
    meta[at] = 0
    return taken


@njit(cache=True)
def weigh(meta, pool, users, delta_users):
    """Texts of users, and elements, as terms of Erlang; counts the users of each neighbour's delta state."""
    keys = elements = 0
    words = pool.shape[1] - MASK
    for slot in range(meta[USERS]):
        length = users[slot, LENGTH]
        if length == 0:
            continue
        base = users[slot, BASE] + users[slot, HEAD]
        terms = length - users[slot, GONE]
        for at in range(base, base + users[slot, GONE]):
            for word in range(words):
                if pool[at, MASK + word]:
                    terms += 1
                    break
        keys += length > users[slot, GONE]
        is_queued = False
        for word in range(words):
            bits, k = users[slot, MASKS + word], word * BITS
            is_queued = is_queued or bits != 0
            while bits:
                delta_users[k] += bits & 1
                bits >>= 1
                k += 1
        keys += is_queued
        elements += terms
    return keys, elements


@njit(cache=True)
def dump(meta, pool, users, out, out_users, out_counts):
    """Copy the local state to the out arrays; returns its users."""
    taken = filled = 0
    for slot in range(meta[USERS]):
        base = users[slot, BASE] + users[slot, HEAD]
        if users[slot, LENGTH] > users[slot, GONE]:
            out_users[taken, 0], out_users[taken, 1] = users[slot, HIGH], users[slot, LOW]
            out_counts[taken] = users[slot, LENGTH] - users[slot, GONE]
            taken += 1
            for at in range(base + users[slot, GONE], base + users[slot, LENGTH]):
                out[0, filled], out[1, filled] = pool[at, BIRTH], pool[at, DEATH]
                filled += 1
    return taken
