"""``python -m testbed.brokers.brokerd.build``: compile the broker, once for each state of its sources."""

from pathlib import Path

from testbed.golang import CHECKOUT, GoModule

SOURCES = Path(__file__).resolve().parent
MODULE = GoModule(SOURCES / "go.mod", CHECKOUT / ".brokerd")
NSQ_BENCH = "github.com/nsqio/nsq/bench/"  # of the pinned module: bench_writer, bench_reader


def brokerd_path() -> Path:
    """The compiled broker.  MachineError where it cannot be built."""
    return MODULE.built("brokerd", ".")


def nsq_bench_path(name: str) -> Path:
    """NSQ's own ``bench_writer`` or ``bench_reader``, of the same pinned version."""
    return MODULE.built(name, NSQ_BENCH + name)


BINARY = MODULE.program("brokerd")  # once it is built

if __name__ == "__main__":
    print(brokerd_path())
