"""Topics placed on brokers while their clients come, go and move."""
