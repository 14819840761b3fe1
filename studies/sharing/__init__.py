"""A topic's token bucket, shared by its brokers in one of several ways."""
