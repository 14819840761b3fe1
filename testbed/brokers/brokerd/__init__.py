"""The live broker: a Go program with nsqd inside, what builds it, and the harness' side of its control port."""
