"""What there is to do, from what the cluster shows. The wall clock never passes a record that is still to be read."""

from __future__ import annotations

import json

import pytest

from ottla.client.values import TopicPartition
from ottla.pipelines import Operator, Pipeline, Repartition, Stage
from ottla.pipelines.errors import BadTopology, StateLost
from ottla.pipelines.layout import Layout
from ottla.pipelines.planning import Moment, Planner, spread
from ottla.pipelines.positions import Commit
from ottla.pipelines.stepping import Work
from ottla.pipelines.topology import TaskId, upstream_first

IN, MIDDLE = TopicPartition("in", 0), TopicPartition("p-middle-repartition", 0)
UP, DOWN = TaskId("up", 0), TaskId("down", 0)
NOW = 1_000_000


def pipeline(**options: object) -> Pipeline:
    stages = (
        Stage("up", ("in",), Operator, outputs=("middle",), lateness_ms=500),
        Stage("down", ("middle",), Operator, outputs=("out",)),
    )
    return Pipeline("p", stages, repartitions=(Repartition("middle"),), **options)  # type: ignore[arg-type]


def plan(
    moment: Moment, frozen: Moment | None = None, **options: object
) -> dict[TaskId, tuple[dict[TopicPartition, int], int | None]]:
    planner = Planner(pipeline(**options), Layout({"up": 1, "down": 1}))
    return {work.task: (dict(work.ends), work.allowed_ms) for work in planner.plan(moment, frozen)}


def moment(
    up: tuple[int, int],
    down: tuple[int, int],
    stable: tuple[int, int],
    highs: tuple[int, int] | None = None,
    now_ms: int = NOW,
) -> Moment:
    """Position and time of both stages' task; last stable offset and high watermark of `in` and `middle`."""
    commits = {
        UP: Commit({IN: up[0]}, time_ms=up[1]),
        DOWN: Commit({MIDDLE: down[0]}, time_ms=down[1]),
    }
    stables = dict(zip((IN, MIDDLE), stable, strict=True))
    return Moment(now_ms, commits, stables, dict(zip((IN, MIDDLE), highs or stable, strict=True)))


def test_news_are_planned_to_the_last_stable_offset() -> None:
    assert plan(moment((3, NOW), (0, NOW), (10, 0), (12, 0))) == {UP: ({IN: 10}, None)}


def test_a_step_is_limited() -> None:
    assert plan(moment((3, NOW), (0, NOW), (10, 0)), records_max=5)[UP] == ({IN: 8}, None)


def test_a_plan_tells_which_inputs_it_cuts() -> None:
    planner = Planner(pipeline(records_max=5), Layout({"up": 1, "down": 1}))
    (work,) = planner.plan(moment((3, NOW), (0, NOW), (9, 0)))
    assert work.cut == {IN}
    (work,) = planner.plan(moment((4, NOW), (0, NOW), (9, 0)))
    assert work.cut == frozenset()


def test_a_plan_travels_as_plain_values() -> None:
    from ottla.pipelines.query import _packed, _unpacked

    work = Work(UP, {IN: 8, MIDDLE: 3}, 7, frozenset([IN]))
    assert _unpacked(json.loads(json.dumps(_packed(work)))) == work
    assert _unpacked(["up", 0, [["in", 0, 8]], None]) == Work(UP, {IN: 8})  # from an older checkpoint


def test_nothing_new_and_no_time_gone_by_is_nothing_to_do() -> None:
    assert plan(moment((10, NOW - 500), (0, NOW - 500), (10, 0))) == {}


def test_time_moves_to_the_wall_clock_minus_lateness_where_everything_is_read() -> None:
    assert plan(moment((10, NOW - 5_000), (0, NOW - 5_000), (10, 0))) == {UP: ({IN: 10}, NOW - 500)}


def test_behind_a_repartition_time_moves_only_as_far_as_every_upstream_task_has_committed() -> None:
    found = plan(moment((10, NOW - 3_000), (0, NOW - 9_000), (10, 0)))
    assert found[DOWN] == ({MIDDLE: 0}, NOW - 3_000)


def test_the_wall_clock_waits_for_records_that_cannot_be_read_yet() -> None:
    assert plan(moment((10, 0), (0, 0), (10, 0), (11, 0))) == {}
    assert plan(moment((10, NOW), (5, 0), (10, 5), (10, 6))) == {}


def test_planted_the_wall_clock_runs_ahead_of_an_upstream_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """`down` has read its topic to the end, but `up` is behind: without the rule its time would be now."""
    backlog = moment((0, NOW - 60_000), (0, NOW - 60_000), (1_000, 0))
    assert DOWN not in plan(backlog)
    monkeypatch.setattr(Planner, "_allowed", lambda self, stage, ends, moment, frozen: moment.now_ms)
    assert plan(backlog)[DOWN] == ({MIDDLE: 0}, NOW)


def test_frozen_ends_bound_external_inputs_and_the_time_but_not_internal_ones() -> None:
    frozen = Moment(NOW, {}, {IN: 10}, {IN: 10})
    later = moment((4, 0), (0, 0), (100, 7), now_ms=NOW + 60_000)
    found = plan(later, frozen)
    assert found[UP] == ({IN: 10}, NOW - 500)
    assert found[DOWN][0] == {MIDDLE: 7}
    done = moment((10, NOW - 500), (7, NOW - 500), (100, 7), now_ms=NOW + 60_000)
    assert plan(done, frozen) == {}


def test_a_topic_that_ends_before_the_position_was_cut() -> None:
    with pytest.raises(StateLost, match="in-0 ends at 3, but up_0 has read up to 9"):
        plan(moment((9, 0), (0, 0), (3, 0)))


def test_stages_come_behind_those_that_feed_them() -> None:
    chosen = pipeline()
    turned = Pipeline("p", chosen.stages[::-1], repartitions=chosen.repartitions)
    assert [stage.name for stage in upstream_first(turned)] == ["up", "down"]


@pytest.mark.parametrize(
    ("stages", "repartitions", "message"),
    [
        ([("a", ["x"], []), ("a", ["y"], [])], [], "stage a"),
        ([("a", ["x"], []), ("b", ["x"], [])], [], "input x"),
        ([("a", [], [])], [], "has no inputs"),
        ([("a", ["x"], [])], ["m"], "repartition topic m needs"),
        ([("a", ["m"], ["n"]), ("b", ["n"], ["m"])], ["m", "n"], "in a circle"),
    ],
)
def test_stages_that_do_not_fit_together_are_refused(
    stages: list[tuple[str, list[str], list[str]]], repartitions: list[str], message: str
) -> None:
    made = tuple(Stage(name, tuple(i), Operator, outputs=tuple(o)) for name, i, o in stages)
    with pytest.raises(BadTopology, match=message):
        Pipeline("p", made, repartitions=tuple(Repartition(name) for name in repartitions))


def test_work_is_spread_by_partition() -> None:
    works = [Work(TaskId(stage, partition), {}) for stage in ("a", "b") for partition in range(3)]
    assert [[str(work.task) for work in group] for group in spread(works, 2)] == [
        ["a_0", "a_2", "b_0", "b_2"],
        ["a_1", "b_1"],
    ]
    assert len(spread(works, 10)) == 3
