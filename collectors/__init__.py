"""What is kept of a run: the tables' schema, latency histograms, and run folders that are whole or absent."""
