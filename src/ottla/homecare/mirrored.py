"""`--mirrored`: a broker for the devices, as in a hospital of their own, and a mirror of its topics at the centre."""

from pathlib import Path

from ottla.homecare import topics
from ottla.homecare.client import Client
from ottla.homecare.processes import Process
from ottla.homecare.servers import Servers

_INPUTS = (topics.HEARTBEAT, topics.VITALS, topics.BILLING, topics.ROSTER)
# A mirror that was killed holds records back until its successor has started and caught up. Pipelines must allow for
# it as for any other sender (`lateness_ms`): to them its pause looks like the silence of all devices.
MIRROR_AWAY_MS = 10_000


class Edge:
    """Topics keep their names at the centre: pipelines need not know that they read a copy."""

    def __init__(self, folder: Path, centre: Client) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._centre = folder, centre
        self._servers = Servers(1, folder)
        self.mirror: Process | None = None

    @property
    def bootstrap(self) -> str:
        return self._servers.bootstrap

    def start(self, partitions: int) -> None:
        self._servers.start()
        topics.create({"bootstrap.servers": self.bootstrap}, partitions)
        self._start_mirror()

    def restart_mirror(self) -> None:
        assert self.mirror is not None
        self.mirror.kill()
        self._start_mirror()

    def close(self) -> None:
        if self.mirror is not None:
            self.mirror.kill()
        self._servers.close()

    def _start_mirror(self) -> None:
        sides = ["--from", f"edge={self.bootstrap}", "--to", f"centre={self._centre['bootstrap.servers']}"]
        same_names = ["-X", "replication.policy.class=IdentityReplicationPolicy"]
        command = ["mirror", *sides, "--topics", ",".join(_INPUTS), "--local", *same_names]
        self.mirror = Process("mirror", command, self._folder / "mirror.log")
        self.mirror.start()
