"""Can a run be believed?  Evidence, fidelity, accounts of every message, paths measured against the topology."""
