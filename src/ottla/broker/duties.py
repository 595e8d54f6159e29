"""What the controller does by itself: preferred leaders get their partitions back."""

import logging

from ottla.config.settings import Config
from ottla.errors import ProtocolError
from ottla.metadata.controller import Controller
from ottla.ports import Clock, TimerHandle

log = logging.getLogger("ottla.broker")

LEADERS_AT_ONCE = 1000


class Duties:
    """Every broker has them; only the controller does them."""

    def __init__(self, controller: Controller, clock: Clock, config: Config) -> None:
        self._controller, self._clock = controller, clock
        self._interval_ms = config.leader_imbalance_check_interval_seconds * 1000
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(self._interval_ms, self._on_timer)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        if self._controller.is_active and self._controller.cluster_config().auto_leader_rebalance_enable:
            from ottla.metadata.partitions import rebalance_leaders  # not before minutes have passed

            self._controller.submit(
                lambda image, config: rebalance_leaders(image, at_most=LEADERS_AT_ONCE), self._on_rebalanced
            )
        self.start()

    def _on_rebalanced(self, moved: int | ProtocolError) -> None:
        if isinstance(moved, int) and moved:
            log.info("%d partitions are led by their preferred replicas again", moved)
