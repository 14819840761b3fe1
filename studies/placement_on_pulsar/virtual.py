"""A control plane that places the topics of a modelled Pulsar (``model``), in virtual time."""

from core.errors import SpecError
from core.units import SECOND_NS
from studies.placement.asked import Spell
from studies.placement.virtual import REPORT_NS, booted
from studies.placement_on_pulsar.asked import PulsarJournal, PulsarRequest
from studies.placement_on_pulsar.model import FITTED, ModelledPulsar, PulsarCosts
from studies.placement_on_pulsar.modelled_messages import ModelledMessages
from studies.placement_on_pulsar.systems import deployed
from systems.api import Report
from systems.placement.cast import cast_of
from systems.placement.messages import AtSite
from testbed.api import Testbed
from testbed.faults import Crash, Restart
from testbed.virtual.network import Network
from testbed.virtual.scheduler import EventLoop


def check(testbed: Testbed, asked: PulsarRequest) -> None:
    """SpecError for a system that was not made to drive Pulsar, and for what the modelled Pulsar cannot do."""
    deployed(asked.system)
    if asked.rule.shedding:
        raise SpecError("shedding: the modelled Pulsar has no balancer of its own", "use --testbed mininet")
    managers = cast_of(asked.topology.node_names()).managers
    for fault in asked.faults:
        if not (isinstance(fault, Crash | Restart) and fault.node in managers):
            raise SpecError(f"{fault}: of the modelled Pulsar only managers crash", "use --testbed mininet")


def run(asked: PulsarRequest, costs: PulsarCosts = FITTED) -> PulsarJournal:
    """The nodes are those of a live run; the store is the family's own."""
    system, cast = deployed(asked.system), cast_of(asked.topology.node_names())
    plane = ModelledPulsar(asked, cast.brokers, cast.stores[0], costs)
    boot = booted(system, asked.topology, asked.config, asked.seed, asked.rule.warm_up_rounds)
    loop = EventLoop(boot, Network(asked.topology, asked.seed, system.transport), system.messages, plane)
    plane.begin(loop)
    for name, whereabouts in asked.whereabouts.items():
        for at_ns, proxy in whereabouts:
            loop.inject(name, at_ns, Report(AtSite(proxy)))
    loop.fail([*asked.handovers(), *asked.faults])
    loop.report_every(REPORT_NS)
    journal = loop.run(asked.duration_ns)
    spells = sorted((spell for past in plane.pasts(asked.duration_ns).values() for spell in past.spells), key=_by_time)
    samples = sorted([*journal.samples, *plane.samples], key=lambda row: row[:3])
    steps = sorted(plane.steps, key=lambda step: (step.start_ns, step))
    downtimes = sorted(plane.downtimes, key=lambda one: (one.start_ns, one))
    faults = list(journal.faults)
    while plane.is_fenced(asked.duration_ns):  # what was sent by then comes when the move is over
        loop.run(loop.now_ns + SECOND_NS)
    fates, latency_ns = ModelledMessages(asked, plane.ways, plane.pasts(loop.now_ns)).told()
    return PulsarJournal(samples, spells, fates, faults, steps=steps, downtimes=downtimes, latency_ns=latency_ns)


def _by_time(spell: Spell) -> tuple[int, str]:
    return spell.start_ns, spell.topic
