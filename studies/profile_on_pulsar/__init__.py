"""One Apache Pulsar broker's data plane under topics with fan-out."""
