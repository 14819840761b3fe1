"""Brokers, and what publishes to them and subscribes at them."""
