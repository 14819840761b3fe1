"""``python -m testbed.servers.ratelimit.build``: compile envoyproxy/ratelimit, the version that go.mod pins."""

from pathlib import Path

from testbed.golang import CHECKOUT, GoModule

MODULE = GoModule(Path(__file__).with_name("go.mod"), CHECKOUT / ".ratelimit")
PACKAGE = "github.com/envoyproxy/ratelimit/src/service_cmd"


def ratelimit_path() -> Path:
    """The compiled service.  MachineError where it cannot be built."""
    return MODULE.built("ratelimit", PACKAGE)


BINARY = MODULE.program("ratelimit")  # once it is built

if __name__ == "__main__":
    print(ratelimit_path())
