"""Heartbeats of stable classic groups are held for a moment, so that members hear of a rebalance at once.

A classic member learns that its group rebalances from the answer to a heartbeat, and it sends one every three
seconds: a group settles by the pace of its slowest heartbeat. Held, the answer is there when there is news.
It leaves at once when its connection sends anything, so nobody waits for anything behind it.
"""

from collections import defaultdict
from collections.abc import Callable

from ottla.broker.waits import Wait
from ottla.ports import Clock

NextRequest = Callable[[Callable[[], None]], None]


class Holds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, set[Wait[bool]]] = defaultdict(set)

    async def hold(
        self, group_id: str, delay_ms: int, when_next: NextRequest, release: Callable[[], None]
    ) -> bool:
        """True when the group began to rebalance meanwhile. `release` lets the connection's next request in."""
        wait: Wait[bool] = Wait()
        timer = self._clock.call_later(delay_ms, lambda: wait.set(False))
        held = self._held[group_id]
        held.add(wait)
        when_next(lambda: wait.set(False))
        # The next request may be here already: it must find somebody who waits, or its answer waits behind ours.
        self._clock.call_soon(release)
        try:
            return await wait
        finally:  # also when the connection is gone
            timer.cancel()
            held.discard(wait)
            if not held and self._held.get(group_id) is held:  # others may be held since the last rebalance
                del self._held[group_id]

    def on_rebalance(self, group_id: str) -> None:
        for wait in tuple(self._held.pop(group_id, ())):
            # Not from within the step that decides on the rebalance.
            self._clock.call_soon(lambda wait=wait: wait.set(True))  # type: ignore[misc]
