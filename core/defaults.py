"""What a limiter allows each user unless told otherwise: limiters start from it, and results are read by it."""

CAPACITY = 300  # thesis, Table 4.1: c tokens, a secret there; 300 is ours
RATE = "0.3"  # thesis, Table 4.1: 0.001 c tokens a second
