"""The simulated world against the pipelines, without a broker: what is true must come out."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from ottla.homecare import topics, verdict
from ottla.homecare.pipelines import NAMES
from ottla.homecare.world import Plan, World
from ottla.wire import columns
from tests.unit.homecare.operating import Operating

START = 1_794_800_000_000


class Pipelines:
    """All three, with state that can be thrown away and restored from the changelogs."""

    def __init__(self, plan: Plan) -> None:
        self.stages = {name: Operating(name, plan.rules) for name in NAMES}
        self.results: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in NAMES}

    def restart(self) -> None:
        for stage in self.stages.values():
            stage.restart()

    def step(self, sent: list[tuple[str, pa.RecordBatch]], time_ms: int) -> None:
        for name, stage in self.stages.items():
            inputs = stage.stage.inputs
            rows = [_as_read(topic, rows) for topic, rows in sent if topic in inputs]
            stage.step_rows(time_ms - stage.rules.lateness_ms, rows)
            for _, written in stage.emitted:
                self.results[name] += zip(
                    written.column("key").to_pylist(), written.column("value").to_pylist(), strict=True
                )


def _as_read(topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """As it comes from the topic."""
    count = rows.num_rows
    times = rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            rows.column("key").cast(pa.binary()),
            rows.column("value").cast(pa.binary()),
            pa.array([topic] * count, pa.string()),
            pa.array([0] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
            times,
            pa.array([0] * count, pa.int32()),
        ],
        schema=columns.SCHEMA,
    )


def _live(plan: Plan, seed: int) -> tuple[World, Pipelines]:
    world, pipelines, random_ = World(plan, START), Pipelines(plan), random.Random(seed)
    pipelines.step([(topics.ROSTER, world.roster())], 0)
    end, waiting = START + int(plan.seconds * 1000), []
    while world.now_ms < end:
        waiting += world.advance(min(end, world.now_ms + random_.randint(50, 3_000)))
        if random_.random() < 0.5:
            pipelines.step(waiting, world.now_ms)
            waiting = []
        if random_.random() < 0.1:
            pipelines.restart()
    pipelines.step([*waiting, *world.end()], world.now_ms)
    pipelines.step([], end + 60_000)
    return world, pipelines


def _judged(world: World, pipelines: Pipelines) -> verdict.Verdict:
    results = pipelines.results
    return verdict.judge(
        world.truth.expected(all_silent=True),
        [value for _, value in results["technician"]],
        [value for _, value in results["nurse"]],
        [(key.decode(), value) for key, value in results["billing"]],
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_true_comes_out_whatever_the_batches_and_restarts(seed: int) -> None:
    plan = Plan(devices=150, seconds=60, seed=seed, silent_share=0.2, sick_share=0.1)
    world, pipelines = _live(plan, seed)
    judged = _judged(world, pipelines)
    assert judged.is_right, "\n".join(judged.lines())
    levels = {json.loads(value)["level"] for _, value in pipelines.results["nurse"]}
    assert levels == {"warning", "critical", "clear"}
    assert len(pipelines.results["technician"]) > plan.devices + 20
    assert world.late > 50 and world.repeated > 50


def test_a_result_that_is_missing_double_or_invented_is_found() -> None:
    world, pipelines = _live(Plan(devices=50, seconds=40, sick_share=0.3), 1)
    assert _judged(world, pipelines).is_right
    events, totals = pipelines.results["technician"], pipelines.results["billing"]
    lost = events.pop()
    assert not _judged(world, pipelines).is_right
    events += [lost, lost]
    assert [len(f.double) for f in _judged(world, pipelines).findings][:1] == [1]
    events[-1] = b"device-9", b'{"at": 1, "device": "device-9", "state": "offline"}'
    assert [len(f.unexpected) for f in _judged(world, pipelines).findings][:1] == [1]
    events.pop()
    key, value = totals[-1]
    totals[-1] = key, json.dumps({**json.loads(value), "cents": 1}).encode()
    assert not _judged(world, pipelines).is_right


def test_a_total_that_is_written_twice_is_found() -> None:
    world, pipelines = _live(Plan(devices=20, seconds=30), 1)
    pipelines.results["billing"].append(pipelines.results["billing"][-1])
    assert [f.name for f in _judged(world, pipelines).findings if not f.is_right] == ["billing totals"]


def test_a_seed_gives_the_same_world() -> None:
    plan = Plan(devices=30, seconds=5)
    one, two = (list(World(plan, START).advance(START + 5_000)) for _ in range(2))
    assert [(topic, rows.to_pylist()) for topic, rows in one] == [
        (topic, rows.to_pylist()) for topic, rows in two
    ]


def test_late_messages_are_within_the_lateness() -> None:
    plan = Plan(devices=200, seconds=10, late_share=0.2, repeated_share=0.2)
    world = World(plan, START)
    for now in range(START + 500, START + 10_000, 500):
        for _, rows in world.advance(now):
            oldest = min(rows.column("timestamp").to_pylist())
            assert now - oldest <= plan.rules.lateness_ms
