"""Single-process twins of ``analysis.limiting`` and ``analysis.usage``: the definitions, read literally."""

from fractions import Fraction

SECOND_NS = 1_000_000_000
NAN = float("nan")


def grid(rows, step_ns):
    """0, step, ... up to the first multiple that has seen the last request."""
    last_ns = max(row["intended_at_ns"] for row in rows)
    return range(0, last_ns + step_ns, step_ns)


def cumulative(rows, t_ns, decision=None):
    """Requests intended up to ``t_ns``, of one decision or of all."""
    return sum(row["intended_at_ns"] <= t_ns and decision in (None, row["decision"]) for row in rows)


def precision(rows, oracle_rows):
    """The counts and ratios of one run, request by request."""
    theirs = {row["request_id"]: row["decision"] for row in oracle_rows}
    pairs = [(row["decision"], theirs[row["request_id"]]) for row in rows]
    rejected, wanted = (sum(pair[side] == "reject" for pair in pairs) for side in (0, 1))
    area, wanted_area = (
        sum(cumulative(table, t_ns, "reject") for t_ns in grid(rows, SECOND_NS)) for table in (rows, oracle_rows)
    )
    false_admit, false_reject = pairs.count(("admit", "reject")), pairs.count(("reject", "admit"))
    return {
        "offered_count": len(rows),
        "admitted_count": sum(row["decision"] == "admit" for row in rows),
        "rejected_count": rejected,
        "lost_count": sum(row["decision"] == "lost" for row in rows),
        "oracle_rejected_count": wanted,
        "rejected_ratio": rejected / wanted if wanted else NAN,
        "area_ratio": area / wanted_area if wanted_area else NAN,
        "false_admit_count": false_admit,
        "false_reject_count": false_reject,
        "false_admit_share": false_admit / len(rows),
        "false_reject_share": false_reject / len(rows),
    }


def netted(rows, oracle_rows, capacity, rate):
    """(over, under): of each user's c/r the difference of admissions, request by request."""
    theirs = {row["request_id"]: row["decision"] == "admit" for row in oracle_rows}
    spans = {}
    for row in rows:
        span = row["user"], Fraction(row["intended_at_ns"], SECOND_NS) // (capacity / Fraction(rate))
        more = 0 if row["decision"] == "lost" else (row["decision"] == "admit") - theirs[row["request_id"]]
        spans[span] = spans.get(span, 0) + more
    return tuple(sum(max(0, sign * more) for more in spans.values()) / len(rows) for sign in (1, -1))


def worst_excess(rows, capacity, rate, instant="decided_at_ns"):
    """(tokens, user): every pair of instants of every user is an interval."""
    worst = (Fraction(0), None)
    for user in sorted({row["user"] for row in rows}):
        work = [(row[instant], row["cost"] or 1) for row in rows if row["user"] == user and row["decision"] == "admit"]
        for start, _ in work:
            for end, _ in work:
                inside = sum(cost for at_ns, cost in work if start <= at_ns <= end)
                excess = inside - capacity - Fraction(rate) * Fraction(end - start, SECOND_NS)
                if start <= end and excess > worst[0]:
                    worst = (excess, user)
    return worst


def users_seen(rows, t_ns):
    """Users with a request up to ``t_ns``."""
    return len({row["user"] for row in rows if row["intended_at_ns"] <= t_ns})


def usage_over_time(rows, step_ns):
    """(t_ns, state_bytes, sent_bytes) of one run, step by step."""
    rows = [row for row in rows if row["node"] and row["metric"] in ("state_bytes", "allocated_bytes", "sent_bytes")]
    nodes = {row["node"] for row in rows}
    first_ns = 0 if any(row["at_ns"] == 0 for row in rows) else step_ns
    found = []
    for t_ns in range(first_ns, max(row["at_ns"] for row in rows) + step_ns, step_ns):
        here = [row for row in rows if t_ns - step_ns < row["at_ns"] <= t_ns]
        held = {}
        for row in sorted(here, key=lambda row: row["at_ns"]):
            if row["metric"] == "state_bytes":
                held[row["node"]] = row["value"]
        sent = sum(row["value"] for row in here if row["metric"] == "sent_bytes")
        found.append((t_ns, sum(held.values()) / len(held) if held else None, sent / len(nodes)))
    return found
