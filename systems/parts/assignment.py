"""From quotas to publishers: who goes to which broker (SRTM IV-B step 2 and IV-C).

Assignments are int32 (publishers,), the index of a broker or -1 for none.
"""

from collections.abc import Sequence

import numpy as np

from core.records import Float64, Int32, Int64, Population


def rates_of(publishers: Population, assignment: Int32, brokers: int) -> Float64:
    """The topic's message rate on each broker, float64 (brokers,)."""
    placed = assignment >= 0
    rates: Float64 = np.bincount(assignment[placed], publishers.rate_rps[placed], minlength=brokers).astype(np.float64)
    return rates


def blind(
    publishers: Population, brokers: Sequence[int], quotas_rps: Sequence[float], rng: np.random.Generator
) -> Int32:
    """Random publishers for each broker until its quota is met, whatever their correlation.

    Quotas that add up to the topic's rate leave nobody out.  A publisher goes where the middle of its share of the
    topic falls, so no broker is off its quota by more than half a publisher at either end.
    """
    order = rng.permutation(publishers.count)
    return _cut(publishers.rate_rps, order, brokers, quotas_rps)


def _cut(rate_rps: Float64, order: Int64, brokers: Sequence[int], quotas_rps: Sequence[float]) -> Int32:
    """Cut the row of publishers, in ``order``, at the quotas."""
    middle = np.cumsum(rate_rps[order]) - rate_rps[order] / 2
    edges = np.cumsum(quotas_rps)
    assignment = np.empty(len(order), np.int32)
    where = np.minimum(np.searchsorted(edges, middle, side="right"), len(brokers) - 1)
    assignment[order] = np.asarray(brokers, np.int32)[where]
    return assignment


class Pool:
    """Publishers arranged by correlation group, to be drawn from in proportion (SRTM IV-C).

    A group gives its members in the order of ``members``: where that is the order in which they send, first come the
    neighbours in time.
    ``by`` says what "in proportion" counts: "rate" (conference version) or "publishers" (report);
    they differ for heterogeneous publishers only.
    """

    def __init__(self, publishers: Population, members: Int64, by: str = "rate"):
        assert by in ("rate", "publishers")
        self.publishers, self.by = publishers, by
        order = members[np.argsort(publishers.group[members], kind="stable")]
        _, starts = np.unique(publishers.group[order], return_index=True)
        self.groups: list[Int64] = [part for part in np.split(order, starts[1:]) if len(part)]

    @property
    def rate_rps(self) -> float:
        """Message rate of everybody in the pool."""
        return float(sum(self.publishers.rate_rps[group].sum() for group in self.groups))

    def pick(self, quota_rps: float, top_up_below: float, rng: np.random.Generator) -> Int64:
        """Publishers worth about ``quota_rps``: each group gives its share, rounded down.

        Only where that makes less than ``top_up_below`` of the quota are random ones added until
        it is met (the artifact's rule: 0.8): a random top-up makes groups uneven, and uneven
        groups cost access delay.  int64, ascending.
        """
        total = self.rate_rps
        share = min(1.0, quota_rps / total) if total > 0 else 0.0
        picked = [group[: self._share_count(group, share)] for group in self.groups]
        chosen = np.concatenate(picked) if picked else np.empty(0, np.int64)
        rate = float(self.publishers.rate_rps[chosen].sum())
        if rate < top_up_below * quota_rps:
            left = np.setdiff1d(np.concatenate(self.groups), chosen)
            left = left[rng.permutation(len(left))]
            reached = rate + np.cumsum(self.publishers.rate_rps[left])
            needed = int(np.searchsorted(reached, quota_rps * (1 - 1e-12))) + 1
            chosen = np.concatenate([chosen, left[:needed]])
        return np.sort(chosen)

    def _share_count(self, group: Int64, share: float) -> int:
        """How many of a group's publishers make ``share`` of it, rounded down."""
        if self.by == "publishers":
            return int(share * len(group) + 1e-9)
        rates = np.cumsum(self.publishers.rate_rps[group])
        return int(np.searchsorted(rates, share * rates[-1] * (1 + 1e-12), side="right"))
