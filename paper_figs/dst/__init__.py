"""The figures and tables of the DST paper (Siami & Skaf), a file each; what needs no runs is computed when drawn."""
