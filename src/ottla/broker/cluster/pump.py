"""Sends what the fetcher of one leader wants to ask."""

from ottla.broker.cluster.peers import Call, Lane, Peers
from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.ports import Clock, TimerHandle
from ottla.replication.fetcher import FETCH_VERSION, Fetcher, Limits
from ottla.replication.partition import Key, Partition, key_of
from ottla.wire.messages.fetch import FetchResponse

# News of a leader's partitions come together; and a fetch under way is not broken off for each of them.
GATHER_MS = 5


class Pump:
    """One request at a time."""

    def __init__(
        self, node_id: int, image: Image, clock: Clock, peers: Peers, fetcher: Fetcher, config: Config
    ) -> None:
        self._node_id, self._image, self._clock, self._peers = node_id, image, clock, peers
        self._fetcher = fetcher
        self._timeout_ms = config.replica_socket_timeout_ms
        self._pause_ms_max = config.replica_fetch_backoff_ms
        self._call: Call | None = None
        self._lacks_partitions = False  # the fetch under way was sent before some partitions came
        self._timer: TimerHandle | None = None
        self._pause_ms = 0
        self._closed = False

    def follow(self, partition: Partition) -> None:
        is_new = key_of(partition) not in self._fetcher
        self._fetcher.follow(partition)
        self._lacks_partitions |= is_new
        if self._call is None or is_new:
            self._again_in(GATHER_MS)

    def leave(self, key: Key) -> None:
        self._fetcher.leave(key)

    def close(self) -> None:
        self._closed = True
        self._stop_waiting()
        if self._call is not None:
            self._call.cancel()

    def _again_in(self, delay_ms: int) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._clock.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._call is not None:
            if not self._lacks_partitions:
                return  # a fetch has ended since, and the next one asks for them
            # The leader holds the fetch under way for data of others.
            self._call.cancel()
            self._call = None
            self._fetcher.on_failure()
        self._ask()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self) -> None:
        if self._closed or self._call is not None:
            return
        broker = self._image.brokers.get(self._node_id)
        now_ms = self._clock.monotonic_ms()
        request = self._fetcher.request(broker.epoch if broker is not None else -1, now_ms)
        if request is None:
            resumes_in_ms = self._fetcher.resumes_in_ms(now_ms)
            if resumes_in_ms is not None:
                self._again_in(resumes_in_ms)
            return
        pending = _Pending()
        self._call, self._lacks_partitions = pending, False
        call = self._peers.ask(
            self._fetcher.leader_id,
            Lane.FETCH,
            request,
            FETCH_VERSION,
            lambda answer: self._on_answer(pending, answer),
            timeout_ms=self._timeout_ms,
        )
        pending.call = call

    def _on_answer(self, pending: "_Pending", answer: FetchResponse | Exception) -> None:
        if self._call is not pending or self._closed:
            return
        self._call = None
        if isinstance(answer, Exception):
            self._fetcher.on_failure()
            self._pause_ms = min(max(self._pause_ms * 2, 20), self._pause_ms_max)
            self._again_in(self._pause_ms)
            return
        self._pause_ms = 0
        self._fetcher.on_response(answer, self._clock.monotonic_ms())
        self._ask()


class _Pending:
    """A call whose answer may come before `ask` returns."""

    def __init__(self) -> None:
        self.call: Call | None = None

    def cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()


def limits_of(config: Config) -> Limits:
    return Limits(
        wait_ms=config.replica_fetch_wait_max_ms,
        bytes_min=config.replica_fetch_min_bytes,
        bytes_max=config.replica_fetch_response_max_bytes,
        partition_bytes_max=config.replica_fetch_max_bytes,
        pause_ms_max=config.replica_fetch_backoff_ms,
    )
