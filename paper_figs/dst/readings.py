"""What the DST paper leaves open and what moves a verdict.  The defaults are its cell of record."""

from harness.experiment import Reading

FITTED, INCREMENTS = "ar1", "iid"
LITERAL, CLAMPED = "none", "links"

CURVE = Reading(
    "usage-curve",
    "the load of Table 4: an AR(1) process fitted to its percentages, or the paper's independent increments",
    FITTED,
    values=(FITTED, INCREMENTS),
    source='6 has "a randomly generated usage curve" and no more; (16)-(17) model increments as independent, with a '
    "variance that is not given",
)
BELOW_ZERO = Reading(
    "below-zero",
    "limits may fall below 0, where nothing is admitted (none), or flows are cut on each link (links)",
    LITERAL,
    values=(LITERAL, CLAMPED),
    source="(3) has no bound on x_i; (7) would count min(x_i, r_i) < 0 requests as admitted",
)
