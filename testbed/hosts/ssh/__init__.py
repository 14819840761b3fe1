"""The testbed ``ssh``: hosts are machines of an inventory, reached by SSH; links are as they are, or shaped there."""
