"""What an audit says of a log: a document for machines, and words; ``audit_drawing`` draws it."""

from datetime import UTC, datetime

from analysis.audit import ALIGNED, BUCKET, Promise, Proof, audit
from core.records import Json
from core.units import SECOND_NS
from ratebed.rows import columns
from ratebed.wording import span
from workloads.service_log import ServiceLog


class Audit:
    """The findings of a log; ``exceeding`` and ``withholding``: those of users to whom something was done, worst first.

    Its stamps are ``log.at_ns``; whatever ``findings`` say is ``shift_ns`` before them.
    """

    def __init__(self, log: ServiceLog, promise: Promise, skew_ns: int):
        assert log.admitted is not None
        self.log, self.promise, self.skew_ns, self.is_rejected = log, promise, skew_ns, ~log.admitted
        # Whole seconds are cut, as services do; finer stamps may be rounded, too.
        early_ns = max((unit_ns // 2 for unit_ns in log.units_ns if unit_ns < SECOND_NS), default=0)
        self.blur_ns, self.shift_ns = 2 * skew_ns + early_ns + log.unit_ns - 1, skew_ns + early_ns
        at_ns, until_ns = log.at_ns - self.shift_ns, log.until_ns - self.shift_ns
        begin_ns, period_ns = log.from_ns - self.shift_ns + self.blur_ns, promise.period_ns
        self.findings, self.is_wrong = audit(at_ns, log.user, log.admitted, self.blur_ns, promise, begin_ns, until_ns)
        # What was admitted before ``begin_ns`` is unknown, and may be why somebody was rejected before this.
        self.known_ns = -(-begin_ns // period_ns) * period_ns if promise.kind == ALIGNED else begin_ns + period_ns
        is_early = (at_ns < self.known_ns) & (at_ns + self.blur_ns <= until_ns)
        self.early_count = int((self.is_rejected & ~self.is_wrong & is_early).sum())
        self.exceeding = sorted((each for each in self.findings if each.excess.tokens > 0), key=_by_excess)
        self.withholding = sorted((each for each in self.findings if each.withheld_count), key=_by_withheld)

    @property
    def is_clean(self) -> bool:
        """Whether a limiter that keeps its promise may have left the log."""
        return not self.exceeding and not self.withholding

    # --- what it says ----------------------------------------------------------------------------

    def document(self) -> Json:
        """For machines; instants in nanoseconds since 1970, as stamped."""
        log = self.log
        return {
            "promise": {"kind": self.promise.kind, "count": self.promise.count, "period_ns": self.promise.period_ns},
            "skew_ns": self.skew_ns,
            "stamp_unit_ns": log.unit_ns,
            "requests": len(log.at_ns),
            "users": len(log.users),
            "nodes": list(log.nodes),
            "from_ns": int(log.at_ns[0]),
            "until_ns": int(log.at_ns[-1]),
            "columns": dict(log.columns),
            "skipped_lines": dict(log.skipped),
            "notes": list(log.notes),
            "excess": [self._excess(finding) for finding in self.exceeding],
            "withheld": [self._withheld(finding) for finding in self.withholding],
            "rejected": int(self.is_rejected.sum()),
            "cannot_show": self.silences(),
        }

    def _excess(self, finding: Proof) -> Json:
        its = finding.excess
        return {
            "user": self.log.users[finding.user],
            "least_excess": its.tokens,
            "least_excess_share": its.tokens / self.promise.count,
            "admitted": its.admitted_count,
            "allowed": its.allowed,
            "from_ns": its.from_ns + self.shift_ns,
            "to_ns": its.to_ns + self.shift_ns,
            "explained_by_skew_ns": self._explaining(its.needed_ns),
        }

    def _explaining(self, needed_ns: int | None) -> int | None:
        """How far off clocks would have to be for nothing to be proven."""
        return None if needed_ns is None else max(0, -(-(needed_ns - self.blur_ns) // 2) + self.skew_ns)

    def _withheld(self, finding: Proof) -> Json:
        assert finding.first_ns is not None and finding.last_ns is not None
        return {
            "user": self.log.users[finding.user],
            "wrongly_rejected": finding.withheld_count,
            "rejected": finding.rejected_count,
            "first_ns": finding.first_ns + self.shift_ns,
            "last_ns": finding.last_ns + self.shift_ns,
        }

    def silences(self) -> list[str]:
        """What the log cannot show, and why."""
        log, promise = self.log, self.promise
        hidden = promise.ticks_per_ns * self.blur_ns / promise.token_ticks
        said = [
            f"what {hidden:.3g} requests a user more or less would change: stamps of {_seconds(log.unit_ns)} and "
            f"clocks within {_seconds(self.skew_ns)} leave each instant open by {_seconds(self.blur_ns)}"
        ]
        few = sum(finding.admitted_count <= promise.count for finding in self.findings)
        if few:
            said.append(
                f"excess of {few:,} of {len(log.users):,} users: {promise.count} requests or less were admitted"
            )
        if not self.is_rejected.any():
            said.append("anything wrongly withheld: there is no rejection in it (is it the limiter's log?)")
        if self.early_count:
            first = _seconds(self.known_ns + self.shift_ns - int(log.at_ns[0]))
            early = f"{_counted(self.early_count, 'rejection')} of the first {first}"
            said.append(f"{early}: what was admitted before the log, or the last of its files, begins is unknown")
        if promise.kind == BUCKET and self.exceeding:
            said.append("wrong rejections of those who had more than promised: until that is paid back all are right")
        if unjudged := sum(finding.unjudged_count for finding in self.findings):
            told = "that may have been after the first of the files ends: what others admitted is unknown"
            said.append(f"{_counted(unjudged, 'rejection')} {told}")
        return said

    def lines(self, most: int) -> list[str]:
        """In words, ``most`` users of each kind."""
        log, promise = self.log, self.promise
        length = _seconds(int(log.at_ns[-1] - log.at_ns[0]))
        rejected = int(self.is_rejected.sum())
        said = [
            f"{_counted(len(log.at_ns), 'request')} of {_counted(len(log.users), 'user')} at "
            f"{_counted(len(log.nodes), 'node')} in {length}, {rejected:,} rejected",
            f"promised: {_promised(promise)}; clocks within {_seconds(self.skew_ns)}",
            f"  columns: {', '.join(f'{role}={name}' for role, name in log.columns.items())}",
            *(f"  {note}" for note in log.notes),
            *(f"  skipped {count:,} lines: {reason}" for reason, count in log.skipped.items()),
            "",
        ]
        said += [*self._told_excess(most), "", *self._told_withheld(most), "", "The log cannot show"]
        return [*said, *(f"  {silence}" for silence in self.silences())]

    def _told_excess(self, most: int) -> list[str]:
        if not self.exceeding:
            return ["Nobody is proven to have got more than promised."]
        head = "user", "beyond", "admitted", "allowed", "from", "within", "clocks would have to be off by"
        rows = []
        for row in map(self._excess, self.exceeding[:most]):
            skew_ns = row["explained_by_skew_ns"]
            length, skew = _seconds(row["to_ns"] - row["from_ns"]), "" if skew_ns is None else _seconds(skew_ns)
            beyond, allowed = f"{row['least_excess']:.1f}", f"{row['allowed']:.1f}"
            rows.append((row["user"], beyond, str(row["admitted"]), allowed, _instant(row["from_ns"]), length, skew))
        said = f"MORE THAN PROMISED: {_counted(len(self.exceeding), 'user')}, at least"
        return [said, *columns(head, rows), *_more(len(self.exceeding), most)]

    def _told_withheld(self, most: int) -> list[str]:
        if self.is_rejected.any() and self.log.from_ns >= self.log.until_ns:
            return ["No rejection is judged: there is no span in which all files speak (make parts of a log one file)."]
        if not self.withholding:
            return ["Nobody is proven to have been rejected wrongly."]
        count = sum(finding.withheld_count for finding in self.withholding)
        rows = []
        for row in map(self._withheld, self.withholding[:most]):
            instants = _instant(row["first_ns"]), _instant(row["last_ns"])
            rows.append((row["user"], str(row["wrongly_rejected"]), str(row["rejected"]), *instants))
        said = f"WRONGLY REJECTED: at least {_counted(count, 'request')} of {_counted(len(self.withholding), 'user')}"
        head = "user", "wrongly", "of rejected", "first", "last"
        return [said, *columns(head, rows), *_more(len(self.withholding), most)]


def _by_excess(finding: Proof) -> tuple[float, int]:
    return -finding.excess.tokens, finding.user


def _by_withheld(finding: Proof) -> tuple[int, int]:
    return -finding.withheld_count, finding.user


def _promised(promise: Promise) -> str:
    per = f"{promise.count} in {_seconds(promise.period_ns)}"
    if promise.kind != BUCKET:
        return f"{per}, a {promise.kind.replace('-', ' ')}"
    rate = promise.ticks_per_ns * SECOND_NS / promise.token_ticks
    return f"a bucket of {promise.count}, {rate:g} a second"


def _seconds(span_ns: int) -> str:
    return span(span_ns / SECOND_NS, digits=4)


def _instant(at_ns: int) -> str:
    """ISO 8601, UTC, to the millisecond."""
    whole = datetime.fromtimestamp(at_ns // SECOND_NS, UTC)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{at_ns % SECOND_NS // 10**6:03d}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _more(count: int, most: int) -> list[str]:
    return [f"  … and {count - most:,} more: --users {count}, or --json"] if count > most else []
