"""`GET /stores/...`: the stores of an application over HTTP, as JSON.

| path | answer |
|---|---|
| /stores | names and kinds |
| /stores/NAME?first=&last=&limit= | rows by key; of windows and sessions ?key=&from=&to= |
| /stores/NAME/KEY | the value, 404 without one |
"""

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ottla.errors import OttlaError
from ottla.streams.app import App
from ottla.streams.errors import BadTopology, BadValue
from ottla.streams.serdes import NumberSerde, Serde, StringSerde
from ottla.streams.views import KEYED, stored

LIMIT = 1_000


class StoreServer:
    """A context manager; `port` 0 lets the system choose one."""

    def __init__(
        self, app: App, host: str = "127.0.0.1", port: int = 0, bootstrap: str | None = None
    ) -> None:
        self._stores = Stores(app, bootstrap)
        self._server = ThreadingHTTPServer((host, port), _handler(self._stores))
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def __enter__(self) -> "StoreServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self) -> None:
        """Until it is interrupted."""
        self._server.serve_forever()


class Stores:
    """Opened when they are asked for the first time."""

    def __init__(self, app: App, bootstrap: str | None = None) -> None:
        self._app, self._bootstrap = app, bootstrap
        self._graph = app._builder.graph
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()

    def names(self) -> list[dict[str, str]]:
        store_names = [spec.name for placed in self._graph.nodes for spec in placed.stores]
        return [{"name": name, "kind": stored(self._graph, name).kind} for name in store_names]

    def get(self, name: str) -> Any:
        with self._lock:
            if name not in self._open:
                self._open[name] = self._app.store(name, self._bootstrap)
            return self._open[name]

    def answer(self, path: str, query: dict[str, str]) -> Any:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts == ["stores"]:
            return self.names()
        if len(parts) not in (2, 3) or parts[0] != "stores":
            raise LookupError(f"there is no {path}; see /stores")
        if parts[1] not in [listed["name"] for listed in self.names()]:
            raise LookupError(f"there is no store {parts[1]}; see /stores")
        store = self.get(parts[1])
        if len(parts) == 3 and store.stored.kind == KEYED:
            return {"key": parts[2], "value": store[parsed(store.stored.key, parts[2])]}
        if len(parts) == 3:
            query = {**query, "key": parts[2]}
        return rows(store, query)


def rows(store: Any, query: dict[str, str]) -> list[dict[str, Any]]:
    """Of a store, as the query's names say."""
    limit = int(query.get("limit", LIMIT))
    serde = store.stored.key
    if store.stored.kind == KEYED:
        bounds = [parsed(serde, query[name]) if name in query else None for name in ("first", "last")]
        return [{"key": key, "value": value} for key, value in store.range(*bounds)[:limit]]
    key = parsed(serde, query["key"]) if "key" in query else None
    times = [int(query[name]) if name in query else None for name in ("from", "to")]
    matches = [row._asdict() for row in store.rows(key, *times)[:limit]]
    return [{name: cell for name, cell in row.items() if cell is not None} for row in matches]


def parsed(serde: Serde, text: str) -> Any:
    """A key as it is written on a command line or in an address."""
    if isinstance(serde, StringSerde):
        return text
    if isinstance(serde, NumberSerde):
        try:
            return float(text) if "float" in serde.name else int(text)
        except ValueError:
            raise BadValue(f"keys of this store are {serde.name}; {text!r} is none") from None
    try:
        return json.loads(text)
    except ValueError:
        return text.encode() if serde.name == "bytes" else text


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _handler(stores: Stores) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
            try:
                self._reply(HTTPStatus.OK, stores.answer(address.path, query))
            except LookupError as error:
                self._reply(HTTPStatus.NOT_FOUND, {"error": str(error.args[0])})
            except (BadValue, BadTopology, ValueError) as error:
                self._reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            except OttlaError as error:
                self._reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})

        def _reply(self, status: HTTPStatus, content: Any) -> None:
            body = to_json(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: a query is not news."""

    return Handler
