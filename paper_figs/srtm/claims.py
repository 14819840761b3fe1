"""Claims of the SRTM paper that no figure here measures: they are about a real broker's process.

The virtual broker is a model: it has no kernel, no goroutines and no garbage, so it could only
return what was put into it.  They wait for brokers on real sockets.
"""

from analysis.verdicts import Claim

_LIVE = "The virtual broker is a model: what a Go process does between socket and token bucket has to be measured live."

CLAIMS = (
    Claim(
        "R19", "V-B", "Time stamps of the kernel remove the delay of conformant messages that stamps taken at reading "
        "cause.", (), needs="mininet", testbed="mininet", why=_LIVE,
    ),
    Claim(
        "R24", "V-C", "Garbage collection raises the p99 of message processing; the GC-friendly broker lowers it.",
        (), needs="mininet", testbed="mininet", why=_LIVE,
    ),
    Claim(
        "R25", "V-B", "The error of time stamps taken at reading grows with the number of connections.",
        (), needs="mininet", testbed="mininet", why=_LIVE,
    ),
)  # fmt: skip
