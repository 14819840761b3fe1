"""A topic on fixed brokers whose traffic shifts: sub-buckets follow it, publishers move, or both."""
