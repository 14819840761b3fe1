"""Publishers that move between live brokers while traffic flows, and what tells them that a message was delivered."""
