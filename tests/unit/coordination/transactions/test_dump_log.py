"""Apache Kafka's own tool reads the transaction log that we write."""

import json
import re

import pytest

from ottla.wire import batch
from tests.oracle.cluster import run_tool, why_not
from tests.unit.coordination.transactions.coordinator import START_MS, Coordinator

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or "Apache Kafka runs"),
]


def dumped(folder, coordinator: Coordinator) -> list[tuple[dict, dict | None]]:
    """Keys and values as kafka-dump-log tells them."""
    segment = folder / "00000000000000000000.log"
    data = [
        batch.build([record], base_offset=record.offset, leader_epoch=0) for record in coordinator.log.records
    ]
    segment.write_bytes(b"".join(data))
    text = run_tool("kafka-dump-log", "--transaction-log-decoder", "--files", str(segment))
    found = re.findall(r"^\| offset: \d+ .* key: (\{.*\}) payload: (.*)$", text, re.MULTILINE)
    return [(json.loads(key), json.loads(value) if value.startswith("{") else None) for key, value in found]


def test_kafka_dump_log_reads_every_state(tmp_path):
    coordinator = Coordinator()
    holder = coordinator.worn()
    coordinator.add_batched("id", holder, [0, 3])
    coordinator.add_offsets("id", holder)
    assert coordinator.end_bumping("id", holder, True)[0] == 0
    coordinator.write_markers()
    coordinator.end_bumping("id", (5, 0), False)
    coordinator.advance(604_800_000 + 3_600_000)
    found = dumped(tmp_path, coordinator)
    assert len(found) == coordinator.log.end
    assert {json.dumps(key) for key, _ in found} == {'{"type": "0", "data": {"transactionalId": "id"}}'}
    states = [value["data"]["transactionStatus"] for _, value in found if value]
    assert states == [0, 0, 1, 1, 2, 4, 3, 5]
    assert found[-1][1] is None  # the tombstone
    prepared = found[4][1]
    assert prepared is not None
    assert prepared == {
        "version": "1",
        "data": {
            "producerId": 4,
            "previousProducerId": 4,
            "nextProducerId": 5,
            "producerEpoch": 32767,
            "transactionTimeoutMs": 60000,
            "transactionStatus": 2,
            "transactionPartitions": [
                {"topic": "__consumer_offsets", "partitionIds": [42]},
                {"topic": "t", "partitionIds": [0, 3]},
            ],
            "transactionLastUpdateTimestampMs": START_MS,
            "transactionStartTimestampMs": START_MS,
            "clientTransactionVersion": 2,
        },
    }
