"""Routes and answers, as Kafka Connect's: paths, codes, bodies, and what is said to bad input."""

import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.connect import plugins
from ottla.connect.errors import ConnectError
from ottla.connect.rest import loggers
from ottla.connect.rest.bodies import create_request, mapping, offset_changes, strings
from ottla.connect.rest.intake import WithoutLastSlash, json_body
from ottla.connect.rest.metrics import Metrics
from ottla.connect.store.statuses import VERSION
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.refusals import Refusal, bad_request, not_found
from ottla.connect.worker.validation import definition, plugin_settings
from ottla.errors import OttlaError

log = logging.getLogger(__name__)
COMMIT = "26b251a451ce941d"  # of the version whose answers these are
Handler = Callable[..., Any]


class Answered:
    """A code, and a body unless it is None."""

    def __init__(self, code: int, body: Any = None, location: str | None = None) -> None:
        self.code, self.body, self.location = code, body, location


class Page(Answered):
    """A text, as it is."""


def app(herder: Herder) -> Starlette:
    handlers = Handlers(herder)
    routes = [Route(path, _endpoint(handler), methods=[method]) for method, path, handler in handlers.table()]
    served = Starlette(
        routes=routes,
        middleware=[Middleware(WithoutLastSlash)],
        exception_handlers={HTTPException: _unknown, Refusal: _refused, Exception: _unexpected},
    )
    served.router.redirect_slashes = False  # few clients follow a redirect of a POST
    return served


def _endpoint(handler: Handler) -> Callable[[Request], Any]:
    """The body is read here; the rest may block, so it runs in a thread."""

    async def answer(request: Request) -> Response:
        data = await json_body(request)
        try:
            answered = await run_in_threadpool(handler, request, data)
        except Refusal as refusal:
            return _error(refusal.code, refusal.message)
        except (ConnectError, OttlaError) as error:
            return _error(500, str(error))
        except Exception as error:
            log.exception("%s %s", request.method, request.url.path)
            return _error(500, str(error))
        return _response(answered if isinstance(answered, Answered) else Answered(200, answered))

    return answer


def _response(answered: Answered) -> Response:
    headers = {"Location": answered.location} if answered.location else None
    if answered.body is None:
        return Response(status_code=answered.code, headers=headers)
    if isinstance(answered, Page):
        return Response(answered.body, answered.code, media_type="text/plain; version=0.0.4; charset=utf-8")
    body = json.dumps(answered.body, separators=(",", ":"), ensure_ascii=False).encode()
    return Response(body, answered.code, headers, media_type="application/json")


def _error(code: int, message: str) -> Response:
    return _response(Answered(code, {"error_code": code, "message": message}))


async def _unknown(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = {404: "Not Found", 405: "Method Not Allowed"}.get(error.status_code, error.detail)
    return _error(error.status_code, f"HTTP {error.status_code} {text}")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _error(error.code, error.message)


async def _unexpected(_: Request, error: Exception) -> Response:
    return _error(500, str(error))


class Handlers:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self._cluster_id: str | None = None
        self._metrics = Metrics(herder)

    def table(self) -> list[tuple[str, str, Handler]]:
        one = "/connectors/{name}"
        task = one + "/tasks/{task:int}"
        return [
            ("GET", "/", self.root), ("GET", "/health", self.health), ("GET", "/metrics", self.metrics),
            ("GET", "/connectors", self.connectors), ("POST", "/connectors", self.create),
            ("GET", one, self.info), ("DELETE", one, self.delete),
            ("GET", one + "/config", self.config), ("PUT", one + "/config", self.put),
            ("PATCH", one + "/config", self.patch), ("GET", one + "/status", self.status),
            ("PUT", one + "/pause", self.pause), ("PUT", one + "/resume", self.resume),
            ("PUT", one + "/stop", self.stop), ("POST", one + "/restart", self.restart),
            ("GET", one + "/tasks", self.tasks), ("GET", task + "/status", self.task_status),
            ("POST", task + "/restart", self.restart_task),
            ("GET", one + "/topics", self.topics), ("PUT", one + "/topics/reset", self.reset_topics),
            ("GET", one + "/offsets", self.offsets), ("PATCH", one + "/offsets", self.alter_offsets),
            ("DELETE", one + "/offsets", self.reset_offsets),
            ("GET", "/connector-plugins", self.plugins),
            ("GET", "/connector-plugins/{plugin}/config", self.plugin_config),
            ("PUT", "/connector-plugins/{plugin}/config/validate", self.validate),
            ("GET", "/admin/loggers", self.loggers), ("GET", "/admin/loggers/{logger}", self.logger),
            ("PUT", "/admin/loggers/{logger}", self.set_logger),
        ]  # fmt: skip

    # -- the worker ----------------------------------------------------------------------------------

    def root(self, request: Request, data: bytes) -> Any:
        if self._cluster_id is None:
            self._cluster_id = self._herder.cluster_id()
        return {"version": VERSION, "commit": COMMIT, "kafka_cluster_id": self._cluster_id}

    def metrics(self, request: Request, data: bytes) -> Any:
        return Page(200, self._metrics.page())

    def health(self, request: Request, data: bytes) -> Any:
        return {
            "status": "healthy",
            "message": "Worker has completed startup and is ready to handle requests.",
        }

    # -- connectors ----------------------------------------------------------------------------------

    def connectors(self, request: Request, data: bytes) -> Any:
        wanted = request.query_params.getlist("expand")
        names = self._herder.connectors()
        if not wanted:
            return names
        answers: dict[str, Any] = {}
        for name in sorted(names):
            parts: dict[str, Any] = {}
            for part in wanted:
                if part == "info":
                    parts["info"] = self._herder.info(name)
                elif part == "status":
                    parts["status"] = self._herder.status(name)
            answers[name] = parts
        return answers

    def create(self, request: Request, data: bytes) -> Any:
        wanted = create_request(data)
        created = self._herder.create(wanted.name, wanted.config, wanted.initial)
        return Answered(201, created, _location(request, wanted.name))

    def info(self, request: Request, data: bytes) -> Any:
        return self._herder.info(_name(request))

    def config(self, request: Request, data: bytes) -> Any:
        return self._herder.config(_name(request))

    def put(self, request: Request, data: bytes) -> Any:
        name = _name(request)
        config = strings(mapping(data, "java.util.LinkedHashMap<java.lang.String,java.lang.String>"))
        _same_name(name, config)
        is_new, described = self._herder.put(name, {**config, "name": name})
        return Answered(201, described, _location(request, name)) if is_new else described

    def patch(self, request: Request, data: bytes) -> Any:
        changes = strings(mapping(data, "java.util.LinkedHashMap<java.lang.String,java.lang.String>"))
        return self._herder.patch(_name(request), changes)

    def delete(self, request: Request, data: bytes) -> Any:
        self._herder.delete(_name(request))
        return Answered(204)

    def status(self, request: Request, data: bytes) -> Any:
        return self._herder.status(_name(request))

    def pause(self, request: Request, data: bytes) -> Any:
        self._herder.pause(_name(request))
        return Answered(202)

    def resume(self, request: Request, data: bytes) -> Any:
        self._herder.resume(_name(request))
        return Answered(202)

    def stop(self, request: Request, data: bytes) -> Any:
        self._herder.stop(_name(request))
        return Answered(204)

    def restart(self, request: Request, data: bytes) -> Any:
        asked = request.query_params
        include, only = (asked.get(name, "").lower() == "true" for name in ("includeTasks", "onlyFailed"))
        restarted = self._herder.restart(_name(request), include_tasks=include, only_failed=only)
        return Answered(202, restarted) if include or only else Answered(204)

    # -- tasks, topics, offsets ----------------------------------------------------------------------

    def tasks(self, request: Request, data: bytes) -> Any:
        return self._herder.tasks(_name(request))

    def task_status(self, request: Request, data: bytes) -> Any:
        return self._herder.task_status(_name(request), request.path_params["task"])

    def restart_task(self, request: Request, data: bytes) -> Any:
        self._herder.restart_task(_name(request), request.path_params["task"])
        return Answered(204)

    def topics(self, request: Request, data: bytes) -> Any:
        return self._herder.topics(_name(request))

    def reset_topics(self, request: Request, data: bytes) -> Any:
        self._herder.reset_topics(_name(request))
        return Answered(202)

    def offsets(self, request: Request, data: bytes) -> Any:
        return self._herder.offsets(_name(request))

    def alter_offsets(self, request: Request, data: bytes) -> Any:
        return {"message": self._herder.alter_offsets(_name(request), offset_changes(data))}

    def reset_offsets(self, request: Request, data: bytes) -> Any:
        return {"message": self._herder.reset_offsets(_name(request))}

    # -- plugins -------------------------------------------------------------------------------------

    def plugins(self, request: Request, data: bytes) -> Any:
        from ottla.connect.rest.plugin_list import others

        listed = [
            {"class": connector.names[0], "type": connector.kind, "version": VERSION}
            for connector in plugins.connectors()
        ]
        if request.query_params.get("connectorsOnly", "true").lower() == "false":
            listed += others()
        return sorted(listed, key=lambda plugin: (plugin["type"], plugin["class"]))

    def plugin_config(self, request: Request, data: bytes) -> Any:
        name = request.path_params["plugin"]
        settings = plugin_settings(name)
        if settings is None:
            raise not_found(f"Unknown plugin {name}.")
        return [_with_version(definition(setting)) for setting in settings]

    def validate(self, request: Request, data: bytes) -> Any:
        plugin = request.path_params["plugin"]
        config = strings(mapping(data, "java.util.LinkedHashMap<java.lang.String,java.lang.String>"))
        wanted = config.get("connector.class")
        if wanted and wanted != plugin and not _same_plugin(wanted, plugin):
            raise bad_request(f"Included connector type {wanted} does not match request type {plugin}")
        try:
            return self._herder.validate(config)
        except Refusal as refusal:  # Java wraps it
            package = "org.apache.kafka.connect.runtime.rest.errors."
            raise Refusal(500, f"{package}BadRequestException: {_plain(refusal)}") from refusal

    # -- loggers -------------------------------------------------------------------------------------

    def loggers(self, request: Request, data: bytes) -> Any:
        return loggers.all_levels()

    def logger(self, request: Request, data: bytes) -> Any:
        return loggers.level(request.path_params["logger"])

    def set_logger(self, request: Request, data: bytes) -> Any:
        body = mapping(data, "java.util.LinkedHashMap<java.lang.String,java.lang.String>")
        changed = loggers.set_level(request.path_params["logger"], body.get("level"))
        return Answered(204) if request.query_params.get("scope") == "cluster" else changed


def _plain(refusal: Refusal) -> str:
    return refusal.message.removeprefix("org.apache.kafka.connect.errors.ConnectException: ")


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _location(request: Request, name: str) -> str:
    return f"{request.url.scheme}://{request.url.netloc}/connectors/{quote(name, safe='')}"


def _same_name(name: str, config: dict[str, str | None]) -> None:
    if config.get("name") not in (None, name):
        raise bad_request(
            f"Connector name configuration ({config['name']}) doesn't match connector name in the URL ({name})"
        )


def _same_plugin(one: str, other: str) -> bool:
    try:
        return plugins.connector(one).names == plugins.connector(other).names
    except ConnectError:
        return False


def _with_version(described: dict[str, Any]) -> dict[str, Any]:
    return (
        {**described, "default_value": VERSION}
        if described["name"] == "connector.plugin.version"
        else described
    )
