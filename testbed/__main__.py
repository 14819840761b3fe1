"""``python -m testbed TESTBED``: exit code 0 where it can be used on this machine; otherwise what is missing."""

import sys

from testbed import load_testbed

if __name__ == "__main__":
    lacking = [finding for finding in load_testbed(sys.argv[1]).probe() if finding.needed and not finding.found]
    print(*(f"{finding.what}: {finding.detail}" for finding in lacking), sep="\n", end="\n" if lacking else "")
    sys.exit(bool(lacking))
