"""Classes of one's own, named in the settings: who may do what, and who may log in.

They are loaded at the start and never while running: a client that may change settings must not choose what code runs.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from ottla.errors import InvalidConfig
from ottla.security.acls import Operation, Question, ResourceType
from ottla.security.authorizer import Authorizer

logger = logging.getLogger("ottla.server")

THREADS_AT_ONCE = 8
WAITING_MAX = 256


def load(setting: str, name: str, *arguments: object) -> Any:
    """An object of the class `module.Class`. Raises InvalidConfig with the setting's name if there is none."""
    module, dot, kind = name.strip().rpartition(".")
    try:
        make = getattr(import_module(module), kind) if dot else None
    except (ImportError, AttributeError) as error:
        raise InvalidConfig(
            f"{setting}={name}: there is no such Python class ({error}); is its folder on PYTHONPATH?"
        ) from error
    if not callable(make):
        raise InvalidConfig(f"{setting}={name} is not of the form module.Class")
    try:
        return make(*arguments)
    except Exception as error:
        raise InvalidConfig(f"{setting}={name} cannot be made: {type(error).__name__}: {error}") from error


def method(plugin: object, name: str, setting: str) -> Callable[..., Any]:
    method = getattr(plugin, name, None)
    if not callable(method):
        raise InvalidConfig(f"{setting}: {type(plugin).__name__} has no method {name}")
    return method  # type: ignore[no-any-return]


class OwnAuthorizer:
    """A class of one's own decides. One that fails lets nobody do anything."""

    def __init__(self, name: str, settings: Mapping[str, str], standard: Authorizer) -> None:
        setting = "authorizer.class.name"
        plugin = load(setting, name, dict(settings), standard)
        self._allows = method(plugin, "allows", setting)
        self._allows_any = getattr(plugin, "allows_any", None)

    def allows(self, question: Question) -> bool:
        return _is_true(self._allows, question)

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Without such a method everybody may have a producer id; what is written with it is asked for by itself."""
        if self._allows_any is None:
            return True
        return _is_true(self._allows_any, principal, host, operation, resource_type)


def _is_true(method: Callable[..., Any], *arguments: object) -> bool:
    try:
        return method(*arguments) is True
    except Exception:
        logger.exception("the authorizer failed: %s is denied", arguments)
        return False


class Threads:
    """Runs what may block, a login that asks a directory for one; a few at a time. A client that leaves does not
    end its job, so waiting ones are bounded too."""

    def __init__(self, at_once: int = THREADS_AT_ONCE, waiting_max: int = WAITING_MAX) -> None:
        self._free, self._waiting_max = at_once, waiting_max
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def run(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """`done` gets what the job returned, or its exception, on the event loop."""
        if self._free:
            self._start(job, done)
        elif len(self._waiting) < self._waiting_max:
            self._waiting.append((job, done))
        else:
            done(RuntimeError("too many logins wait"))

    def _start(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._free -= 1
        loop = asyncio.get_running_loop()

        def work() -> None:
            try:
                result = job()
            except Exception as error:
                result = error
            with suppress(RuntimeError):  # the broker has stopped meanwhile
                loop.call_soon_threadsafe(self._finish, result, done)

        threading.Thread(target=work, name="ottla-login", daemon=True).start()

    def _finish(self, result: Any, done: Callable[[Any], None]) -> None:
        self._free += 1
        if self._waiting:
            self._start(*self._waiting.popleft())
        done(result)
