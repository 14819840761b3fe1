"""envoyproxy/ratelimit, which no package brings: its pinned modules, and how it is built."""
