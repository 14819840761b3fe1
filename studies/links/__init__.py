"""The links alone: every path of a topology, requested against measured."""
