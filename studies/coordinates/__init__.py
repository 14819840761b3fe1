"""Coordinate agents that estimate round trips."""
