import threading
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.blocking.deliveries import Delivery
from ottla.client.core.accumulator import Accumulator, Queue
from ottla.client.core.deliveries import ROW_OVERHEAD_BYTES_MAX, Batch, Row
from ottla.client.values import TopicPartition
from ottla.errors import CorruptMessage
from ottla.wire.records import read

P = TopicPartition("t", 0)


def row(size: int = 10) -> Row:
    return Row(1, None, b"x" * size)


def an_accumulator(**settings: Any) -> Accumulator[Delivery]:
    return Accumulator(
        receipt=Delivery,
        now=time.monotonic,
        date=time.time,
        monitor=threading.Condition,
        **settings,
    )


def append(accumulator: Accumulator[Delivery], record: Row, now_ms: int = 0, wait_ms: int = 0):
    """As the producer does it: through the lane, else into a new batch."""
    accumulator._now = lambda: now_ms / 1000
    queue = accumulator.queue_of(P)
    lane = accumulator.lane([queue], 1 << 60, hashes=True)
    sent = lane.send(record.value, record.key, 0, record.headers, record.timestamp)
    size = len(record.value or b"") + ROW_OVERHEAD_BYTES_MAX
    return sent if sent is not None else accumulator.open(queue, record, size, wait_ms)


def a_batch(sequence: int) -> Batch:
    batch = Batch(P, 0)
    batch.add(row())
    batch.sequence = sequence
    return batch


def test_a_batch_waits_for_linger_unless_it_is_full_or_flushed() -> None:
    accumulator = an_accumulator(batch_size=200, linger_ms=5, memory_max=10_000)
    append(accumulator, row())
    assert accumulator.close_due(4) == 5
    assert not accumulator.queues[P].waiting
    assert accumulator.close_due(5) is None
    assert len(accumulator.queues[P].waiting) == 1
    append(accumulator, row(150), now_ms=6)
    append(accumulator, row(150), now_ms=6)  # the first is full now
    assert len(accumulator.queues[P].waiting) == 2
    accumulator.flush_begins()
    accumulator.close_due(6)
    assert len(accumulator.queues[P].waiting) == 3


def test_memory_is_bounded_and_given_back() -> None:
    accumulator = an_accumulator(batch_size=100, linger_ms=0, memory_max=300)
    assert append(accumulator, row(200)) is not None
    assert append(accumulator, row(200)) is None
    accumulator.close_due(0)
    batch = accumulator.queues[P].waiting.popleft()
    batch.succeed(0, None)
    accumulator.settled(batch)
    assert accumulator.memory == 0
    assert append(accumulator, row(200)) is not None


def test_the_memory_of_a_split_batch_is_given_back_to_the_last_byte() -> None:
    accumulator = an_accumulator(batch_size=10_000, linger_ms=0, memory_max=10_000)
    for size in (1, 100, 1000):
        append(accumulator, row(size))
    accumulator.close_due(0)
    queue = accumulator.queues[P]
    accumulator.split(queue, queue.waiting.popleft())
    for half in queue.waiting:
        half.succeed(0, None)
        accumulator.settled(half)
    assert accumulator.memory == accumulator.unsettled == 0


def test_nothing_gets_into_a_batch_that_the_sender_has() -> None:
    accumulator = an_accumulator(batch_size=1000, linger_ms=0, memory_max=10_000)
    append(accumulator, row())
    accumulator.close_due(0)
    append(accumulator, row())
    queue = accumulator.queues[P]
    assert [len(batch.rows) for batch in queue.waiting] == [1]
    assert queue.filling is not None and len(queue.filling.rows) == 1


def test_threads_that_share_a_producer_lose_and_double_nothing() -> None:
    accumulator = an_accumulator(batch_size=2000, linger_ms=0, memory_max=1 << 30)
    counts, stop = [0] * 4, threading.Event()

    def send(number: int) -> None:
        while not stop.is_set():
            append(accumulator, Row(1, None, b"%d %d" % (number, counts[number])))
            counts[number] += 1

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    queue = accumulator.queue_of(P)
    while sum(counts) < 5000:
        accumulator.close_due(0)  # as the sender does, all the while
    stop.set()
    for thread in threads:
        thread.join()
    accumulator.close_due(0)
    whole = [
        each.value for batch in queue.waiting for each in read(batch.encode(0, None, transactional=False))
    ]
    for number, count in enumerate(counts):
        mine = [value for value in whole if value is not None and value.startswith(b"%d " % number)]
        assert mine == [b"%d %d" % (number, at) for at in range(count)]
    assert accumulator.memory == sum(batch.rows.size for batch in queue.waiting)


def test_a_record_larger_than_the_whole_buffer_still_goes_alone() -> None:
    accumulator = an_accumulator(batch_size=100, linger_ms=0, memory_max=300)
    assert append(accumulator, row(1000)) is not None


@given(st.permutations(range(5)), st.integers(0, 5), st.sampled_from([0, 0x7FFFFFFD]))
def test_batches_put_back_in_any_order_go_out_in_the_order_of_their_sequences(
    order: list[int], fresh: int, base: int
) -> None:
    """Also where the sequences begin again at 0."""
    queue = Queue(P)
    queue.waiting.extend(a_batch(-1) for _ in range(fresh))
    for distance in order:
        queue.put_back(a_batch((base + distance) & 0x7FFFFFFF))
    expected = [(base + distance) & 0x7FFFFFFF for distance in range(5)]
    assert [batch.sequence for batch in queue.waiting] == [*expected, *[-1] * fresh]


@given(st.permutations(range(3)))
def test_batches_that_were_too_large_go_out_as_halves_in_the_order_of_their_sequences(
    order: list[int],
) -> None:
    accumulator = an_accumulator(batch_size=10_000, linger_ms=0, memory_max=100_000)
    queue = accumulator.queue_of(P)
    in_flight = []
    for number in range(3):
        batch = Batch(P, 0)
        for _ in range(10):
            batch.add(row())
        batch.sequence = 10 * number
        in_flight.append(batch)
    for number in order:
        accumulator.split(queue, in_flight[number])
    assert [half.sequence for half in queue.waiting] == [0, 5, 10, 15, 20, 25]
    assert queue.retrying


def test_until_a_leader_knows_the_producer_its_batches_go_one_by_one() -> None:
    queue = Queue(P)
    first = a_batch(0)
    queue.waiting.extend([first, a_batch(-1)])
    queue.sent(first, node=1)
    assert queue.next_batch(0, node=1, in_flight_max=5) is None
    queue.is_known = True
    assert queue.next_batch(0, node=1, in_flight_max=5) is not None


def test_while_something_comes_again_nothing_overtakes_it() -> None:
    queue = Queue(P)
    queue.is_known = True
    first, second = a_batch(0), a_batch(1)
    queue.waiting.extend([first, second, a_batch(-1)])
    queue.sent(first, node=1)
    queue.sent(second, node=1)
    queue.in_flight.remove(first)
    queue.put_back(first)
    assert queue.next_batch(0, node=1, in_flight_max=5) is None  # the second is still on the wire
    queue.in_flight.remove(second)
    queue.put_back(second)
    assert queue.next_batch(0, node=1, in_flight_max=5) is first
    queue.sent(first, node=1)
    assert queue.next_batch(0, node=1, in_flight_max=5) is None  # one at a time until all came again
    queue.in_flight.remove(first)
    queue.sent(second, node=1)
    assert queue.next_batch(0, node=1, in_flight_max=5) is not None


def test_a_new_leader_gets_nothing_while_the_old_one_still_has_some() -> None:
    queue = Queue(P)
    queue.is_known = True
    first = a_batch(0)
    queue.waiting.extend([first, a_batch(-1)])
    queue.sent(first, node=1)
    assert queue.next_batch(0, node=2, in_flight_max=5) is None
    assert queue.next_batch(0, node=1, in_flight_max=5) is not None


def test_a_split_batch_keeps_its_sequences_and_every_record_its_own_fate() -> None:
    whole = Batch(P, 0)
    deliveries = [Delivery(whole, whole.add(row())) for _ in range(5)]
    called: list[object] = []
    deliveries[4].add_done_callback(lambda metadata, error: called.append(error))
    whole.sequence, whole.producer = 7, (4, 1)
    first, second = whole.split()
    assert (first.sequence, second.sequence) == (7, 9)
    assert (
        first.producer == second.producer == (4, 1)
    )  # the sender gives a sequence to what has another producer
    first.succeed(100, None)
    assert not deliveries[0].done()
    error = CorruptMessage("no")
    second.fail(error)
    assert [d.result(60).offset for d in deliveries[:2]] == [100, 101]
    assert deliveries[2].exception(1) is error
    assert second.just_settled() == [second, whole]
    for settled in second.just_settled():
        settled.call_back()
    assert called == [error]


def test_a_flush_waits_for_a_split_batch_until_both_halves_are_settled() -> None:
    accumulator = an_accumulator(batch_size=10_000, linger_ms=0, memory_max=10_000)
    for _ in range(4):
        append(accumulator, row())
    (queue,) = accumulator.all_queues()
    ((_, whole),) = accumulator.waiting_batches()
    queue.waiting.clear()
    accumulator.split(queue, whole)
    first, second = queue.waiting
    for half in (first, second):
        assert not accumulator.wait_settled(0)
        half.succeed(0, None)
        accumulator.settled(half)
    assert accumulator.wait_settled(0)
    assert accumulator.memory == 0


def test_only_the_first_of_what_is_on_its_way_is_behind_nobody() -> None:
    """Else a first batch that the leader refuses as out of order would be sent again and again."""
    queue = Queue(P)
    first, second, third = a_batch(0x7FFFFFFF), a_batch(0), a_batch(1)
    queue.in_flight.extend([first, second])
    queue.waiting.extend([third, a_batch(-1)])
    queue.retrying = True
    assert [queue.is_behind_another(batch) for batch in (first, second, third)] == [False, True, True]
