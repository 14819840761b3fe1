"""How one server divides its limit among its clients (Siami & Skaf, "DST", Section 7).

Every rule gets the clients' demands and the server's limit x and gives what each client is admitted.
Where the demands fit, all are admitted; otherwise exactly x is, in total:

* equal ratio (Algorithm 1): the same share of every demand is cut off;
* equal amount (named in Section 7, not printed): the same amount, from who asks for less all of it;
* water filling (Algorithm 2, corrected): nobody gets more than a level, and the level uses up x.

Algorithm 2 *as printed* does not: it hands on surplus that is in the level already, so that it admits
more than x, and at the last client it divides by zero.  It is kept as ``printed`` to show that.  Both
printed algorithms test ``r_i <= l_i`` with an undefined l_i; x_i is meant.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError

Amounts = NDArray[np.float64]
Rule = Callable[[Amounts, float], Amounts]


def divide(rule: str, demands: Sequence[float] | Amounts, limit: float) -> Amounts:
    """What each client is admitted under the rule called ``rule``: float64 like ``demands``, all of it if it fits.

    ``demands`` are not negative; a negative ``limit`` admits nothing (nothing keeps a limit above 0 in (3)).
    SpecError for a demand that is negative or not finite.
    """
    asked = np.asarray(demands, float)
    if not (np.isfinite(asked).all() and (asked >= 0).all()):
        raise SpecError(f"client demands {asked.tolist()}", "demands are finite and not negative")
    if asked.sum() <= limit:
        return asked.copy()
    return RULES[rule](asked, limit) if limit > 0.0 else np.zeros_like(asked)


def equal_ratio(demands: Amounts, limit: float) -> Amounts:
    """Algorithm 1 where the demands do not fit: each client's is cut by the same ratio."""
    cut: Amounts = np.minimum(demands, demands * (limit / demands.sum()))
    return cut


def equal_amount(demands: Amounts, limit: float) -> Amounts:
    """The same amount is cut off every demand, at most all of it: what is cut is filled like water."""
    cut = level(demands, float(demands.sum()) - limit)
    return np.maximum(0.0, demands - cut)


def water_filling(demands: Amounts, limit: float) -> Amounts:
    """Algorithm 2, corrected: max-min fair shares."""
    return np.minimum(demands, level(demands, limit))


def level(demands: Amounts, limit: float) -> float:
    """The level l with sum(min(demand, l)) = ``limit``; the largest demand where all of them fit.

    Ascending, clients below an even share of what is left are satisfied; the first that is not, and
    all after it, get that share: l = (x - sum of satisfied) / (remaining clients).
    """
    left, ascending = limit, np.sort(demands)
    for place, demand in enumerate(ascending):
        share = left / (len(ascending) - place)
        if demand > share:
            return float(share)
        left -= demand
    return float(ascending[-1]) if len(ascending) else 0.0


def printed_level(demands: Amounts, limit: float) -> tuple[float, bool]:
    """The level of Algorithm 2 as printed, and whether its last step divides by zero (we then stop before it).

    ``s`` is never taken back once it is in ``l``: 3 clients with 1, 2 and 9 and a limit of 9 get 8, not 6.
    """
    count = len(demands)
    s, l = 0.0, limit / count  # noqa: E741  # the paper's names
    for j, demand in enumerate(np.sort(demands), start=1):
        if l > demand:
            s = s - float(demand) + l
            if j == count:
                return l, True
            l = s / (count - j) + l  # noqa: E741
    return l, False


def printed(demands: Amounts, limit: float) -> Amounts:
    """Algorithm 2 as printed: every client is limited to its level, which may admit more than ``limit``."""
    return np.minimum(demands, printed_level(demands, limit)[0])


RULES: dict[str, Rule] = {
    "equal-ratio": equal_ratio,
    "equal-amount": equal_amount,
    "water-filling": water_filling,
    "printed": printed,
}
