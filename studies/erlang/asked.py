"""What the thesis' nodes are asked for as Erlang processes: a run of limiters, and what only Erlang leaves open."""

from dataclasses import dataclass

from studies.limiting.asked import Limiting

BIRTHS = ("ms", "unique")
IDENTITIES = ("birth", "exact", "not-later")


@dataclass(frozen=True)
class ErlangLimiting(Limiting):
    """``births``, ``identity``, ``collected``, ``own_words``: see ``studies.erlang.study``."""

    births: str = "ms"
    identity: str = "birth"
    collected: bool = True
    own_words: int = 0
