"""tally: a server that counts what it is told, a line a question, a line an answer.

An example of a server in one file: the program itself, for which Python alone does, and how one is run.
"""

import sys
from collections import Counter
from socketserver import StreamRequestHandler, ThreadingTCPServer

counts: Counter[bytes] = Counter()


class Tally(StreamRequestHandler):
    """``KEY AMOUNT`` counts AMOUNT more of KEY and answers how many there are now."""

    def handle(self) -> None:
        """Until the other side hangs up."""
        for line in self.rfile:
            key, amount = line.split()
            counts[key] += int(amount)
            self.wfile.write(b"%d\n" % counts[key])


if __name__ == "__main__":
    ThreadingTCPServer.allow_reuse_address = ThreadingTCPServer.daemon_threads = True
    ThreadingTCPServer(("", int(sys.argv[1])), Tally).serve_forever()
else:
    from testbed.servers.program import ServerProgram

    SERVER = ServerProgram(
        name="tally",
        program="python3",
        fix="apt-get install python3",
        port=7070,
        words=lambda spot: [__file__, str(spot.port)],
        question=lambda spot: b"up? 1\n",
        expected=b"\n",
    )
