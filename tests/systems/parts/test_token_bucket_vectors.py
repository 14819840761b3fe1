"""The token bucket's vectors are what the integer step gives; the Go broker's tests read the same file.

``python -m tests.systems.parts.test_token_bucket_vectors`` writes them anew.
"""

import json
import random
from pathlib import Path
from typing import Any

from systems.parts import token_bucket

FILE = Path(token_bucket.__file__).with_name("token_bucket_vectors.json")
EXTREMES = [  # rate, capacity, level, spans between messages
    (1, token_bucket.TOKEN, token_bucket.TOKEN, [0, 1, 10**12, 10**12 - 1, 10**15]),
    (token_bucket.MAXIMUM_RATE, token_bucket.MAXIMUM_CAPACITY, 0, [10**10, 10**10 + 1, 3 * 10**10, 0]),
    (token_bucket.MAXIMUM_RATE, token_bucket.TOKEN, -4 * 10**18, [10**10, 0, 1]),
    (3, token_bucket.TOKEN, -1, [0, 333_333_333_333, 333_333_333_334]),
    (10**6, 10 * token_bucket.TOKEN, 10 * token_bucket.TOKEN, [0] * 12 + [10**6, 999_999]),
]


def vectors() -> list[dict[str, Any]]:
    """Each: a bucket, and of each message the span before it, the level after it, and its wait."""
    rng = random.Random(4)
    cases = list(EXTREMES)
    for _ in range(40):
        rate = int(10 ** rng.uniform(0, 8.6))
        capacity = int(token_bucket.TOKEN * 10 ** rng.uniform(0, 6.6))
        level = rng.randint(-min(capacity, 10**17), capacity)
        typical_ns = token_bucket.TOKEN / rate
        spans = [min(10**14, int(rng.expovariate(1 / typical_ns))) for _ in range(12)]
        cases.append((rate, capacity, level, spans))
    return [_vector(*case) for case in cases]


def _vector(rate: int, capacity: int, level: int, spans: list[int]) -> dict[str, Any]:
    steps = []
    after = level
    for elapsed_ns in spans:
        after, wait_ns = token_bucket.take(after, elapsed_ns, rate, capacity)
        steps.append([elapsed_ns, after, wait_ns])
    return {"rate": rate, "capacity": capacity, "level": level, "steps": steps}


def test_the_file_holds_what_the_step_gives():
    assert json.loads(FILE.read_text()) == vectors()


def test_the_vectors_cover_waits_full_buckets_and_long_spans():
    steps = [(case, *step) for case in vectors() for step in case["steps"]]
    assert any(wait > 0 for *_, wait in steps)
    assert any(level == case["capacity"] - token_bucket.TOKEN for case, _, level, _ in steps)
    assert any(elapsed > 10**10 for _, elapsed, _, _ in steps)
    assert all(abs(level) < 2**63 for _, _, level, _ in steps)


if __name__ == "__main__":
    FILE.write_text("[\n" + ",\n".join(json.dumps(each) for each in vectors()) + "\n]\n")
