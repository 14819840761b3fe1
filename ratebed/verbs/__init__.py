"""One verb a file; heavy packages are imported inside, so that ``--help`` is instant."""
