"""A topic on fixed brokers while a controller moves its sub-buckets."""
