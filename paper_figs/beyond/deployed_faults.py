"""The grid of ``deployed-failures``: which contender meets which fault, and in which scenario a run was."""

from core.records import Options
from core.units import SECOND_NS, duration_ns
from harness.experiment import RunSpec, Scale
from paper_figs.beyond import contenders
from paper_figs.beyond.contenders import FAST, HASTY, PRODUCTS, REPLICA, SHORT_LEASES, Regime
from paper_figs.beyond.faults import Faults, crash, cut
from paper_figs.beyond.wan import CITIES, LIVE
from paper_figs.style import Style

REGIME = Regime(FAST.said, FAST.count, FAST.period, (0.5, 2), 4, FAST.duration, ("even",))
FROM_SHARE, UNTIL_SHARE = 0.2, 0.8  # of a run: when the fault begins, and when looking at it ends
LOSS = 0.01  # of each link, one way: 3 % between cities, which are three links apart
KILLED, CUT, LOSSY = "killed", "cut", "lossy"
SCENARIOS = {
    KILLED: Style("New York's process killed", "#D55E00", "s", "-"),
    CUT: Style("Sydney cut off", "#0072B2", "o", "-"),
    LOSSY: Style("1 % of packets lost on each link", "#009E73", "^", "-"),
}
NAMES = {  # in which scenarios
    "nginx": (KILLED,),
    "redis-gcra": (KILLED, CUT, LOSSY),
    "ratelimit": (KILLED, CUT, LOSSY),
    REPLICA: (KILLED,),
    HASTY: (KILLED,),
    "bucket4j": (KILLED, CUT),
    "haproxy": (KILLED, CUT, LOSSY),
    SHORT_LEASES: (KILLED, CUT, LOSSY),
    "counter": (KILLED, CUT, LOSSY),
}
NEW_YORK, SYDNEY = "New York", "Sydney"


def faults_of(scenario: str, name: str, duration_s: float) -> Faults:
    """What goes wrong for one contender, in a run of that length.

    Of a deployed limiter the servers die, and its callers go on; ours is one process with its caller.  Servers
    that are cut off stay so: healed, TCP waits for seconds before it tries again, which is no fault that was declared.
    Ours are joined again, for a run ends when they have told each other everything.
    """
    from_s, until_s = round(FROM_SHARE * duration_s), round(UNTIL_SHARE * duration_s)
    if scenario == CUT:
        return cut([f"n{CITIES.index(SYDNEY) + 1}"], from_s, None if name in PRODUCTS else round(duration_s) - 1)
    if scenario == LOSSY:
        every = {"kind": "link-loss", "a": "*", "b": "*"}
        begins = {**every, "at": f"{from_s}s", "loss_probability": LOSS}
        return [begins, {**every, "at": f"{until_s}s", "loss_probability": 0.0}]
    return [{"kind": "server-crash", "at": f"{from_s}s", "node": "n1"}] if name in PRODUCTS else crash("n1", from_s)


def since_s(share: float) -> int:
    """How long after the fault began that share of a run is over, in s."""
    return round((share - FROM_SHARE) * duration_ns(REGIME.duration) / SECOND_NS)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Each contender in its scenarios, emulated, and the oracle, whom no fault reaches."""
    specs = [contenders.oracle(REGIME, scale)]
    duration_s = duration_ns(str(specs[0].study_options["duration"])) / SECOND_NS
    for name in contenders.names_of(scale, tuple(NAMES)):
        for scenario in NAMES[name] if scale.name != "tiny" else (KILLED,):
            faults = faults_of(scenario, name, duration_s)
            specs.append(contenders.point(name, REGIME, scale, testbed=LIVE, faults=faults))
    return specs


def times(spec: RunSpec) -> int:
    """Seven of who depends on how often Sentinels have to vote, and of the oracle for them; two of the counter."""
    return {"centralised": 7, "crdt-counter": 2}.get(spec.system, 7 if "failover_timeout" in spec.system_options else 1)


def scenario_of(name: str, faults: Faults, length_s: float) -> str:
    """Which one a contender's run is."""
    for scenario in SCENARIOS:
        if list(faults_of(scenario, name, length_s)) == list(faults):
            return scenario
    raise KeyError(f"no scenario of {name} has the faults {list(faults)}")
