"""Figures of links in Prometheus' text format, asked of both clusters whenever somebody looks."""

import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ottla.errors import OttlaError
from ottla.mirror.link import Link
from ottla.mirror.status import LinkStatus, status

_HELP = {
    "ottla_mirror_running": "1 while a driver is in charge of the link",
    "ottla_mirror_lag_records": "records of the source that are not copied",
    "ottla_mirror_lag_seconds": "of the source's time that is not copied",
    "ottla_mirror_records_total": "records copied",
    "ottla_mirror_bytes_total": "bytes copied, as the source has them",
    "ottla_mirror_skipped_total": "offsets that were gone before they were copied",
    "ottla_mirror_step_age_seconds": "since the last step",
}


def text(links: Sequence[Link]) -> str:
    """One line for each figure and partition. A link that cannot be asked is down."""
    samples: dict[str, list[str]] = {name: [] for name in _HELP}
    for link in links:
        label = f'link="{link.name}"'
        try:
            link_status = status(link, timeout_ms=5_000)
        except OttlaError:
            samples["ottla_mirror_running"].append(f"{{{label}}} 0")
            continue
        _add(samples, label, link_status)
    lines = []
    for name, values in samples.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [
            f"# HELP {name} {_HELP[name]}",
            f"# TYPE {name} {kind}",
            *(f"{name}{sample}" for sample in values),
        ]
    return "\n".join(lines) + "\n"


def _add(samples: dict[str, list[str]], label: str, link_status: LinkStatus) -> None:
    samples["ottla_mirror_running"].append(f"{{{label}}} {int(link_status.state != 'stopped')}")
    for partition in link_status.partitions:
        labels = f'{{{label},topic="{partition.source.topic}",partition="{partition.source.partition}"}}'
        figures = {
            "ottla_mirror_lag_records": partition.lag,
            "ottla_mirror_lag_seconds": partition.lag_s,
            "ottla_mirror_records_total": partition.position.records,
            "ottla_mirror_bytes_total": partition.position.bytes,
            "ottla_mirror_skipped_total": partition.position.skipped,
            "ottla_mirror_step_age_seconds": partition.silent_s,
        }
        for name, value in figures.items():
            if value is not None:
                samples[name].append(f"{labels} {value}")


def serve(links: Sequence[Link], port: int) -> int:
    """In a thread of its own, on the loopback address; the port (0: one that is free)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = text(links).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Scrapes are no news."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, name="mirror metrics", daemon=True).start()
    return int(server.server_address[1])
