"""A member of Bucket4j's grid on Hazelcast: a main program in Java around the two libraries, and how it is compiled."""
