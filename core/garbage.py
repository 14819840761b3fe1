"""How often Python looks for garbage that refers to itself; all other memory is free as soon as nobody needs it."""

import gc


def collect_rarely() -> None:
    """Look after 100,000 new objects instead of 700: a run makes many that live as long as it, and few cycles.

    Searching among them took a tenth of a campaign's time; workers now hold some tens of MB more.
    """
    gc.set_threshold(100_000, 10, 10)
