"""Every number that the SRTM papers print and a figure or claim here uses, once, with where it stands.

Sections and figures are the conference version's unless "report" is said; our copies have no page numbers.
Tests hold each against the digest of the papers.
"""

SLO_MS = 1.0  # 99th percentile of end-to-end latency: VI, footnote 10
BROKERS = 6  # VI: two machines with three each
PUBLISHERS = 1_000  # of a correlated topic: VI-D and VI-E; of the report's Fig. 6a
PUBLISHER_RPS = 10.0  # messages of each a second: VI-A
BATCH = 10  # messages of a bursty publisher: VI-B to VI-E
FIG4_PUBLISHERS = 6_000  # Fig. 4, VI-A
REPORT_FIG6A_P99_MS = 14.7  # report 6.1, Fig. 6a: at k = 6
INITIAL_LOADS_RPS = (10_000.0, 40_000.0, 50_000.0, 60_000.0, 70_000.0, 80_000.0)  # Fig. 6, caption: brokers 1 to 6
FITS_ONE = 4_000  # publishers: VI-C: up to here Conc and Max-Min need broker 1 only
FIG6_PUBLISHERS = 8_000  # VI-C: where the text prints the p99 of broker 3's publishers
BROKER_3_P99_MS = {"conc": 1.50, "max-min": 0.87}  # VI-C
LARGEST_GROUP, ITS_BROKERS = 30, 6  # Fig. 7, VI-D
SPREAD_GROUP, LARGEST_SPREAD_MS = 25, 16  # Fig. 9, VI-D
SMALL_SPREAD_PERCENT = 4  # VI-D, of what lies between two messages of a publisher: "a few", and 4 is our reading
TABLE_1 = {  # Table I, VI-E: group size: rounds of iterations 1 to 6, seconds
    5: ((1,), 64),
    10: ((2, 1), 189),
    15: ((5, 3, 1), 558),
    20: ((5, 4, 2, 1), 745),
    25: ((3, 4, 4, 2, 1), 871),
    30: ((3, 5, 3, 2, 3, 1), 1058),
}
ROUND_S, OVERHEAD_S = 60, 2.2  # VI-E: a round's traffic; what Table I's seconds leave beside it, a round
