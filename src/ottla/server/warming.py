"""Imports what the first request of each kind would have to import, before there is one: on the event loop a first use
may take 60 ms, in which everybody else waits. A start does not wait for it."""

from ottla.broker.routes import ROUTES, Route
from ottla.ports import Clock, Jobs

AFTER_MS = 2000  # the first clients of a broker come first
PAUSE_MS = 20
# What clients of every kind ask for. Other handlers are imported when they are needed.
MODULES = frozenset(
    (
        "produce",
        "fetch",
        "offsets",
        "coordinators",
        "groups",
        "producers",
        "transactions",
        "topics",
        "describe",
    )
)


class Warming:
    """One kind of request at a time, in a thread: the event loop has its turn every few milliseconds."""

    def __init__(self, clock: Clock, jobs: Jobs) -> None:
        self._clock, self._jobs = clock, jobs
        self._left = [route for route in ROUTES.values() if route.module in MODULES]

    def start(self) -> None:
        self._clock.call_later(AFTER_MS, self._next)

    def _next(self) -> None:
        if self._left:
            route = self._left.pop()
            self._jobs.submit(lambda: _use(route), self._pause)

    def _pause(self, _: Exception | None) -> None:
        self._clock.call_later(PAUSE_MS, self._next)


def _use(route: Route) -> None:
    """Each of these properties imports its module when first read."""
    route.handler, route.request, route.api.response()
