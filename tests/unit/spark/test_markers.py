"""What a replay may conclude from the markers, and where it must stop."""

import pytest

from ottla.client.exactly_once import Marker, group_of, is_marker, is_written
from ottla.spark.errors import CheckpointBehind, MarkerError, MarkerMissing, OtherQuery, TasksChanged
from ottla.spark.markers import TaskMarker, judge


def found(*next_batches, query="q", tasks=None):
    count = len(next_batches) if tasks is None else tasks
    return [
        TaskMarker(task, None if batch is None else Marker(batch, query, count))
        for task, batch in enumerate(next_batches)
    ]


@pytest.mark.parametrize(
    ("markers", "batch"),
    [((None, None), 0), ((0 + 1, None), 0), ((1, 1), 0), ((4, 4), 4), ((5, 4), 4), ((5, 5), 4)],
)
def test_new_and_replayed_micro_batches_are_accepted(markers, batch):
    judge(found(*markers), "q", batch)


def test_only_the_tasks_that_were_committed_are_skipped():
    first, second = found(5, 4)
    assert is_written(first.marker, "q", 4)
    assert not is_written(second.marker, "q", 4)
    assert not is_written(None, "q", 0)
    assert not is_written(Marker(9, "another", 2), "q", 4)


def test_a_marker_of_another_query_is_an_error_and_never_a_skip():
    with pytest.raises(OtherQuery, match="transactionalIdPrefix"):
        judge(found(5, 5, query="another"), "q", 4)


def test_an_expired_marker_is_an_error_that_says_what_to_do():
    with pytest.raises(MarkerMissing, match=r"offsets\.retention\.minutes.*assumeNotWritten=4"):
        judge(found(None, None), "q", 4)
    with pytest.raises(MarkerMissing):
        judge(found(None, 4), "q", 4)
    with pytest.raises(MarkerMissing):
        judge(found(None, 1), "q", 0)


@pytest.mark.parametrize("markers", [(4,), (4, 4, None), (4, 2, 3), (4, None)])
def test_a_new_micro_batch_may_have_any_number_of_tasks(markers):
    judge(found(*markers, tasks=2), "q", 4)


@pytest.mark.parametrize("markers", [(5,), (5, 5, None), (5, 4, 4)])
def test_a_micro_batch_that_is_committed_in_part_needs_the_number_of_tasks_that_it_had(markers):
    with pytest.raises(TasksChanged, match="minPartitions=2"):
        judge(found(*markers, tasks=2), "q", 4)


def test_no_task_can_be_ahead_of_the_first():
    with pytest.raises(CheckpointBehind, match="task 1"):
        judge(found(4, 5), "q", 4)


@pytest.mark.parametrize("next_batch", [3, 6])
def test_a_checkpoint_that_does_not_fit_is_an_error(next_batch):
    with pytest.raises(CheckpointBehind):
        judge(found(next_batch, next_batch), "q", 4)


def test_the_user_may_decide_for_one_micro_batch():
    judge(found(None, None), "q", 4, assume_not_written=4)
    with pytest.raises(MarkerMissing):
        judge(found(None, None), "q", 5, assume_not_written=4)


def test_a_marker_comes_back_from_its_metadata():
    marker = Marker(7, "q", 3)
    assert Marker.read(marker.metadata()) == marker
    with pytest.raises(MarkerError, match="not a marker of ours"):
        Marker.read("something else")


def test_a_marker_is_known_by_the_name_of_its_group():
    assert is_marker(group_of("spark-ottla-0e1f-3"))
    for group in ("orders", "spark-ottla-1a2b", "orders-1-marker", "spark-ottla-0e1f-3"):
        assert not is_marker(group)
