"""Seeds form a tree of names, so that adding a part shifts nobody else's randomness."""

from hashlib import blake2b

import numpy as np


def child_seed(root: int, *names: str | int) -> int:
    """The 64-bit seed of the branch ``names`` below ``root``; the same names always give the same seed."""
    digest = blake2b(digest_size=8, key=str(root).encode())
    for name in names:
        text = str(name).encode("utf-8", "surrogatepass")  # users may be any text
        digest.update(len(text).to_bytes(4, "little") + text)
    return int.from_bytes(digest.digest(), "little")


def generator(root: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator seeded by the branch ``names`` below ``root``."""
    return np.random.Generator(np.random.PCG64DXSM(child_seed(root, *names)))
