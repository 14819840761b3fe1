"""What figures compute on Spark, from the matrices of a run of the update law."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def admitted(x: ArrayLike, r: ArrayLike) -> NDArray[np.float64]:
    """a_i = min(x_i, r_i), and nothing by a limit below 0: Eq. (4) does not keep limits positive."""
    return np.minimum(np.maximum(np.asarray(x, float), 0.0), np.asarray(r, float))


def over_throttling(x: ArrayLike, r: ArrayLike) -> NDArray[np.float64]:
    """Share (0 to 1) of what could have been admitted that was not (Example 2); cycles on the first axis.

    The ideal, Eq. (8), is min(l_total, r_total), with l_total = sum x(0).
    """
    limits, asked = np.asarray(x, float), np.asarray(r, float)
    ideal = np.minimum(limits[0].sum(-1), asked.sum(-1))
    actual = admitted(limits, asked).sum(-1)
    return np.asarray((ideal - actual).sum(0) / ideal.sum(0), float)
