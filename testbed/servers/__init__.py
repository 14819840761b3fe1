"""Real servers of others behind our own interfaces: Serf's agents, and ZooKeeper."""
