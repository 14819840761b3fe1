"""The testbeds with real processes and sockets: they differ in how they make a site."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from collectors.writer import read_logs
from core.errors import SpecError
from testbed.api import SiteServers, Testbed, TestbedOptions
from testbed.findings import Finding
from testbed.hosts.kept import SiteAsked, SiteKeeper
from testbed.hosts.site import Site, explained
from testbed.topologies.topology import Topology

P = TypeVar("P", bound="Place")


@dataclass(frozen=True)
class Place:
    """See ``testbed.api.Testbed``.  ``maker``, ``prober``, ``checker``: "module:NAME", imported on use."""

    name: str
    maker: str  # the class of its sites
    prober: str
    privileges: str = "none"
    has_links: bool = True
    has_our_files: bool = True
    checker: str = ""  # of a run's options, which says what is wrong with them; empty: there are none
    files: Mapping[str, str] = field(default_factory=dict)  # options (last word) that name files -> how those end
    options: Mapping[str, object] = field(default_factory=dict)  # what the site is made with
    real_time: bool = True

    def probe(self) -> Sequence[Finding]:
        """What this machine has of what the testbed needs."""
        findings: Sequence[Finding] = resolve_name(self.prober)()
        return findings

    def with_options(self, options: TestbedOptions, topology: Topology) -> "Place":
        """See ``testbed.api.Testbed``."""
        if self.checker:
            resolve_name(self.checker)(options, topology)
        elif options:
            raise SpecError(f"testbed {self.name} has no options, got {', '.join(options)}", "leave them out")
        return replace(self, options=options)

    def input_files(self, options: TestbedOptions) -> tuple[str, ...]:
        """See ``testbed.api.Testbed``: an inventory, the archives of images."""
        named = {(key.rpartition(".")[2], str(value)) for key, value in options.items()}
        return tuple(sorted({path for key, path in named if key in self.files and path.endswith(self.files[key])}))

    def become(self, kind: type[P], **more: Any) -> P:
        """The same place as one of another kind, which has ``more``."""
        return kind(**{part.name: getattr(self, part.name) for part in fields(Place)}, **more)

    @contextmanager
    def site(self, topology: Topology, seed: int, servers: SiteServers | None = None) -> Iterator[Site]:
        """A site in a folder that goes with it, taken down at the end; an error takes its processes' logs along."""
        make = partial(resolve_name(self.maker), topology, seed=seed, owns_folder=True, **self.options)
        with TemporaryDirectory(prefix="ratebed-", ignore_cleanup_errors=True) as folder, make(Path(folder)) as site:
            try:
                with explained(site), nullcontext() if servers is None else servers.on(site) as site.servers:
                    yield site
            except Exception as error:
                error.folder, error.logs = site.folder, read_logs(site.folder / "logs")  # type: ignore[attr-defined]
                raise


@dataclass(frozen=True)
class KeptPlace(Place):
    """A testbed on which a site with servers outlasts a run."""

    keeper: SiteKeeper | None = None

    @contextmanager
    def site(self, topology: Topology, seed: int, servers: SiteServers | None = None) -> Iterator[Site]:
        """See ``testbed.api.Testbed``."""
        assert self.keeper is not None
        make = super().site
        if servers is None:
            self.keeper.close()  # who asks for none has the machine alone
            with make(topology, seed) as site:
                yield site
            return
        asked = SiteAsked(self, topology, seed, servers)
        with self.keeper.lent(asked, lambda: make(topology, seed, servers)) as site:
            yield site


def kept_by(keeper: SiteKeeper, testbed: Testbed) -> Testbed:
    """The testbed as it is, its sites with ``keeper``."""
    return testbed.become(KeptPlace, keeper=keeper) if isinstance(testbed, Place) else testbed


_LOCAL, _MININET, _DOCKER = (f"testbed.hosts.{name}" for name in ("local", "mininet.site", "docker.site"))
_INVENTORY = "testbed.hosts.ssh.inventory"
LOCAL = Place("local", f"{_LOCAL}:LocalSite", f"{_LOCAL}:probe", has_links=False)
MININET = Place("mininet", f"{_MININET}:MininetSite", f"{_MININET}:probe", "root", checker=f"{_MININET}:check_options")
_WISHES = "testbed.hosts.docker.wishes:read_wishes"
DOCKER = Place("docker", f"{_DOCKER}:DockerSite", f"{_DOCKER}:probe", "root", checker=_WISHES, files={"image": ".tar"})
SSH = Place(
    "ssh",
    "testbed.hosts.ssh.site:SshSite",
    f"{_INVENTORY}:probe",
    privileges="keys",
    has_links=False,
    has_our_files=False,
    checker=f"{_INVENTORY}:check_options",
    files={"inventory": ""},
)
