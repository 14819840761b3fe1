"""What persistence costs a message: it is written to several bookies, and goes on when enough have it (ePulsar, 3.5).

ePulsar keeps a broker's bookies on the broker's own site, in racks apart; the developer says how many nodes a topic's
messages are written to (the ensemble) and how many acknowledgements a message waits for (the write quorum).
"""

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


def persisted_after_ns(
    round_trips_ns: Int64, quorum: int, write_mean_ns: float, count: int, rng: np.random.Generator
) -> Int64:
    """How long each of ``count`` messages waits: until the ``quorum``-th of its bookies has answered.

    ``round_trips_ns``: int64 (bookies,), from the broker; to each comes the time of a synced write, exponential with
    mean ``write_mean_ns`` (ours: there is no model in the paper).
    """
    bookies = len(round_trips_ns)
    assert 1 <= quorum <= bookies, f"a quorum of {quorum} of {bookies} bookies"
    answers_ns = round_trips_ns + rng.exponential(write_mean_ns, (count, bookies))
    persisted_ns: Int64 = np.partition(answers_ns, quorum - 1, axis=1)[:, quorum - 1].astype(np.int64)
    return persisted_ns
