"""A toy rate limiter over HTTP: python3 toy_server.py PORT LIMIT SECONDS."""

import sys
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, LIMIT, SECONDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
counts: Counter[tuple[str, int]] = Counter()


class Limiter(BaseHTTPRequestHandler):
    """/USER is answered 200, or 429 after LIMIT requests of the user in SECONDS."""

    protocol_version = "HTTP/1.1"  # connections stay

    def do_GET(self) -> None:
        """Count, and answer."""
        window = self.path, int(time.time() / SECONDS)
        counts[window] += self.path != "/"
        self.send_response(200 if counts[window] <= LIMIT else 429)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


ThreadingHTTPServer(("127.0.0.1", PORT), Limiter).serve_forever()
