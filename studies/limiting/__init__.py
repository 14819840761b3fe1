"""Requests at the nodes of a limiter."""
