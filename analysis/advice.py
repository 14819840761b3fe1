"""Which of several systems to take: a ranking by what they lose on the same traffic, and what that cannot decide.

Who loses least is the *leader*.  Every other one is compared with it by differences paired by repetition, with the
simultaneous 95 % t-intervals of all pairs (Bonferroni), for any of them may be the leader's: it is found in the same
repetitions.  It is *as good* where the difference is surely within a margin that nobody would act on, *worse* where it
is surely above 0 and not as good, *open* otherwise.  Of those that are as good as the leader who costs least is *best*;
each cost is compared alike, with 5 % of its own.

The traffic does not decide where one is open that may be better, by more than the margin, or cheaper than the best; nor
where nobody is worse and nothing was at stake: an exact system would hardly have done anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

import numpy as np

from analysis.verdicts import Interval, t_interval

ERROR = 0.05  # of all comparisons of losses together, and of those of each cost


class Relation(Enum):
    """Where a system stands beside the leader."""

    LEADER = "leader"
    AS_GOOD = "as good"
    WORSE = "worse"
    OPEN = "open"


class Choice(Enum):
    """What the traffic says."""

    DECIDED = "decided"  # one is best
    TIE = "tie"  # nothing was at stake, and nobody is worse than another
    OPEN = "open"  # differences are lost in their intervals
    EQUAL_COST = "equal cost"  # some are worse, but of the good ones none costs least
    UNFIT = "unfit"  # it is too little to judge by, or was tuned on


@dataclass(frozen=True)
class Candidate:
    """What one system did in each of n repetitions, in the same order for all systems.

    ``loss`` is to be small; ``costs``: what else is paid, the most important first, all to be small.
    """

    name: str
    loss: tuple[float, ...]
    costs: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Rank:
    """A system's place: its loss, by how much that exceeds the leader's (simultaneous interval), and what it means."""

    name: str
    loss: Interval
    more: Interval
    relation: Relation


@dataclass(frozen=True)
class Ranking:
    """Systems in the order of their mean loss, the answer, and who it is about.

    ``names``: the best one where decided; otherwise those between which nothing is decided.
    """

    standings: tuple[Rank, ...]
    answer: Choice
    names: tuple[str, ...]

    @property
    def best(self) -> str:
        """The best system; empty where that is not decided."""
        return self.names[0] if self.answer is Choice.DECIDED else ""

    @property
    def unfit(self) -> "Ranking":
        """The same where the traffic is not fit to judge: nobody is best."""
        return replace(self, answer=Choice.UNFIT, names=tuple(each.name for each in self.standings))


def rank(trials: Sequence[Candidate], margin: float, at_stake: float = inf) -> Ranking:
    """The ranking of at least one system; ``margin``: a difference of losses that nobody would act on.

    ``at_stake``: what the traffic asked of an exact system, on the scale of losses.  Identical systems never differ:
    whichever stands first, both are as good.  Ties go by name.
    """
    assert trials and len({len(trial.loss) for trial in trials}) == 1, "repetitions are paired"
    order = sorted(trials, key=lambda trial: (float(np.mean(trial.loss)), trial.name))
    leader, family = order[0], _pairs(len(order))
    standings = tuple(_standing(trial, leader, margin, family) for trial in order)
    of = {trial.name: trial for trial in trials}
    by: Mapping[Relation, list[str]] = {
        relation: [standing.name for standing in standings if standing.relation is relation] for relation in Relation
    }
    good = [leader.name, *by[Relation.AS_GOOD]]
    if not by[Relation.WORSE] and at_stake <= margin and len(order) > 1:
        return Ranking(standings, Choice.TIE, tuple(each.name for each in standings))
    cheapest = _cheapest([of[name] for name in good])
    rivals = [
        each.name
        for each in standings
        if each.relation is Relation.OPEN
        and (each.more.low < -margin or not _costs_more(of[each.name], of[cheapest[0]], family))
    ]
    if rivals:
        return Ranking(standings, Choice.OPEN, (*good, *rivals))
    return Ranking(standings, Choice.DECIDED if len(cheapest) == 1 else Choice.EQUAL_COST, tuple(cheapest))


def _standing(trial: Candidate, leader: Candidate, margin: float, family: int) -> Rank:
    if trial is leader:
        return Rank(trial.name, t_interval(trial.loss), Interval(0.0, 0.0, 0.0, len(trial.loss)), Relation.LEADER)
    more = t_interval(_differences(trial.loss, leader.loss), ERROR / family)
    if more.high <= margin:
        relation = Relation.AS_GOOD
    elif more.low > 0:
        relation = Relation.WORSE
    else:
        relation = Relation.OPEN
    return Rank(trial.name, t_interval(trial.loss), more, relation)


def _cheapest(trials: Sequence[Candidate]) -> list[str]:
    """Who costs least: by the first cost; of those of whom that is not sure to be more, by the next, and so on."""
    left = sorted(trials, key=lambda trial: trial.name)
    for number in range(len(left[0].costs)):
        least = min(left, key=lambda trial: float(np.mean(trial.costs[number])))
        family = _pairs(len(left))
        left = [trial for trial in left if not _surely_more(trial.costs[number], least.costs[number], family)]
    return [trial.name for trial in left]


def _pairs(count: int) -> int:
    """Of so many systems: all comparisons that may be made, whoever has the least."""
    return max(1, count * (count - 1) // 2)


def _costs_more(trial: Candidate, other: Candidate, family: int) -> bool:
    """Surely, by the first cost: whether it is as good or not, it is not the one to take."""
    return bool(trial.costs) and _surely_more(trial.costs[0], other.costs[0], family)


def _surely_more(values: Sequence[float], least: Sequence[float], family: int) -> bool:
    interval = t_interval(_differences(values, least), ERROR / family)
    return interval.low > 0


def _differences(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]


@dataclass(frozen=True)
class Turn:
    """A condition under which the systems were ranked as well, and whether another one is best there.

    ``factor`` and ``value``: as in "distances", "x 4".
    """

    factor: str
    value: str
    ranking: Ranking
    turns: bool


def turn(factor: str, value: str, base: Ranking, there: Ranking) -> Turn:
    """Whether the answer changes: another one is best, or what was best is surely not as good any more."""
    if there.answer is Choice.UNFIT:
        return Turn(factor, value, there, turns=False)
    fallen = {standing.name for standing in there.standings if standing.relation is Relation.WORSE}
    absent = bool(base.best) and base.best not in {standing.name for standing in there.standings}
    other = bool(base.best and there.best and base.best != there.best)
    return Turn(factor, value, there, other or absent or base.best in fallen)
