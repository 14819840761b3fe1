"""One bucket over many brokers: coordination of tokens beside concentration of publishers."""
