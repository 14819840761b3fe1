"""Advice: which system, with which settings, for a log or a trace."""
