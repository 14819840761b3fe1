"""Broken systems: no claim may hold because nothing happened."""
