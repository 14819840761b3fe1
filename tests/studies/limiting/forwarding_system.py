"""A system in a file of its own: each node hands its requests on to the first, which admits them all."""

from dataclasses import dataclass

from systems.api import Arrival, Decide, Effect, Event, Forward, Node, Sample, Start, System, Timer, Transport, Verdict


@dataclass(frozen=True)
class Config:
    broken: str = ""  # what it does wrong: "" | "twice" | "raises"


class Forwarder:
    def __init__(self, name: str, first: str, config: Config):
        self.name, self.first, self.config = name, first, config

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Arrival(request) if self.name == self.first:
                decide, broken = Decide(request.id, Verdict.ADMIT), self.config.broken
                if request.user != "user-7":  # the warm-up has none of this name, so that the load finds it
                    return [decide]
                if broken == "raises":
                    raise KeyError("no such user")
                return [decide, decide] if broken == "twice" else [decide]
            case Arrival(request):
                return [Forward(request, self.first), Sample("handed_on_count", 1.0)]
            case Start() | Timer():
                return []
        raise AssertionError(event)

    def idle(self) -> bool:
        return True


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    return {name: Forwarder(name, names[0], config) for name in names}


SYSTEM = System("forwarding", "hands on", config=Config, nodes=nodes, transport=Transport.STREAM)
