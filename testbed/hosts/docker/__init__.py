"""Containers as hosts, joined by Mininet's links: see ``site.py``."""
