import pytest

from ottla.coordination.transactions import timers
from ottla.coordination.transactions.markers import Markers, request_for, results_in
from ottla.coordination.transactions.settings import Settings
from ottla.effects import NOTHING
from ottla.errors import CoordinatorNotAvailable, NotLeaderOrFollower, RequestTimedOut
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.unit.coordination.transactions.coordinator import Coordinator

MOVED, LATE = NotLeaderOrFollower.code, RequestTimedOut.code
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def holder(coordinator) -> tuple[int, int]:
    """Of a transaction that is committed on t-0, t-1 and t-2; the markers are in `sends`."""
    holder = coordinator.ready()
    coordinator.add("id", holder, [0, 1, 2])
    coordinator.end("id", holder, True)
    return holder


def test_partitions_that_failed_are_sent_again_and_only_those(coordinator, holder):
    coordinator.write_markers({T0: 0, T1: MOVED, T2: LATE})
    assert (coordinator.state(), coordinator.sends) == ("PrepareCommit", [])
    coordinator.advance(20)
    (markers,) = coordinator.sends
    assert markers.partitions == {T1, T2}
    coordinator.write_markers({T1: 0})  # nothing said about t-2 is not good news
    coordinator.advance(40)
    (markers,) = coordinator.write_markers()
    assert markers.partitions == {T2}
    assert coordinator.state() == "CompleteCommit"


def test_the_delay_between_tries_grows_up_to_its_bound(coordinator, holder):
    delays = []
    for _ in range(9):
        coordinator.write_markers(dict.fromkeys((T0, T1, T2), MOVED))
        before_ms = coordinator.now_ms
        while not coordinator.sends:
            coordinator.advance(10)
        delays.append(coordinator.now_ms - before_ms)
    assert delays == [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]


def test_a_transaction_being_completed_is_described_by_the_partitions_still_missing(coordinator, holder):
    coordinator.write_markers({T0: 0, T1: MOVED, T2: 0})
    (topic,) = coordinator.describe("id").topics
    assert (topic.topic, topic.partitions) == ("t", [1])


def test_a_second_report_about_the_same_sending_is_ignored(coordinator, holder):
    (first,) = coordinator.write_markers({T0: MOVED, T1: 0, T2: 0})
    late = coordinator.machine.on_markers_written(first, {T0: 0}, coordinator.now_ms)
    assert (late, coordinator.state()) == (NOTHING, "PrepareCommit")


def test_a_late_report_about_one_transaction_does_not_complete_the_next(coordinator, holder):
    """With version 1 both have the same id and epoch: only the ticket tells them apart."""
    (first,) = coordinator.write_markers()
    coordinator.add("id", holder, [0, 1, 2])
    coordinator.end("id", holder, False)
    (second,) = coordinator.sends
    assert (first.producer_id, first.producer_epoch) == (second.producer_id, second.producer_epoch)
    late = coordinator.machine.on_markers_written(first, dict.fromkeys((T0, T1, T2), 0), coordinator.now_ms)
    assert (late, coordinator.state()) == (NOTHING, "PrepareAbort")


def test_a_report_to_the_coordinator_before_a_restart_is_ignored(coordinator, holder):
    (before,) = coordinator.sends
    coordinator.restart()
    (after,) = coordinator.sends
    assert (before.coordinator_epoch, after.coordinator_epoch) == (0, 1)
    results = dict.fromkeys((T0, T1, T2), 0)
    assert coordinator.machine.on_markers_written(before, results, coordinator.now_ms) == NOTHING


def test_a_report_about_an_expired_id_is_ignored(coordinator, holder):
    (markers,) = coordinator.write_markers()
    coordinator.advance(604_800_000 + 3_600_000)
    assert not coordinator.machine.transactions
    assert coordinator.machine.on_markers_written(markers, {T0: 0}, coordinator.now_ms) == NOTHING


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_after_a_kill_the_decision_is_carried_out_by_the_next_coordinator(coordinator, commit, version):
    holder = coordinator.ready()
    coordinator.add("id", holder, [0, 1])
    _, *handed_out = coordinator.end_bumping("id", holder, commit, version)
    coordinator.write_markers({T0: 0})  # half of the markers are written, nobody remembers which
    coordinator.restart()
    (markers,) = coordinator.write_markers()
    assert (markers.partitions, markers.committed) == ({T0, T1}, commit)
    assert markers.producer_epoch == (handed_out[1] if version == 5 else holder[1])
    assert coordinator.state() == ("CompleteCommit" if commit else "CompleteAbort")


def test_a_kill_before_the_decision_leaves_the_transaction_open(coordinator):
    holder = coordinator.ready()
    coordinator.add("id", holder, [0])
    coordinator.restart()
    assert (coordinator.state(), coordinator.sends) == ("Ongoing", [])
    assert coordinator.end("id", holder, True) == 0


def test_a_completion_that_could_not_be_logged_is_tried_again(coordinator, holder):
    coordinator.log.broken = True
    coordinator.write_markers()
    coordinator.advance(25_000)
    coordinator.log.broken = False
    assert (coordinator.state(), coordinator.sends) == ("PrepareCommit", [])
    coordinator.advance(10_000)
    assert coordinator.state() == "CompleteCommit"


def test_a_time_out_that_could_not_be_logged_is_tried_again(coordinator):
    holder = coordinator.ready(timeout_ms=3000)
    coordinator.add("id", holder, [0])
    coordinator.log.broken = True
    coordinator.advance(25_000)
    coordinator.log.broken = False
    assert coordinator.state() == "Ongoing"
    coordinator.advance(10_000)
    assert coordinator.state() == "PrepareAbort"


def test_tombstones_that_could_not_be_logged_are_tried_again():
    coordinator = Coordinator(Settings(id_expiration_ms=10_000, expiry_interval_ms=1000))
    coordinator.ready()
    coordinator.log.broken = True
    coordinator.advance(20_000)
    coordinator.log.broken = False
    coordinator.advance(1000)
    assert not coordinator.machine.transactions


def test_a_decision_that_could_not_be_logged_has_not_happened(coordinator):
    holder = coordinator.ready()
    coordinator.add("id", holder, [0, 1])
    coordinator.log.broken = True
    with pytest.raises(CoordinatorNotAvailable):
        coordinator.end_bumping("id", holder, True)
    coordinator.log.broken = False
    assert (coordinator.state(), coordinator.sends) == ("Ongoing", [])
    assert coordinator.end_bumping("id", holder, False) == (0, 4, 1)
    (markers,) = coordinator.write_markers()
    assert not markers.committed
    assert coordinator.state() == "CompleteAbort"


def test_an_empty_abort_that_was_half_logged_is_completed_after_a_restart():
    """Apache Kafka logs its two records apart."""
    coordinator = Coordinator()
    holder = coordinator.ready()
    coordinator.end_bumping("id", holder, False)
    coordinator.log.drop_last_record()
    coordinator.restart()
    coordinator.advance(0)
    assert coordinator.state() == "CompleteAbort"


def test_a_timer_for_a_transaction_that_has_moved_on_does_nothing(coordinator, holder):
    assert coordinator.machine.on_timer(timers.timeout("id"), coordinator.now_ms) == NOTHING
    assert coordinator.machine.on_timer(timers.retry("id"), coordinator.now_ms) == NOTHING  # under way
    assert coordinator.machine.on_timer(timers.retry("gone"), coordinator.now_ms) == NOTHING


def test_unused_ids_expire_with_a_tombstone():
    coordinator = Coordinator(Settings(id_expiration_ms=10_000, expiry_interval_ms=1000, tombstones_max=2))
    for each in "abcde":
        coordinator.ready(each, timeout_ms=900_000)
    coordinator.add("e", (8, 0), [0])
    coordinator.advance(9_500)
    coordinator.ready("d")
    coordinator.advance(510)
    assert sorted(coordinator.machine.transactions) == ["d", "e"]  # in two batches
    assert [record.value for record in coordinator.log.records[-3:]] == [None, None, None]
    coordinator.restart()
    assert sorted(coordinator.machine.transactions) == ["d", "e"]
    assert coordinator.init("a") == (0, 9, 0)


def test_requests_for_a_leader_carry_its_partitions_of_several_decisions():
    one = Markers("a", 7, 3, 5, True, 2, frozenset({T0, T1, ("u", 0)}), 1)
    two = Markers("b", 8, 0, 5, False, 0, frozenset({T0}), 2)
    request = request_for([(one, [T1, ("u", 0)]), (two, [T0])])
    assert [
        (each.producer_id, each.producer_epoch, each.transaction_result, each.coordinator_epoch)
        for each in request.markers
    ] == [(7, 3, True, 5), (8, 0, False, 5)]
    assert [each.transaction_version for each in request.markers] == [2, 0]
    assert [(t.name, t.partition_indexes) for t in request.markers[0].topics] == [("t", [1]), ("u", [0])]


def test_results_are_found_by_producer_and_partition():
    response = WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=7,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name="t",
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=1, error_code=MOVED),
                            WritableTxnMarkerPartitionResult(partition_index=2, error_code=0),
                        ],
                    )
                ],
            )
        ]
    )
    assert results_in(response) == {7: {T1: MOVED, T2: 0}}
