"""What all testbeds with real processes and sockets share: sites, agents, nodes, load, brokers.

A *site* is a topology made real (``testbed.hosts.local``, ``testbed.hosts.mininet``); an *agent* is a process of
ours on one of its hosts.  What runs here is the code in ``systems/``, unchanged.
"""
