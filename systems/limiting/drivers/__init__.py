"""Deployed limiters, unmodified: a driver each (see ``systems.limiting.deployed``), of texts and bytes alone."""
