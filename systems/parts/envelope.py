"""A topic's envelope (r, b) from a recorded trace of it (SRTM VI, "profiling phase").

r is 10 % above the topic's message rate; b is the smallest bucket for which the 99th percentile of
the access delay is zero.  A message waits exactly when the unfinished work that it finds in the
G/D/1 queue of rate r, plus its own token, exceeds b (report, Eq. 2), and that work does not depend
on b: so b is a quantile, and no search is needed (``studies.distribution.envelope_kernel``).
"""

RATE_FACTOR = 1.1  # SRTM VI: "a token rate r set 10% higher than the topic's message rate"
QUANTILE = 0.99  # SRTM VI: the 99th percentile of the access delay is zero
