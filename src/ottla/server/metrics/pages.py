"""The pages by their paths: `/metrics`, `/metrics/partitions`, `/health/live`, `/health/ready`."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from ottla.exposition import OPEN_METRICS, PROMETHEUS, Family, render, wants_open_metrics
from ottla.server.http import NotFound, Page
from ottla.server.metrics import main_page, partitions_page
from ottla.server.metrics.health import Health, liveness, readiness
from ottla.server.metrics.process import figures
from ottla.server.metrics.request_times import RequestTimes
from ottla.server.metrics.telemetry_page import telemetry_page

if TYPE_CHECKING:
    from ottla.server.node import Node


STARTING = Health(("starting: logs are opened, or the cluster is waited for",))


class Pages:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._request_times = RequestTimes()

    async def __call__(self, path: str, accept: str) -> Page:
        """Served from the first moment of a start: opening logs, and waiting for a cluster, may take long."""
        if not self._node.is_bound and path != "/health/live":
            return _health(STARTING, accept)
        match path:
            case "/metrics":
                outside = await self._outside()
                return _metrics(main_page.families(self._node, outside, self._request_times), accept)
            case "/metrics/partitions":
                return _metrics(partitions_page.families(self._node), accept)
            case "/telemetry":
                return Page("200 OK", "application/json", telemetry_page(self._node))
            case "/health/live":
                return _health(liveness(self._node) if self._node.is_bound else Health(), accept)
            case "/health" | "/health/ready":
                return _health(readiness(self._node), accept)
            case _:
                raise NotFound(
                    "/metrics, /metrics/partitions, /telemetry, /health/live and /health/ready are here"
                )

    async def _outside(self) -> main_page.Outside:
        """Files and disks are asked in a thread."""
        folders = [folder for folder in self._node.broker.replicas.folders if not folder.is_offline]

        def ask() -> main_page.Outside:
            free = {}
            for folder in folders:
                try:
                    free[folder.path] = folder.disk.free_bytes()
                except OSError:
                    continue  # it has failed since
            return main_page.Outside(figures(), free, _version())

        return await self._node.aside(ask)


@cache
def _version() -> str:
    from ottla import __version__

    return __version__


def _metrics(families: Iterable[Family | None], accept: str) -> Page:
    open_metrics = wants_open_metrics(accept)
    kind = OPEN_METRICS if open_metrics else PROMETHEUS
    return Page("200 OK", kind, render(families, open_metrics=open_metrics))


def _health(health: Health, accept: str) -> Page:
    status = "200 OK" if health.is_well else "503 Service Unavailable"
    if "application/json" in accept:
        text = json.dumps({"status": "ok" if health.is_well else "unavailable", "reasons": health.reasons})
        return Page(status, "application/json", _once(f"{text}\n"))
    return Page(status, "text/plain; charset=utf-8", _once("\n".join(health.reasons or ("ok",)) + "\n"))


def _once(text: str) -> Iterator[str]:
    yield text
