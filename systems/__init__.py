"""What competes. Registry: ``SYSTEMS``, name -> "module:OBJECT", imported on use."""

SYSTEMS = {
    "lb": "systems.distribution.lb:SYSTEM",
    "conc": "systems.distribution.conc:SYSTEM",
    "max-min": "systems.distribution.max_min:SYSTEM",
    "srtm": "systems.distribution.srtm:SYSTEM",
    "tb-adaptor": "systems.distribution.tb_adaptor:SYSTEM",
    "centralised": "systems.limiting.centralised:SYSTEM",
    "crdt-counter": "systems.limiting.crdt_counter:SYSTEM",
    "crdt-queue": "systems.limiting.crdt_queue:SYSTEM",
    "sliding-log": "systems.limiting.sliding_log:SYSTEM",
    "static-split": "systems.limiting.static_split:SYSTEM",
    "leases": "systems.limiting.leases:SYSTEM",
    "throttler": "systems.limiting.throttler:SYSTEM",
    "redis-gcra": "systems.limiting.redis_gcra:SYSTEM",
    "fixed-window": "systems.limiting.fixed_window:SYSTEM",
    "overwrite": "systems.limiting.overwrite:SYSTEM",
    "owner-global": "systems.limiting.owner_global:SYSTEM",
    "centralised-throttler": "systems.limiting.centralised_throttler:SYSTEM",
    "pulsar": "systems.placement.pulsar:SYSTEM",
    "all-pairs": "systems.placement.all_pairs:SYSTEM",
    "epulsar": "systems.placement.epulsar:SYSTEM",
}
