"""Figures of the thesis: CRDT rate limiting (Henriksson and Bennhage, Chalmers 2021)."""
