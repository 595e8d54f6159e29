"""What a leader knows of one follower: how far it has come, and since when it has not kept up."""

from dataclasses import dataclass

UNKNOWN = -1


@dataclass(slots=True)
class Replica:
    """`caught_up_ms` is the last time at which it had all that the leader had."""

    end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    caught_up_ms: int = 0
    _fetched_ms: int = 0
    _leader_end: int = UNKNOWN  # what the leader had at the last fetch

    def is_at(self, offset: int, log_start_offset: int, broker_epoch: int) -> bool:
        return (
            self.end_offset == offset
            and self.log_start_offset == log_start_offset
            and self.broker_epoch == broker_epoch
        )

    def on_fetch(
        self, offset: int, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        """The follower asks for `offset`, so it has everything before."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self._leader_end != UNKNOWN and offset >= self._leader_end:
            # It has what there was at its last fetch; more was written since.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset, self.log_start_offset = offset, log_start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms, self._leader_end = now_ms, leader_end

    def on_same_fetch(self, now_ms: int) -> None:
        """It asks for what it asked for before, and that is still the end of the leader's log."""
        self.caught_up_ms = self._fetched_ms = now_ms

    def lags(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.end_offset < leader_end and now_ms - self.caught_up_ms > lag_ms_max
