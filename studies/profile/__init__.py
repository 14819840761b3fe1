"""One broker's data plane under topics with fan-out."""
