"""Tests mirror the tree: ``tests/systems`` tests ``systems``."""
