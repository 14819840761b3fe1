"""Nodes as Erlang processes, which the thesis measured: their sources, and the emulator that runs them."""
