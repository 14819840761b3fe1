"""Which version of somebody else's program is here, as the program itself says."""

import re
import subprocess
from functools import cache
from pathlib import Path

from testbed.hosts.capabilities import TRY_TIMEOUT_S, tool

_NUMBER = re.compile(r"\d+\.\d+\S*")


@cache
def version_of(program: str, word: str) -> str:
    """The first number like 1.2 that ``program word`` prints; of one in Go, that of the module ``word``.

    A program in Go has written into it what it was built of.  "" where there is no such program, or it is silent.
    """
    path = tool(program)
    if path is None:
        return ""
    try:
        if "/" in word:
            built_of = re.search(rb"\n(?:mod|dep)\t%b\t(v\S+)" % re.escape(word.encode()), Path(path).read_bytes())
            return built_of[1].decode() if built_of else ""
        done = subprocess.run([path, word], stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = _NUMBER.search((done.stdout + done.stderr).decode(errors="replace"))
    return number[0] if number else ""
