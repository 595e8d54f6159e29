"""Errors of single records: tries again, passes over, and says why. Settings `errors.*`."""

import logging
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.connect.errors import DataError, RetriableError
from ottla.connect.settings import Config

log = logging.getLogger("ottla.connect.errors")
T = TypeVar("T")
_FIRST_DELAY_S = 0.3
PREFIX = "__connect.errors."
_JAVA = {
    "DataError": "org.apache.kafka.connect.errors.DataException",
    "RetriableError": "org.apache.kafka.connect.errors.RetriableException",
    "ConnectError": "org.apache.kafka.connect.errors.ConnectException",
    "ConfigError": "org.apache.kafka.common.config.ConfigException",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Where and why a record failed."""

    stage: str
    class_name: str
    error: Exception


class PassedOver(Exception):
    """A record that is not to be processed further."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class Handling:
    def __init__(self, config: Config, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._name = config.get("name")
        self._timeout_s: float = config["errors.retry.timeout"] / 1000
        self._delay_max_s: float = config["errors.retry.delay.max.ms"] / 1000
        self.tolerant = config["errors.tolerance"] == "all"
        self._logs, self._shows = config["errors.log.enable"], config["errors.log.include.messages"]
        self._sleep = sleep

    def attempt(self, stage: str, class_name: str, call: Callable[..., T], *arguments: Any) -> T:
        """The call's result. What may pass is tried again; then the record is passed over, or the task fails."""
        try:
            return self.retried(call, *arguments)
        except (DataError, RetriableError) as error:
            if not self.tolerant:
                raise DataError(f"Tolerance exceeded in error handler: {stage}: {error}") from error
            raise PassedOver(Failure(stage, class_name, error)) from error

    def retried(self, call: Callable[..., T], *arguments: Any) -> T:
        begun, tries = time.monotonic(), 0
        while True:
            try:
                return call(*arguments)
            except RetriableError:
                spent = time.monotonic() - begun
                if self._timeout_s >= 0 and spent >= self._timeout_s:
                    raise
                self._sleep(self._pause(tries))
                tries += 1

    def _pause(self, tries: int) -> float:
        """Twice as long each time; at the limit with some chance, so that not all come back at once."""
        delay = _FIRST_DELAY_S * 2 ** min(tries, 30)
        return delay if delay < self._delay_max_s else self._delay_max_s * random.uniform(0.5, 1)

    def report(self, failure: Failure, what: str) -> None:
        if self._logs:
            shown = f" Record: {what}" if self._shows else ""
            log.error(
                "Error encountered in connector %s. Executing stage '%s' with class '%s'.%s: %s",
                self._name, failure.stage, failure.class_name, shown, failure.error,
            )  # fmt: skip


def error_headers(
    failure: Failure, topic: str, partition: int, offset: int, connector: str, task: int
) -> list[tuple[str, bytes | None]]:
    """What Connect's dead letters tell in their headers."""
    error = failure.error
    context = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "connector.name": connector,
        "task.id": str(task),
        "stage": failure.stage,
        "class.name": failure.class_name,
        "exception.class.name": _JAVA.get(
            type(error).__name__, f"{type(error).__module__}.{type(error).__name__}"
        ),
        "exception.message": str(error),
        "exception.stacktrace": "".join(traceback.format_exception(error)),
    }
    return [(PREFIX + name, text.encode()) for name, text in context.items()]
