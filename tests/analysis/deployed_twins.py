"""Single-process twins of ``analysis.deployed`` and ``analysis.costs``: the definitions, read literally."""

from fractions import Fraction

from tests.analysis import limiting_twins

SECOND_NS = 1_000_000_000
INSTANTS = ("intended", "decided")


def admitted(rows, instant):
    """(instant, cost) of what was let through."""
    return [(row[f"{instant}_at_ns"], row["cost"] or 1) for row in rows if row["decision"] == "admit"]


def users_of(rows):
    """The rows of each user."""
    return [[row for row in rows if row["user"] == user] for user in {row["user"] for row in rows}]


def granted(rows, oracle_rows):
    """(admitted, by the oracle)."""
    return tuple(sum(row["decision"] == "admit" for row in table) for table in (rows, oracle_rows))


def excess(rows, capacity, rate, instant):
    """In units of c: of the user that was worst."""
    tokens, _ = limiting_twins.worst_excess(rows, capacity, rate, f"{instant}_at_ns")
    return tokens / capacity


def window(rows, capacity, rate, instant):
    """The most of a user in any window of a period, in N: one that begins with an admission is the best."""
    period_ns = round(capacity / Fraction(rate) * SECOND_NS)
    most = 0
    for its in users_of(rows):
        work = admitted(its, instant)
        for begin, _ in work:
            most = max(most, sum(cost for at_ns, cost in work if begin <= at_ns < begin + period_ns))
    return Fraction(most, capacity)


def aligned(rows, capacity, rate, instant):
    """The most of a user in a window that begins at a multiple of the period, in N."""
    period_ns = round(capacity / Fraction(rate) * SECOND_NS)
    most = 0
    for its in users_of(rows):
        work = admitted(its, instant)
        for number in range(max((at_ns for at_ns, _ in work), default=0) // period_ns + 1):
            inside = (cost for at_ns, cost in work if number * period_ns <= at_ns < (number + 1) * period_ns)
            most = max(most, sum(inside))
    return Fraction(most, capacity)


def over_contract(rows, capacity, rate, contract, instant):
    """In N, beyond what is promised."""
    if contract == "fixed-window":
        return max(Fraction(0), aligned(rows, capacity, rate, instant) - 1)
    if contract == "sliding-window":
        return max(Fraction(0), window(rows, capacity, rate, instant) - 1)
    return excess(rows, capacity, rate, instant)


def over_time(rows, last_ns, step_ns, instant):
    """(t, users, offered, admitted) of one group: rates a second and user, step by step up to ``last_ns``."""
    users = len({row["user"] for row in rows})
    found = []
    for t_ns in range(0, last_ns + 1, step_ns):
        offered = sum(t_ns <= row["intended_at_ns"] < t_ns + step_ns for row in rows)
        passed = sum(t_ns <= at_ns < t_ns + step_ns for at_ns, _ in [(at, 1) for at, _ in admitted(rows, instant)])
        found.append((t_ns, users, *(count * SECOND_NS / step_ns / users for count in (offered, passed))))
    return found


def quantile(values, q):
    """The smallest value that at least so many are not above."""
    return next(value for value in sorted(values) if sum(other <= value for other in values) >= q * len(values))


def grown(readings, from_ns, until_ns):
    """By how much a counter, (instant, value) in order, grew after ``from_ns``; one that falls has begun anew."""
    total, before = 0, None
    for at_ns, value in readings:
        if from_ns < at_ns <= until_ns:
            total += value if before is None or value < before else value - before
        before = value
    return total
