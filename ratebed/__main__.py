"""``python -m ratebed``."""

from ratebed.cli import main

main()
