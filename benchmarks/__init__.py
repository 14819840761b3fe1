"""How fast we are, beside peers, in one process run: ``make bench``.  Figures to read, not assertions."""
