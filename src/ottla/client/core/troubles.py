"""Why the client has to try again: told at once, while it goes on trying. Each reason once, not with every try."""

import logging
from collections.abc import Callable

from ottla.errors import NetworkException, OttlaError

log = logging.getLogger("ottla.client")
REASONS_MAX = 20  # remembered, so that a client that runs for years does not fill its memory


class Troubles:
    """`tell` is the user's `on_retry`; without one the reason is a warning of the logger `ottla.client`."""

    def __init__(self, tell: Callable[[OttlaError], object] | None) -> None:
        self._tell = tell
        self._reported: dict[str, None] = {}
        self.last: OttlaError | None = None
        self.closed = False  # what fails from now on fails because of the close

    def report(self, error: OttlaError, purpose: str, attempts: int = 1) -> None:
        """Unreachable brokers are told at once; an answer that often means "not yet" from the second on."""
        if self.closed:
            return
        self.last = error
        if attempts < 2 and not isinstance(error, NetworkException):
            return
        reason = str(error)
        if reason in self._reported:
            return
        if len(self._reported) >= REASONS_MAX:
            self._reported.pop(next(iter(self._reported)))
        self._reported[reason] = None
        if self._tell is not None:
            self._tell(error)
        else:
            log.warning("%s: %s; trying again", purpose, reason)

    def over(self) -> None:
        """A broker was reached: what goes wrong from here on is news."""
        self._reported.clear()
        self.last = None
