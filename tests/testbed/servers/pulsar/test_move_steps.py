"""Steps of moves in a broker's log, as Pulsar 4.0.8 writes them with our settings."""

from testbed.servers.pulsar.move_steps import StepTook, steps_of

WHO = "[metadata-store-10-1] org.apache.pulsar.broker.loadbalance.extensions.manager.UnloadManager"
BUNDLE = "run-a0/follow-leader-3/0x00000000_0xffffffff"


def test_a_line_tells_when_a_step_ended_and_how_long_it_took() -> None:
    log = (
        "1795794104000 WARN  [main] org.apache.bookkeeper.bookie.Journal - Operation NOTHING took 3 ms\n"
        f"1795794104653 INFO  {WHO} - Operation ASSIGN for service unit {BUNDLE} took 206 ms\n"
        "WARNING: JAXBContext implementation could not be found.\n"
        f"1795794105028 INFO  {WHO} - Operation UNLOAD for service unit {BUNDLE} took 735 ms\n"
    )
    assert list(steps_of(log)) == [
        StepTook(1_795_794_104_653_000_000, "assign", BUNDLE, 206_000_000),
        StepTook(1_795_794_105_028_000_000, "unload", BUNDLE, 735_000_000),
    ]
