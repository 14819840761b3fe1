"""Command lines and files of Pulsar's processes: text alone.  What is ours in them says so; the rest is as it comes.

``bin/pulsar`` of the distribution would take 2 GB of heap and 4 GB beside it for each; its own words are here without
that, for the same main classes, so that a cluster fits beside others on a small machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

CLUSTER = "ratebed"
ZOOKEEPER_PORT, BOOKIE_PORT, BROKER_PORT, WEB_PORT = 2181, 3181, 6650, 8080  # Pulsar's own
TICK_MS = 500  # ours: sessions of 1 to 10 s
SESSION_MS, MOST_SESSION_MS = 5_000, 20 * TICK_MS  # ours (30 s by default): a dead broker is missed after so long
UNLOAD_TIMEOUT_MS = 30_000  # ours (60 s by default): the first of a cold broker took over 10 s on a busy machine

_OPENS = [
    "java.base/java.io", "java.base/java.nio", "java.base/java.util.zip", "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform", "java.base/sun.net", "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
]  # fmt: skip
_METADATA = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
_PROPERTIES = {
    "io.netty.tryReflectionSetAccessible": "true",
    "pulsar.allocator.exit_on_oom": "true",
    "log4j2.is.webapp": "false",
    "log4j.shutdownHookEnabled": "false",
    "bookkeeper.metadata.bookie.drivers": f"{_METADATA}BookieDriver",
    "bookkeeper.metadata.client.drivers": f"{_METADATA}ClientDriver",
    "zookeeper.4lw.commands.whitelist": "*",
    "zookeeper.snapshot.trust.empty": "true",
    "zookeeper.preAllocSize": "1024",  # ours, KB: 64 MB otherwise, made at once for a transaction log
}


# Ours: warnings, and of a broker how long each step of a move took (``move_steps``).
LOGGING = {
    "status": "error",
    "appender.console.type": "Console",
    "appender.console.name": "console",
    "appender.console.layout.type": "PatternLayout",
    "appender.console.layout.pattern": "%d{UNIX_MILLIS} %-5level [%t] %logger{36} - %msg%n",
    "rootLogger.level": "warn",
    "rootLogger.appenderRef.console.ref": "console",
    "logger.moves.name": "org.apache.pulsar.broker.loadbalance.extensions.manager.UnloadManager",
    "logger.moves.level": "info",
}


class Memory(NamedTuple):
    """What a process of Java may have, in MB: ours, for a few hundred topics on a small machine."""

    heap_mb: int
    direct_mb: int


ZOOKEEPER, SETUP, BOOKIE, BROKER = Memory(128, 64), Memory(128, 64), Memory(96, 96), Memory(192, 96)


class Ensemble(NamedTuple):
    """Where the parts of a cluster are that others are told of."""

    zookeeper: str  # "address:port"
    replicas: int  # of what is persistent


class Java(NamedTuple):
    """What starts a process: Java itself, the distribution, a folder for what it unpacks, the names that it knows, what
    it logs (``LOGGING``).
    """

    program: str
    home: Path
    scratch: str
    hosts_file: str
    logging_file: str


def java_words(java: Java, memory: Memory, main: str, *words: str) -> list[str]:
    """The command line of one process; beside its own folders it writes nothing but what it prints."""
    properties = {
        **_PROPERTIES,
        "log4j.configurationFile": java.logging_file,
        "java.io.tmpdir": java.scratch,
        "pulsar.log.dir": java.scratch,
        "jdk.net.hosts.file": java.hosts_file,
    }
    return [
        java.program,
        "-Xms32m",
        f"-Xmx{memory.heap_mb}m",
        f"-XX:MaxDirectMemorySize={memory.direct_mb}m",
        "-XX:+UseSerialGC",
        "-XX:+PerfDisableSharedMem",  # no file in /tmp
        "-Xss512k",
        *(f"--add-opens={opened}=ALL-UNNAMED" for opened in _OPENS),
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-cp",
        f"{java.home / 'conf'}:{java.home / 'lib'}/*",
        main,
        *words,
    ]


def hosts_text(addresses: Iterable[str], names: Iterable[str]) -> str:
    """The names that Java knows, instead of asking for them: in a namespace nobody would answer.

    ZooKeeper's clients want the name of every address that they connect to.  ``names``: what this host calls itself.
    """
    lines = [f"127.0.0.1 {' '.join(dict.fromkeys(['localhost', *names]))}"]
    numbered = enumerate(dict.fromkeys(addresses))
    return "\n".join([*lines, *(f"{address} host{i}" for i, address in numbered if address != "127.0.0.1"), ""])


def properties_text(settings: Mapping[str, object]) -> str:
    """A file of Java's properties; booleans as Java has them."""
    values = {name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()}
    return "".join(f"{name}={value}\n" for name, value in values.items())


def zookeeper_settings(port: int, listening: str, folder: str) -> dict[str, object]:
    """One server without a quorum."""
    return {
        "tickTime": TICK_MS,
        "dataDir": f"{folder}/data",
        "clientPort": port,
        "clientPortAddress": listening,
        "maxClientCnxns": 0,
        "admin.enableServer": False,
    }


def setup_words(ensemble: Ensemble, web: str, service: str) -> list[str]:
    """Of what makes the entries of a new cluster, once; ``web`` and ``service``: the addresses of a broker."""
    store = f"zk:{ensemble.zookeeper}"
    words = {
        "--cluster": CLUSTER,
        "--metadata-store": store,
        "--configuration-metadata-store": store,
        "--web-service-url": f"http://{web}",
        "--broker-service-url": f"pulsar://{service}",
    }
    return [word for pair in words.items() for word in pair]


def bookie_settings(ensemble: Ensemble, address: str, port: int, folder: str) -> dict[str, object]:
    """A bookie that does not sync its journal: what it acknowledged outlives its process, not its machine (ours)."""
    return {
        "bookiePort": port,
        "advertisedAddress": address,
        "allowLoopback": True,
        "metadataServiceUri": f"metadata-store:zk:{ensemble.zookeeper}",
        "journalDirectory": f"{folder}/journal",
        "ledgerDirectories": f"{folder}/ledgers",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "dbStorage_writeCacheMaxSizeMb": 16,
        "dbStorage_readAheadCacheMaxSizeMb": 16,
        "dbStorage_rocksDB_blockCacheSize": 8 << 20,
        "dbStorage_rocksDB_writeBufferSizeMB": 4,
        "journalPreAllocSizeMB": 4,
        "journalMaxSizeMB": 64,
        "journalSyncData": False,
        "numAddWorkerThreads": 1,
        "numReadWorkerThreads": 1,
        "numJournalCallbackThreads": 1,
        "serverNumIOThreads": 2,
        "httpServerEnabled": False,
        "enableStatistics": False,
        "diskUsageThreshold": 0.98,
        "diskUsageWarnThreshold": 0.97,
        "extraServerComponents": "",
    }


def broker_settings(
    ensemble: Ensemble, address: str, listening: str, ports: Sequence[int], more: Mapping[str, object]
) -> dict[str, object]:
    """A broker that moves nothing by itself; ``ports``: of its own protocol and of the web; ``more``: what a run wants.

    Who owns what is in ZooKeeper (the table view of the metadata store), as ePulsar has it, and can be watched there.
    """
    extensions = "org.apache.pulsar.broker.loadbalance.extensions"
    service_port, web_port = ports
    threads = {
        name: 2
        for name in (
            "numIOThreads", "numOrderedExecutorThreads", "numExecutorThreadPoolSize", "numCacheExecutorThreadPoolSize",
            "managedLedgerNumWorkerThreads", "managedLedgerNumSchedulerThreads", "bookkeeperClientNumWorkerThreads",
            "bookkeeperClientNumIoThreads", "bookkeeperNumberOfChannelsPerBookie",
        )
    }  # fmt: skip
    return {
        "clusterName": CLUSTER,
        "metadataStoreUrl": f"zk:{ensemble.zookeeper}",
        "configurationMetadataStoreUrl": f"zk:{ensemble.zookeeper}",
        "metadataStoreSessionTimeoutMillis": SESSION_MS,
        "brokerServicePort": service_port,
        "webServicePort": web_port,
        "bindAddress": listening,
        "advertisedAddress": address,
        "loadManagerClassName": f"{extensions}.ExtensibleLoadManagerImpl",
        "loadManagerServiceUnitStateTableViewClassName": (
            f"{extensions}.channel.ServiceUnitStateMetadataStoreTableViewImpl"
        ),
        "loadBalancerLoadSheddingStrategy": f"{extensions}.scheduler.TransferShedder",
        "loadBalancerSheddingEnabled": False,
        # Ours: each report of load is sent (10 % of change otherwise, or 15 min).  None is kept, and who has missed
        # the last one finds no broker for a topic that nobody has.
        "loadBalancerReportUpdateThresholdPercentage": 0,
        "loadBalancerAutoBundleSplitEnabled": False,
        "namespaceBundleUnloadingTimeoutMs": UNLOAD_TIMEOUT_MS,
        "systemTopicEnabled": False,
        "topicLevelPoliciesEnabled": False,
        "transactionCoordinatorEnabled": False,
        "functionsWorkerEnabled": False,
        "brokerDeleteInactiveTopicsEnabled": False,
        "defaultNumberOfNamespaceBundles": 1,
        "managedLedgerDefaultEnsembleSize": ensemble.replicas,
        "managedLedgerDefaultWriteQuorum": ensemble.replicas,
        "managedLedgerDefaultAckQuorum": ensemble.replicas,
        "bookkeeperClientMinNumRacksPerWriteQuorum": 1,
        "managedLedgerCacheSizeMB": 16,
        "numHttpServerThreads": 8,
        **threads,
        "statsUpdateFrequencyInSecs": 5,
        "statsUpdateInitialDelayInSecs": 5,
        "brokerShutdownTimeoutMs": 3_000,
        "exposeTopicLevelMetricsInPrometheus": True,
        **more,
    }


def group_settings(interval_s: int) -> dict[str, object]:
    """Of brokers that share quotas of resource groups (PIP-82), off as Pulsar comes: each tells the others what it
    took, on a topic of theirs, and computes its part anew, every ``interval_s`` (60 as it comes).
    """
    return {
        "resourceUsageTransportClassName": (
            "org.apache.pulsar.broker.resourcegroup.ResourceUsageTopicTransportManager"
        ),
        "resourceUsageTransportPublishIntervalInSecs": interval_s,
    }


def session_settings(session_ms: int) -> dict[str, object]:
    """Of brokers whose sessions last so long without them, at most ``MOST_SESSION_MS``."""
    return {"metadataStoreSessionTimeoutMillis": session_ms}


def shedding_settings() -> dict[str, object]:
    """Of brokers that move topics by themselves (TransferShedder), off with us.

    Ours, so that a run of minutes sees it: it acts on what it sees once (3 times as it comes, a minute apart), on half
    the difference, and on the network alone, of 2 Mbit/s: brokers on one machine share its processors.
    """
    return {
        "loadBalancerSheddingEnabled": True,
        "loadBalancerSheddingIntervalMinutes": 1,
        "loadBalancerSheddingGracePeriodMinutes": 1,
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalancerBrokerLoadTargetStd": 0.125,
        "loadBalancerCPUResourceWeight": 0,
        "loadBalancerOverrideBrokerNicSpeedGbps": 0.002,
    }
