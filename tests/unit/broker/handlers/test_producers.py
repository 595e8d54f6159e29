from ottla.wire import batch as batches
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.records import Record
from tests.unit.broker.handlers.served import Served


def test_very_many_producers_are_described_in_steps():
    served = Served()
    served.create("t")
    partition, count = served.partition("t"), 5000
    for producer_id in range(count):
        batch = batches.build(
            [Record(0, 0, None, b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        partition.append(batch, acks=1, now_ms=0)
    call = served.call(DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]))
    turns = 0
    while not call.is_over:
        assert served.time.next_event()
        turns += 1
    assert turns > 20
    (answered,) = call.response.topics
    assert [each.producer_id for each in answered.partitions[0].active_producers] == list(range(count))
