"""A topic in the browser, as it happens: counts by key and the last messages, without a page reload.

python live_dashboard.py orders            # then open http://127.0.0.1:8000
"""

import argparse
import json
import queue
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import ottla

PAGE = """<!doctype html><meta charset="utf-8"><title>live</title>
<style>body{font:16px system-ui;margin:2em} td{padding-right:1em}
#bars div{background:#0a7;color:#fff;margin:2px;padding:2px}</style>
<h1 id="total">0</h1><div id="bars"></div><table id="last"></table>
<script>
const text = (tag, words) => { const made = document.createElement(tag); made.textContent = words; return made }
new EventSource("/events").onmessage = ({data}) => {
  const {total, keys, last} = JSON.parse(data)
  document.querySelector("#total").textContent = total
  const most = Math.max(1, ...Object.values(keys))
  document.querySelector("#bars").replaceChildren(...Object.entries(keys).map(([key, count]) => {
    const bar = text("div", `${key} ${count}`); bar.style.width = `${100 * count / most}%`; return bar }))
  document.querySelector("#last").replaceChildren(...last.map(row => {
    const line = document.createElement("tr"); line.append(...row.map(cell => text("td", cell))); return line }))
}
</script>"""
VIEWERS_MAX = 100
KEYS_MAX, LAST_MAX, EVERY_S = 20, 10, 0.25


class Dashboard:
    """Reads the topic from now on; each browser gets the same picture, at most four times a second."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._counts: Counter[str] = Counter()
        self._last: list[list[str]] = []
        self._viewers: set[queue.Queue[str]] = set()
        self.ended, self.reading = threading.Event(), threading.Event()

    def read(self) -> None:
        with ottla.Consumer(bootstrap_servers=self._bootstrap) as consumer:
            places = [
                ottla.TopicPartition(self._topic, each) for each in consumer.partitions_for(self._topic)
            ]
            consumer.assign(places)
            consumer.seek_to_end(places)
            for place in places:
                consumer.position(place)  # the ends of now are known: what comes later is shown
            self.reading.set()
            told_at = 0.0
            while not self.ended.is_set():
                for record in consumer.poll(0.05):
                    key = (record.key or b"-").decode(errors="replace")[:40]
                    self._counts[key] += 1
                    value = (record.value or b"").decode(errors="replace")[:200]
                    self._last = [[key, value], *self._last][:LAST_MAX]
                if time.monotonic() - told_at >= EVERY_S:
                    told_at = time.monotonic()
                    self._tell(json.dumps(self.picture()))

    def picture(self) -> dict[str, Any]:
        keys = dict(self._counts.most_common(KEYS_MAX))
        return {"total": self._counts.total(), "keys": keys, "last": self._last}

    def _tell(self, text: str) -> None:
        for viewer in list(self._viewers):
            if viewer.empty():  # a slow browser misses pictures, and holds up nobody
                viewer.put(text)

    def serve(self, port: int) -> ThreadingHTTPServer:
        dashboard = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/":
                    self._head("text/html; charset=utf-8")
                    self.wfile.write(PAGE.encode())
                elif self.path == "/events" and len(dashboard._viewers) < VIEWERS_MAX:
                    self._head("text/event-stream")
                    self._stream()
                else:
                    self.send_error(404)

            def _head(self, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()

            def _stream(self) -> None:
                viewer: queue.Queue[str] = queue.Queue()
                dashboard._viewers.add(viewer)
                try:
                    while not dashboard.ended.is_set():
                        self.wfile.write(f"data: {viewer.get(timeout=5)}\n\n".encode())
                        self.wfile.flush()
                except (OSError, queue.Empty):
                    pass  # the browser is gone, or the reader has ended
                finally:
                    dashboard._viewers.discard(viewer)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def main() -> None:
    parser = argparse.ArgumentParser(description="a topic in the browser")
    parser.add_argument("topic")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    dashboard = Dashboard(arguments.bootstrap, arguments.topic)
    print(f"http://127.0.0.1:{dashboard.serve(arguments.port).server_port}", flush=True)
    dashboard.read()


if __name__ == "__main__":
    main()
