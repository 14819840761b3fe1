"""Topics placed on the brokers of a real Apache Pulsar, unmodified, by the control planes of the placement family."""
