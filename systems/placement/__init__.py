"""Topics to brokers, continuously: load managers that move topics to where their clients are (ePulsar)."""
