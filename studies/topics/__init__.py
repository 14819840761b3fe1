"""Topics come to a cluster one after the other, are searched a place, stay for a while, and leave."""
