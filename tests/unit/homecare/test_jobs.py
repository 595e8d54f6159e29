"""Tasks and driver as `stream` uses them: what is packed in a task is what the driver unpacks."""

from __future__ import annotations

import pyarrow as pa

from ottla.homecare import tasks, topics
from ottla.homecare.jobs import JOBS, BillingJob, NurseJob, TechnicianJob
from ottla.homecare.rules import Rules
from ottla.homecare.world import Plan, World

START = 1_794_800_000_000


def _records(world: World, to_ms: int) -> list[pa.RecordBatch]:
    """As the source gives them: with topic, partition, offset, and times as Spark has them."""
    found, offset = [], 0
    for topic, rows in world.advance(to_ms):
        count = rows.num_rows
        times = rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
        columns = {
            "key": rows.column("key").cast(pa.binary()),
            "value": rows.column("value"),
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(offset, offset + count), pa.int64()),
            "timestamp": times,
        }
        offset += count
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


def _ticks() -> pa.Table:
    return pa.table({"name": pa.nulls(2, pa.string()), "rows": pa.nulls(2, pa.binary())})


def test_every_job_unpacks_what_its_tasks_packed() -> None:
    rules = Rules()
    world = World(Plan(devices=50, seconds=20), START)
    records = _records(world, START + 20_000)
    for make in JOBS.values():
        job = make(rules)
        packed = [tasks.packer(job.work())(records[:2]), tasks.packer(job.work())(records[2:])]
        table = pa.Table.from_batches([batch for each in packed for batch in each])
        found = tasks.unpack(pa.concat_tables([table, _ticks()]))
        positions = found.pop(tasks.POSITIONS).to_pylist()
        assert sum(row["rows"] for row in positions) == sum(rows.num_rows for rows in records)
        assert found.pop(tasks.AGES).num_rows
        writes = job.step(found, START + 60_000)
        assert [topic for topic, _ in writes] == [
            {"technician": topics.EVENT, "nurse": topics.ALERT, "billing": topics.TOTAL}[job.name]
        ]
        assert job.changes()
        assert job.figures()["written"] == writes[0][1].num_rows


def test_a_micro_batch_of_ticks_alone_is_time_and_nothing_else() -> None:
    for make in (TechnicianJob, NurseJob, BillingJob):
        job = make(Rules())
        assert tasks.unpack(_ticks()) == {}
        assert list(tasks.packer(job.work())([])) == []
        assert job.step({}, START)[0][1].num_rows == 0


def test_jobs_travel_to_tasks() -> None:
    import pickle

    for make in JOBS.values():
        work = make(Rules()).work()
        assert pickle.loads(pickle.dumps(work))({}) is not None
