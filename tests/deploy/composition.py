"""Services of a compose file as containers on the host's network: names become 127.0.0.1, ports free ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla import ensemble
from tests.deploy.containers import BASE, Containers


class Composition:
    """`ports` maps "service:port" of the file to a port of this machine."""

    def __init__(
        self, containers: Containers, services: Mapping[str, Any], ports: Mapping[str, int], stem: str
    ) -> None:
        self._containers, self._services, self._ports, self._stem = containers, services, ports, stem

    def name(self, service: str) -> str:
        return f"{self._stem}-{service}"

    def start_zookeeper(self, service: str = "zookeeper") -> None:
        """The official image needs a registry. This one has the same server, with Java and jars of this machine."""
        java = Path(ensemble.java()).resolve().parent.parent
        jars = ensemble.jars()
        folder = str(Path(jars[0]).parent)
        settings = [
            "tickTime=500",
            "dataDir=/data",
            f"clientPort={self._ports[f'{service}:2181']}",
            "admin.enableServer=false",
            "maxClientCnxns=0",
            "minSessionTimeout=1000",
        ]
        script = " && ".join(
            [
                f"printf '%s\\n' {' '.join(settings)} > /data/zoo.cfg",
                f"exec /java/bin/java {' '.join(ensemble.JVM)} -cp {':'.join(jars)} {ensemble.MAIN} /data/zoo.cfg",
            ]
        )
        options = [
            "-v",
            f"{java}:/java:ro",
            "-v",
            f"{folder}:{folder}:ro",
            "--tmpfs",
            "/data",
            "--tmpfs",
            "/tmp",
        ]
        for extra in ("/etc/java-17-openjdk",):  # Debian's Java links there
            if Path(extra).exists():
                options += ["-v", f"{extra}:{extra}:ro"]
        self._containers.run(self.name(service), "sh", "-c", script, image=BASE, options=options)

    def start(self, service: str, more: Mapping[str, str] | None = None) -> None:
        """With the environment of the file; `more` is what the host's network makes necessary."""
        variables = {name: self._here(str(text)) for name, text in self.environment(service).items()}
        volume = f"{self.name(service)}:/var/lib/ottla"
        self._containers.run(
            self.name(service), environment={**variables, **(more or {})}, options=["-v", volume]
        )

    def start_command(self, service: str, image: str, replaced: Mapping[str, str]) -> None:
        """With the command and the entry point of the file; `replaced` are words that the host's network changes."""
        described = self._services[service]
        words = [*described.get("entrypoint", []), *described["command"]]
        arguments = [replaced.get(str(word), self._here(str(word))) for word in words]
        options = ["--tmpfs", "/tmp"]
        if "entrypoint" in described:
            options += ["--entrypoint", arguments.pop(0)]
        self._containers.run(self.name(service), *arguments, image=image, options=options)

    def environment(self, service: str) -> dict[str, Any]:
        return dict(self._services[service]["environment"])

    def _here(self, text: str) -> str:
        """Addresses of the file in terms of this machine."""
        for place, port in self._ports.items():
            host, _, old = place.partition(":")
            text = re.sub(rf"(?<![\w-]){re.escape(host)}:{old}(?!\d)", f"127.0.0.1:{port}", text)
        return text
