"""Demands, cycle by cycle, at the servers of a throttler."""
