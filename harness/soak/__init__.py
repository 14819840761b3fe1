"""Deterministic simulation of faults: seeded schedules, played in virtual time, judged by the systems' invariants."""
