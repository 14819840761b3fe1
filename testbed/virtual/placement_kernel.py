"""Many random placements of clients, and what each policy makes of them: the inner loops of study ``policies``.

For every topic the brokers that the policies choose, and over all pairs of a producer and a consumer the worst delay
and the share above the bound, by estimate and in truth.  ``placement_twin`` of the tests is the same out of
``systems.parts.topic_placement``.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from math import sqrt

import numpy as np

from core.compiled import njit
from systems.parts.vivaldi import NEAR_S

PULSAR, ALL_PAIRS, EPULSAR, OPTIMAL = range(4)  # rows of what is found
ESTIMATED_WORST, ESTIMATED_VIOLATION, PRINTED_VIOLATION, TRUE_WORST, TRUE_VIOLATION, FEASIBLE = range(6)  # and columns


@njit(cache=True)
def study(placements, roles, hashed, estimated_s, true_s, sites, brokers, bound_s, share, shortcut, only_violated):
    """Float64 (placements, 4 policies, 6 measures): delays in seconds, shares of pairs and of topics.

    ``placements`` int64 (placements, clients): the site of each client.  ``roles``: four int64 arrays, the producers
    of all topics, where each topic's begin, and likewise consumers.  ``hashed`` (topics,): Pulsar's brokers.
    ``estimated_s``, ``true_s`` (sites, brokers): of a message.  ``sites``, ``brokers``: their coordinates (vec,
    height, adjustment).  ``share``, ``shortcut``: see ``topic_placement.Policy``.  ``only_violated``: a topic whose
    estimated delay at Pulsar's broker is within the bound stays there.
    """
    producers, producer_start, consumers, consumer_start = roles
    topics, broker_count = len(hashed), len(brokers[1])
    results = np.zeros((len(placements), 4, 6))
    worst_s, true_worst_s, expected_s = np.empty(broker_count), np.empty(broker_count), np.empty(broker_count)
    vec = np.empty(sites[0].shape[1])
    chosen = np.empty(4, np.int64)
    for k in range(len(placements)):
        pairs = 0
        for t in range(topics):
            of = _sites_of(placements[k], producers, producer_start[t], producer_start[t + 1])
            to = _sites_of(placements[k], consumers, consumer_start[t], consumer_start[t + 1])
            pairs += len(of) * len(to)
            for broker in range(broker_count):
                expected_s[broker] = 0.0
            _expect(of, sites, brokers, share, shortcut, vec, expected_s)
            _expect(to, sites, brokers, share, shortcut, vec, expected_s)
            _farthest(of, to, estimated_s, worst_s)
            _farthest(of, to, true_s, true_worst_s)
            chosen[PULSAR], chosen[ALL_PAIRS] = hashed[t], _least(worst_s)
            chosen[EPULSAR], chosen[OPTIMAL] = _least(expected_s), _least(true_worst_s)
            results[k, ALL_PAIRS, FEASIBLE] += worst_s[chosen[ALL_PAIRS]] < bound_s
            results[k, EPULSAR, FEASIBLE] += expected_s[chosen[EPULSAR]] < bound_s
            results[k, OPTIMAL, FEASIBLE] += true_worst_s[chosen[OPTIMAL]] < bound_s
            if only_violated and worst_s[hashed[t]] <= bound_s:
                chosen[ALL_PAIRS] = chosen[EPULSAR] = hashed[t]
            for policy in range(4):
                broker = chosen[policy]
                results[k, policy, ESTIMATED_WORST] = max(results[k, policy, ESTIMATED_WORST], worst_s[broker])
                results[k, policy, TRUE_WORST] = max(results[k, policy, TRUE_WORST], true_worst_s[broker])
                if worst_s[broker] > bound_s:
                    results[k, policy, ESTIMATED_VIOLATION] += _violations(of, to, estimated_s, broker, bound_s)
                if worst_s[broker] > bound_s * share:
                    results[k, policy, PRINTED_VIOLATION] += _violations(of, to, estimated_s, broker, bound_s * share)
                if true_worst_s[broker] > bound_s:
                    results[k, policy, TRUE_VIOLATION] += _violations(of, to, true_s, broker, bound_s)
        for policy in range(4):
            for measure in (ESTIMATED_VIOLATION, PRINTED_VIOLATION, TRUE_VIOLATION):
                results[k, policy, measure] /= pairs
            results[k, policy, FEASIBLE] /= topics
    return results


@njit(cache=True)
def _sites_of(site, members, start, end):
    sites = np.empty(end - start, np.int64)
    for i in range(start, end):
        sites[i - start] = site[members[i]]
    return sites


@njit(cache=True)
def _least(values):
    best = 0
    for i in range(1, len(values)):
        if values[i] < values[best]:
            best = i
    return best


@njit(cache=True)
def _expect(members, sites, brokers, share, shortcut, vec, expected_s):
    """Add one role's part of W(t, b) for all brokers; ``vec`` is scratch."""
    for i in range(len(vec)):
        vec[i] = 0.0
    height = adjustment = deviation_s = 0.0
    for site in members:
        for i in range(len(vec)):
            vec[i] += sites[0][site, i] / len(members)
        height += sites[1][site] / len(members)
        adjustment += sites[2][site] / len(members)
    for site in members:
        deviation_s = max(deviation_s, _distance(vec, height, adjustment, sites, site, shortcut))
    for broker in range(len(expected_s)):
        expected_s[broker] += share * (_distance(vec, height, adjustment, brokers, broker, shortcut) + deviation_s)


@njit(cache=True)
def _distance(vec, height, adjustment, others, other, shortcut):
    square = 0.0
    for i in range(len(vec)):
        square += (vec[i] - others[0][other, i]) ** 2
    between = sqrt(square)
    if shortcut and between < NEAR_S:
        return 0.0
    raw = between + height + others[1][other]
    adjusted = raw + adjustment + others[2][other]
    return adjusted if adjusted > 0.0 else raw


@njit(cache=True)
def _farthest(of, to, delay_s, worst_s):
    for broker in range(len(worst_s)):
        there_s = back_s = 0.0
        for site in of:
            there_s = max(there_s, delay_s[site, broker])
        for site in to:
            back_s = max(back_s, delay_s[site, broker])
        worst_s[broker] = there_s + back_s


@njit(cache=True)
def _violations(of, to, delay_s, broker, bound_s):
    count = 0
    for producer in of:
        for consumer in to:
            count += delay_s[producer, broker] + delay_s[consumer, broker] > bound_s
    return count
