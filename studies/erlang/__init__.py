"""The thesis' nodes as Erlang processes, in virtual time."""
