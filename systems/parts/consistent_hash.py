"""Topics by the hash of their names, as Apache Pulsar has them: the names' hash space is cut into equal ranges.

Pulsar hashes a topic's whole name with CRC-32 and cuts the 2^32 values into the *bundles* of a namespace; a bundle is
what it moves between brokers.  ePulsar's model of the baseline (Section 5.5) cuts the space among the brokers.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

SPACE = 2**32  # values of the hash
NAMESPACE = "persistent://public/default/"  # Pulsar's default: what comes before a topic's own name


def name_hash(topic: str) -> int:
    """The hash of a topic's whole name: 0 <= hash < 2^32."""
    return crc32(topic.encode())


def range_of(hashed: int, ranges: int) -> int:
    """Which of so many equal ranges a hash is in; the last one takes what division leaves over, as in Pulsar."""
    assert 0 <= hashed < SPACE and 1 <= ranges <= SPACE
    return min(hashed // (SPACE // ranges), ranges - 1)


def ranges_of(topics: Sequence[str], ranges: int) -> NDArray[np.int64]:
    """The range of each topic's name, int64 (topics,): its bundle, or with a range a broker its broker."""
    return np.array([range_of(name_hash(topic), ranges) for topic in topics], np.int64)
