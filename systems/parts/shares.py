"""One capacity divided among claimants, in exact integers: nothing is lost, nothing is made up by rounding.

``proportional_share`` and ``fair_share`` are Doorman's PROPORTIONAL_SHARE and FAIR_SHARE (its design
document, "Algorithms"; vectors: capacity 120, wants 1000, 50, 10).  Rounding is ours.
"""

from collections.abc import Callable, Sequence


def largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole parts that are proportional to ``weights`` up to less than one.

    What rounding down leaves goes to the largest remainders, ties to those that come first.  The
    weights are not negative, and not all zero.
    """
    whole = sum(weights)
    assert total >= 0 and whole > 0 and min(weights) >= 0
    return _rounded(total, [divmod(total * weight, whole) for weight in weights])


def proportional_share(capacity: int, wants: Sequence[int]) -> list[int]:
    """Doorman's proportional share: the equal share for all; what some leave of it, others get by what they lack.

    Whoever wants at most ``capacity / n`` gets it.  The spare of these goes to the rest in proportion
    to what each wants above the equal share.  The sum is ``min(capacity, sum(wants))``.
    """
    count, wanted = len(wants), sum(wants)
    if wanted <= capacity:
        return list(wants)
    spare = need = 0  # in n-ths
    for want in wants:
        above = count * want - capacity
        if above > 0:
            need += above
        else:
            spare -= above
    grants = []
    for want in wants:
        above = count * want - capacity
        grants.append((want, 0) if above <= 0 else divmod(capacity * need + above * spare, count * need))
    return _rounded(capacity, grants)


def fair_share(capacity: int, wants: Sequence[int]) -> list[int]:
    """Doorman's fair share, carried to its end: max-min fairness.

    Doorman itself hands the spare of small claimants on twice; we go on until nothing is left, so
    that no grant can grow but at the cost of a smaller one.  The sum is ``min(capacity, sum(wants))``.
    """
    grants, left, claimants = [0] * len(wants), capacity, len(wants)
    for index in sorted(range(len(wants)), key=wants.__getitem__):
        grants[index] = min(wants[index], left // claimants)
        left -= grants[index]
        claimants -= 1
    return grants


def _rounded(total: int, parts: Sequence[tuple[int, int]]) -> list[int]:
    """Whole parts and their remainders over one denominator: what is left of ``total`` goes by remainder."""
    shares = [whole for whole, _ in parts]
    left = total - sum(shares)
    for index in sorted(range(len(parts)), key=lambda i: -parts[i][1])[:left]:
        shares[index] += 1
    return shares


Share = Callable[[int, Sequence[int]], list[int]]

SHARES: dict[str, Share] = {"proportional": proportional_share, "fair": fair_share}
