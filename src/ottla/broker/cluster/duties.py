"""What the controller does by itself: preferred leaders get their partitions back, expired tokens are removed."""

import logging

from ottla.config.settings import Config
from ottla.errors import ProtocolError
from ottla.metadata.controller import Controller
from ottla.ports import Clock, TimerHandle

logger = logging.getLogger("ottla.broker")

LEADERS_AT_ONCE = 1000
TOKENS_AT_ONCE = 1000


class Duties:
    """Every broker has them; only the controller does them."""

    def __init__(self, controller: Controller, clock: Clock, config: Config) -> None:
        self._controller, self._clock = controller, clock
        self._interval_ms = config.leader_imbalance_check_interval_seconds * 1000
        self._has_tokens = bool(config.delegation_token_secret_key)
        self._tokens_interval_ms = config.delegation_token_expiry_check_interval_ms
        self._timer: TimerHandle | None = None
        self._token_timer: TimerHandle | None = None

    def start(self) -> None:
        self._await_imbalance()
        if self._has_tokens:
            self._await_expiry()

    def close(self) -> None:
        for timer in (self._timer, self._token_timer):
            if timer is not None:
                timer.cancel()

    def _await_imbalance(self) -> None:
        self._timer = self._clock.call_later(self._interval_ms, self._on_timer)

    def _await_expiry(self) -> None:
        self._token_timer = self._clock.call_later(self._tokens_interval_ms, self._on_token_timer)

    def _on_timer(self) -> None:
        if self._controller.is_active and self._controller.cluster_config().auto_leader_rebalance_enable:
            from ottla.metadata.partitions import rebalance_leaders  # not before minutes have passed

            self._controller.submit(
                lambda image, config: rebalance_leaders(image, at_most=LEADERS_AT_ONCE), self._on_rebalanced
            )
        self._await_imbalance()

    def _on_rebalanced(self, moved: int | ProtocolError) -> None:
        if isinstance(moved, int) and moved:
            logger.info("%d partitions are led by their preferred replicas again", moved)

    def _on_token_timer(self) -> None:
        if self._controller.is_active:
            from ottla.security.tokens import remove_expired

            now_ms = self._clock.now_ms()
            self._controller.submit(
                lambda image, config: remove_expired(image, now_ms, TOKENS_AT_ONCE), self._on_removed
            )
        self._await_expiry()

    def _on_removed(self, removed: int | ProtocolError) -> None:
        if isinstance(removed, int) and removed:
            logger.info("%d delegation tokens had expired, and were removed", removed)
