"""What is seen of the machines that carry a run, while it goes on: the harness' own, and those that are elsewhere."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from collectors.probes import Probes, Seen, Together


class SiteWatch:
    """Samples of this machine from when it is entered until it is left; a context manager.

    ``elsewhere``: what other machines have seen of themselves, asked for when the run is over.
    """

    def __init__(self, probes: Probes, elsewhere: Callable[[], Sequence[Seen]]):
        self._probes, self._elsewhere = probes, elsewhere

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Take the first samples at once, the others in a thread."""
        self._probes.start()
        return self

    def stop(self) -> None:
        """Take the last samples.  A second call does nothing."""
        self._probes.stop()

    def seen(self) -> Seen:
        """All that was seen, as one."""
        return Together(self._probes, self._elsewhere())
