"""Admit or reject at replicated nodes: limiters."""
