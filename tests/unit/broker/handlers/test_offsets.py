import pytest

from ottla.wire import batch as batches
from ottla.wire import compression
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.records import Record
from tests.unit.broker.handlers.served import Served

MAX_TIMESTAMP = -3


class Threads:
    """Runs heavy work at once, and counts it."""

    def __init__(self):
        self.jobs = 0

    async def run(self, job):
        self.jobs += 1
        return job()


@pytest.mark.parametrize(("count", "jobs"), [(10, 0), (50_000, 1)])
@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_the_newest_of_very_many_records_is_looked_for_in_a_thread(count, jobs, codec):
    """When the newest one of a batch was deleted, its other records are walked some forty times."""
    served, threads = Served(), Threads()
    served.create("t")
    partition, now_ms = served.partition("t"), served.time.now_ms()
    records = [Record(at, at % 3 if at else now_ms, None, b"") for at in range(count)]
    partition.append(batches.build(records, codec=codec), acks=-1, now_ms=now_ms)
    partition.log.delete_records_before(1)
    wanted = ListOffsetsPartition(partition_index=0, timestamp=MAX_TIMESTAMP)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
    ((answered,),) = [topic.partitions for topic in served.answer(request, heavy_work=threads).topics]
    assert (answered.error_code, answered.timestamp, answered.offset) == (0, 2, 2)
    assert threads.jobs == jobs
