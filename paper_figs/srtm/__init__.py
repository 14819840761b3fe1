"""The figures and tables of the SRTM paper, a file each; ``grids`` where they share runs."""
