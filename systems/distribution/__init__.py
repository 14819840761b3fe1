"""Publishers to brokers: searches that place a topic (LB, Conc, Max-Min, SRTM), and the TB Adaptor's nodes."""
