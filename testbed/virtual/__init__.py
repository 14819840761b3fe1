"""The virtual testbed: discrete events for control, batch kernels for messages; needs nothing.

``deployment`` measures rounds, ``fleet`` is the data plane, ``broker_kernel`` the broker model's
code, ``scheduler`` and ``network`` drive protocol nodes, ``plane`` joins the two.
"""

from testbed.virtual.backend import BACKEND

__all__ = ["BACKEND"]
