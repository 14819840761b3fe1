"""Where the sources meet: coordinate tokens between brokers, or concentrate publishers on few."""
