"""Requests of one connection: begun in order, answered in order."""

from ottla.broker.requests.pipeline import Pipeline


class Connection:
    """Takes frames into a pipeline and keeps what came out of it."""

    def __init__(self, in_flight_max=64):
        self.begun, self.written, self.ready_calls = [], [], 0
        self.pipeline = Pipeline(self._begin, self.written.append, self._on_ready, in_flight_max)

    def _begin(self, frame, slot):
        self.begun.append((frame, slot))

    def _on_ready(self):
        self.ready_calls += 1

    def send(self, *frames):
        for frame in frames:
            self.pipeline.on_frame(frame)


def test_a_request_holds_back_the_next_one_until_it_is_answered():
    connection = Connection()
    connection.send(b"1")
    assert not connection.pipeline.ready
    connection.begun[0][1].answer([b"a"])
    assert connection.pipeline.ready
    assert connection.ready_calls == 1


def test_a_request_that_has_appended_lets_the_next_one_start():
    connection = Connection()
    connection.send(b"1")
    connection.begun[0][1].release()
    assert connection.pipeline.ready
    assert connection.written == []


def test_answers_leave_in_the_order_of_their_requests():
    connection = Connection()
    connection.send(b"1", b"2", b"3")
    first, second, third = (slot for _, slot in connection.begun)
    third.answer([b"c"])
    first.answer([b"a"])
    assert connection.written == [[b"a"]]
    second.answer([b"b"])
    assert connection.written == [[b"a"], [b"b"], [b"c"]]


def test_a_request_without_an_answer_writes_nothing_and_blocks_nothing():
    connection = Connection()
    connection.send(b"1", b"2")
    connection.begun[1][1].answer([b"b"])
    connection.begun[0][1].answer([])
    assert connection.written == [[b"b"]]
    assert connection.pipeline.idle


def test_no_more_than_the_limit_are_in_flight():
    connection = Connection(in_flight_max=2)
    connection.send(b"1")
    connection.begun[0][1].release()
    connection.send(b"2")
    connection.begun[1][1].release()
    assert not connection.pipeline.ready
    connection.begun[0][1].answer([b"a"])
    assert connection.pipeline.ready
    assert connection.ready_calls >= 2


def test_a_closed_connection_cancels_what_is_parked_and_writes_nothing_more():
    class Parked:
        cancelled = False

        def cancel(self):
            self.cancelled = True

    connection = Connection()
    connection.send(b"1", b"2")
    parked = connection.begun[0][1].running = Parked()
    slot = connection.begun[1][1]
    connection.pipeline.close()
    slot.answer([b"late"])
    assert parked.cancelled
    assert connection.written == []
