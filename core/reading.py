"""The border for bytes from outside: whatever goes wrong in reading them is an error of whoever wrote them.

Every reader of files, answers and options that are not ours reads inside ``reading``.
"""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import HarnessError, MachineError, SpecError, described
from core.records import Json

_TOML_FIX = "mend the TOML"
TOML_BYTES = 16 << 20  # of a file that people write (ours): a matrix of a million runs has less


@contextmanager
def reading(where: str, fix: str = "mend it", fault: Callable[[str, str], HarnessError] = SpecError) -> Iterator[None]:
    """Turn any error in here into one of ``fault`` that begins with ``where``: a file, a field, who answered.

    Errors of the tree, which say more, pass, and so do our own bugs (AssertionError).  Memory that does not suffice is
    a MachineError.
    """
    try:
        yield
    except (HarnessError, AssertionError):
        raise
    except MemoryError:
        raise MachineError(f"{where}: too much for this machine's memory", "make it smaller, or free memory") from None
    except OSError as error:
        named = error.strerror and str(error.filename) in where
        raise fault(f"{where}: {error.strerror if named else described(error)}", fix) from error
    except Exception as error:  # of any kind: parsers and libraries know many
        raise fault(f"{where}: {described(error)}", fix) from error


def read_toml(path: Path, where: str = "", fix: str = _TOML_FIX) -> Json:
    """The tables of a TOML file; SpecError names it by ``where``, by default its path."""
    return toml_of(toml_content(path, where, fix), where or str(path), fix)


def toml_content(path: Path, where: str = "", fix: str = _TOML_FIX) -> bytes:
    """The bytes of a TOML file, if they are not too many; SpecError as ``read_toml`` says."""
    with reading(where or str(path), fix):
        with path.open("rb") as file:
            content = file.read(TOML_BYTES + 1)
        if len(content) > TOML_BYTES:
            raise ValueError(f"more than {TOML_BYTES >> 20} MiB")
        return content


def toml_of(content: bytes, where: str, fix: str = _TOML_FIX) -> Json:
    """The tables that these bytes of TOML say; SpecError names them by ``where``.

    Its integers have 64 bits; Python would take any, and cannot even say some of those in an error.
    """
    with reading(where, fix):
        tables = tomllib.loads(content.decode())
        waiting: list[object] = [tables]
        while waiting:
            value = waiting.pop()
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ValueError("an integer of more than 64 bits")
            waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return tables
