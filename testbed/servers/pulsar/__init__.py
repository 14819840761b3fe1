"""Apache Pulsar, unmodified: the pinned distribution, a small cluster on the hosts of a site, its REST, its clients."""
