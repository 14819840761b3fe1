"""Who executes the runs of a campaign: processes of this machine, or the workers of a Spark cluster."""
