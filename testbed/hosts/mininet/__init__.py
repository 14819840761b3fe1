"""Topologies as Mininet networks: hosts in network namespaces, real sockets, real delays."""
