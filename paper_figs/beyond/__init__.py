"""Figures that no source has: all limiters side by side."""
