"""A system's nodes as processes: their hosts, their links, their records."""
