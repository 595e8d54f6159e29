"""Where the time of a request goes, split as Kafka splits it: queue, local, remote, response queue, send."""

from collections.abc import Callable

from ottla.exposition import Histogram

NEXT_TO_NOTHING_MS = 0.128  # the first bucket that is shown: not added one by one
PHASES = ("queue", "local", "remote", "response_queue", "send")


class ApiTimes:
    """Of all requests of one API. Only what took a while is added to the histograms of phases; `total` has all."""

    __slots__ = ("local", "queue", "remote", "response_queue", "send", "total")

    def __init__(self) -> None:
        self.total = Histogram()
        self.queue, self.local, self.remote = Histogram(), Histogram(), Histogram()
        self.response_queue, self.send = Histogram(), Histogram()


class Times:
    """Of one request. Marks are readings of the stopwatch.

    Local is until it first waits for others, remote from then on until it is answered: as Kafka's purgatory counts.
    """

    __slots__ = ("_api", "_arrived_ms", "_began_ms", "_done_ms", "_sending_ms", "_stopwatch_ms", "_waited_ms")

    def __init__(self, api: ApiTimes, stopwatch_ms: Callable[[], float], arrived_ms: float) -> None:
        self._api, self._stopwatch_ms = api, stopwatch_ms
        self._began_ms = began_ms = stopwatch_ms()
        self._arrived_ms = arrived_ms or began_ms
        self._waited_ms = self._done_ms = self._sending_ms = 0.0

    def on_waiting(self) -> None:
        if not self._waited_ms:
            self._waited_ms = self._stopwatch_ms()

    def on_done(self) -> None:
        self._done_ms = self._stopwatch_ms()

    def on_sending(self) -> None:
        self._sending_ms = self._stopwatch_ms()

    def on_sent(self) -> None:
        sent_ms, api = self._stopwatch_ms(), self._api
        arrived_ms, began_ms, done_ms, sending_ms = (
            self._arrived_ms,
            self._began_ms,
            self._done_ms,
            self._sending_ms,
        )
        waited_ms = self._waited_ms or done_ms
        api.total.add(int((sent_ms - arrived_ms) * 1000))
        _add(api.queue, began_ms - arrived_ms)
        _add(api.local, waited_ms - began_ms)
        _add(api.remote, done_ms - waited_ms)
        _add(api.response_queue, sending_ms - done_ms)
        _add(api.send, sent_ms - sending_ms)


def _add(histogram: Histogram, milliseconds: float) -> None:
    if milliseconds > NEXT_TO_NOTHING_MS:
        histogram.add(int(milliseconds * 1000))
    elif milliseconds > 0:
        histogram.sum_us += int(milliseconds * 1000)
