"""What a step commits with its positions, and what is made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.pipelines.errors import PipelineError, StateLost
from ottla.pipelines.positions import METADATA_MAX, ChangelogEnd, Commit, Figures, read_commit
from ottla.pipelines.topology import TaskId

TASK, A, B = TaskId("count", 0), TopicPartition("a", 0), TopicPartition("b", 0)
ENDS = {"counts": ChangelogEnd(7, "id", "counts(n int64)")}

# As versions wrote it that did not say how they committed.
EARLIER = (
    '{"v":1,"task":"count_0","token":"746f6b656e313233","ends":{"counts":[7,"id","counts(n int64)"]},"time":99,'
    '"shown":[5,0,0,0,0,0,0,"",[],{}]}'
)


def commit(**figures: object) -> Commit:
    return Commit({A: 3, B: 4}, b"token123", ENDS, 99, Figures(records=5, **figures), str(TASK))  # type: ignore[arg-type]


def test_a_commit_is_read_as_it_was_written() -> None:
    written = commit(host="h", ages_ms=(1, 2), shown={"offline": 3})
    assert read_commit(TASK, [A, B], written.to_offsets()) == written


def test_a_commit_says_whether_it_was_exact_and_one_of_an_earlier_version_was_not() -> None:
    written = replace(commit(), is_exact=True)
    assert read_commit(TASK, [A, B], written.to_offsets()) == written
    earlier = {where: OffsetAndMetadata(at, EARLIER) for where, at in written.offsets.items()}
    assert read_commit(TASK, [A, B], earlier) == commit()


def test_figures_that_do_not_fit_are_left_out_and_nothing_else() -> None:
    written = commit(shown={f"figure-{number}": number for number in range(1_000)})
    assert len(written.to_metadata()) <= METADATA_MAX
    assert read_commit(TASK, [A, B], written.to_offsets()) == commit()


def test_a_position_that_is_missing_is_state_lost() -> None:
    with pytest.raises(StateLost, match="count_0 has no committed position for b-0"):
        read_commit(TASK, [A, B], {A: OffsetAndMetadata(3)})


def test_positions_of_different_steps_are_somebody_elses() -> None:
    offsets = {**commit().to_offsets(), B: OffsetAndMetadata(9, "")}
    with pytest.raises(PipelineError, match="of different steps"):
        read_commit(TASK, [A, B], offsets)


def test_positions_that_a_tool_has_set_begin_without_state() -> None:
    found = read_commit(TASK, [A], {A: OffsetAndMetadata(3)})
    assert (found.offsets, found.token, found.ends) == ({A: 3}, b"", {})


@pytest.mark.parametrize("text", ["what", "{}", '{"v": 9}'])
def test_metadata_of_others_is_refused(text: str) -> None:
    with pytest.raises(PipelineError):
        read_commit(TASK, [A], {A: OffsetAndMetadata(3, text)})
