"""Placement policies on many random placements of clients: nothing is sent."""
