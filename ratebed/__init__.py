"""The front door: the command line, thin."""
