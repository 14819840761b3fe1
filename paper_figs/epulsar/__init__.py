"""ePulsar: topics placed near their clients, by network coordinates."""
