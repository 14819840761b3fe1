"""How fast we are: the message pipeline and whole campaigns, beside peers, in one process run."""
