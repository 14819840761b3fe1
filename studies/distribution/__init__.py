"""A topic over several brokers: search for an assignment, judge it on fresh traffic."""
