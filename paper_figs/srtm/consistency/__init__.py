"""Under which readings the SRTM papers' claims hold, and hold together: a map of margin x mcap x costs.

``python -m paper_figs.srtm.consistency search`` finds the calibrations of the readings, ``… map`` fills the map, ``…
show`` prints it.  It is in no goal of the Makefile: a whole map takes an hour of two cores.  Runs are the library's,
aggregated in this one process: tens of thousands of runs of a tenth of a second each are no job for Spark.
"""
