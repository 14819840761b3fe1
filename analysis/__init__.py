"""What the results mean: Spark aggregation, metrics, verdicts on claims, the report."""
