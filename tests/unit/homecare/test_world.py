"""The simulated world against the pipelines, without a broker: what is true must come out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from ottla.homecare import billing, nurse, technician, topics, verdict
from ottla.homecare.world import Plan, World

START = 1_794_800_000_000


class Pipelines:
    """All three, with state that can be thrown away and loaded again."""

    def __init__(self, plan: Plan) -> None:
        self.rules = plan.rules
        self.saved: list[dict[str, bytes]] = [{}, {}, {}]
        self.events: list[technician.Event] = []
        self.alerts: list[nurse.Alert] = []
        self.totals: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        self.technician = technician.Technician(self.rules.timeout_ms)
        self.nurse, self.billing = nurse.Nurse(self.rules), billing.Billing()
        for view, saved in zip((self.technician, self.nurse, self.billing), self.saved, strict=True):
            view.load(dict(saved))
        if self.totals:
            self.billing.load_totals(pa.Table.from_pylist(self.totals))

    def step(self, sent: list[tuple[str, pa.RecordBatch]], time_ms: int) -> None:
        by_topic: dict[str, list[pa.RecordBatch]] = {}
        for topic, rows in sent:
            by_topic.setdefault(topic, []).append(rows)
        watermark = time_ms - self.rules.lateness_ms
        runs = technician.runs(by_topic.get(topics.HEARTBEAT, []), self.rules.timeout_ms)
        self.events += self.technician.step(runs, watermark)
        self.nurse.on_roster(nurse.duties(by_topic.get(topics.ROSTER, [])))
        windows = nurse.windows(by_topic.get(topics.VITALS, []), self.rules.window_ms)
        self.alerts += self.nurse.step(windows, watermark)
        self.totals += self.billing.step(billing.services(by_topic.get(topics.BILLING, []))).to_pylist()
        for view, saved in zip((self.technician, self.nurse, self.billing), self.saved, strict=True):
            saved.update(view.changes())


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


def _values(written: tuple[str, pa.RecordBatch]) -> list[bytes]:
    values: list[bytes] = written[1].column("value").cast(pa.binary()).to_pylist()
    return values


def _judged(world: World, pipelines: Pipelines) -> verdict.Verdict:
    totals = billing.records(pa.Table.from_pylist(pipelines.totals))
    return verdict.judge(
        world.truth.expected(all_silent=True),
        _values(technician.records(pipelines.events)),
        _values(nurse.records(pipelines.alerts)),
        list(zip(totals[1].column("key").to_pylist(), _values(totals), strict=True)),
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_true_comes_out_whatever_the_batches_and_restarts(seed: int) -> None:
    plan = Plan(devices=150, seconds=60, seed=seed, silent_share=0.2, sick_share=0.1)
    world, pipelines = _live(plan, seed)
    judged = _judged(world, pipelines)
    assert judged.is_right, "\n".join(judged.lines())
    assert {alert.level for alert in pipelines.alerts} == {"warning", "critical", "clear"}
    assert len(pipelines.events) > plan.devices + 20
    assert world.late > 50 and world.repeated > 50


def test_a_result_that_is_missing_double_or_invented_is_found() -> None:
    world, pipelines = _live(Plan(devices=50, seconds=40, sick_share=0.3), 1)
    assert _judged(world, pipelines).is_right
    lost = pipelines.events.pop()
    assert not _judged(world, pipelines).is_right
    pipelines.events += [lost, lost]
    assert [len(f.double) for f in _judged(world, pipelines).findings][:1] == [1]
    pipelines.events[-1] = technician.Event("device-9", "offline", 1)
    assert [len(f.unexpected) for f in _judged(world, pipelines).findings][:1] == [1]
    pipelines.events.pop()
    pipelines.totals[-1]["cents"] += 1
    assert not _judged(world, pipelines).is_right


def test_a_total_that_is_written_twice_is_found() -> None:
    world, pipelines = _live(Plan(devices=20, seconds=30), 1)
    pipelines.totals.append(pipelines.totals[-1])
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
