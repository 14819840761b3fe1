"""A cluster as its client sees it, without one: what pods run runs here, and all have the loopback's address."""

from dataclasses import dataclass, field


@dataclass
class FakeCluster:
    """Three of the verbs of a Kubernetes client.  ``log``: what it was asked for, in order."""

    pods: dict[str, str] = field(default_factory=dict)  # name -> address
    log: list[str] = field(default_factory=list)

    def create_pod(self, name: str) -> str:
        """Its address."""
        self.log.append(f"create {name}")
        self.pods[name] = "127.0.0.1"
        return self.pods[name]

    def exec_words(self, name: str) -> list[str]:
        """The words before a command that run it in a pod."""
        assert name in self.pods, f"no pod {name}"
        return ["env", f"POD={name}"]

    def delete_pod(self, name: str) -> None:
        """It is gone."""
        self.log.append(f"delete {name}")
        del self.pods[name]
