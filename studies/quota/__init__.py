"""The study of a quota that brokers of a real Apache Pulsar share."""
