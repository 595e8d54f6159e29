"""Nothing on the event loop blocks it: large logs are compacted, deleted, recovered and synced beside it.

    python -m tests.soak.lag [--megabytes 5000]

The yardstick is a timer in a process that does nothing else: what the machine itself makes late is not ours.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass

from ottla.wire import batch
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.integration.nodes import TOPIC, Client
from tests.oracle.ottla import Ottla

ALLOWED_S = 0.1  # where every thread finds a core; where they queue, one that works waits for its turn
TOPICS = ("compacted", "deleted", "synced", "kept")


@dataclass(slots=True)
class Report:
    megabytes: int = 0
    lag_seconds_max: float = 0.0
    machine_lag_seconds_max: float = 0.0
    compacted_to_megabytes: int = 0
    restart_seconds: float = 0.0
    queue: float = 1.0  # threads that want to run, for each core

    @property
    def is_clean(self) -> bool:
        return self.lag_seconds_max < self.machine_lag_seconds_max + ALLOWED_S * self.queue


def yardstick(stop, worst):
    """How late a timer is in a process of its own."""
    while not stop.is_set():
        begun = time.monotonic()
        time.sleep(0.05)
        worst.value = max(worst.value, time.monotonic() - begun - 0.05)


async def http_lag(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    found = [line for line in text.splitlines() if line.startswith("ottla_loop_lag_max_seconds")]
    return float(found[0].split()[1])


def a_request(topic, number):
    now_ms = time.time_ns() // 1_000_000
    made = batch.build(
        [Record(-1, now_ms, b"k%d" % ((number * 1000 + i) % 7000), os.urandom(90) * 10) for i in range(1000)]
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=made)])
    return ProduceRequest(acks=1, timeout_ms=20_000, topic_data=[data])


async def fill(client, each, report, server):
    for number in range(each):
        for topic in TOPICS:
            response = await client.call(a_request(topic, number))
            assert response.responses[0].partition_responses[0].error_code == 0
        if number % 100 == 0:  # the probe looks back a minute
            await note_lag(report, server)


async def note_lag(report, server):
    report.lag_seconds_max = max(report.lag_seconds_max, await http_lag(http_port(server)))
    report.queue = max(report.queue, round(os.getloadavg()[0] / (os.cpu_count() or 1), 1))


async def until_smaller(path, size_bytes, report, server, timeout_s=600):
    async with asyncio.timeout(timeout_s):
        while size_of(path) >= size_bytes:
            await asyncio.sleep(0.1)
            await note_lag(report, server)


def size_of(path):
    total = 0
    for segment in path.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):  # the broker is deleting them
            total += segment.stat().st_size
    return total


def run(megabytes, say=lambda line: None):
    """Each topic gets so much of it; then everything is done to them at once, and the broker is killed."""
    settings = {
        "log.retention.check.interval.ms": 500,
        "log.cleaner.backoff.ms": 500,
        "log.flush.offset.checkpoint.interval.ms": 500,
    }
    each, report = max(1, megabytes // len(TOPICS)), Report(megabytes)
    context = multiprocessing.get_context("spawn")
    stop, worst = context.Event(), context.Value("d", 0.0)
    watch = context.Process(target=yardstick, args=(stop, worst))
    watch.start()
    server = Ottla(settings=settings, options=["--http", "0"])
    try:
        server.start()
        asyncio.run(work(server, each, report, say))
        server.kill()  # what was not synced is recovered at the next start
        begun = time.monotonic()
        server.start(600)
        report.restart_seconds = round(time.monotonic() - begun, 2)
        asyncio.run(after_the_kill(server, each, report))
    finally:
        server.close()
        stop.set()
        watch.join()
    report.machine_lag_seconds_max = round(worst.value, 3)
    return report


async def work(server, each, report, say):
    client = await Client.connect(server.port)
    await client.create(
        "compacted",
        cleanup_policy="compact",
        internal_segment_bytes=10 << 20,
        min_cleanable_dirty_ratio=0.99,
        file_delete_delay_ms=0,
    )
    await client.create("deleted", internal_segment_bytes=5 << 20, file_delete_delay_ms=0)
    await client.create("synced", flush_messages=1, internal_segment_bytes=10 << 20)
    await client.create("kept", internal_segment_bytes=1 << 30)
    await fill(client, each, report, server)
    say("filled")
    await client.configure(TOPIC, "compacted", min_cleanable_dirty_ratio=0.01)
    # Of what was written, not of what there is now: the first cleaning may have come before the last record.
    await until_smaller(server.data / "compacted-0", each << 19, report, server)
    say("compacted")
    await client.configure(TOPIC, "deleted", retention_bytes=1000)
    await until_smaller(server.data / "deleted-0", 10 << 20, report, server)
    say("deleted")
    report.compacted_to_megabytes = size_of(server.data / "compacted-0") >> 20
    await note_lag(report, server)
    await client.close()


async def after_the_kill(server, each, report):
    client = await Client.connect(server.port)
    assert (await client.bounds("kept"))[1] == each * 1000
    assert (await client.produce("kept", b"v")).error_code == 0
    await note_lag(report, server)
    await client.close()


def http_port(server):
    lines = [line for line in server.log.read_text().splitlines() if line.startswith("http ")]
    return int(lines[-1].rsplit(":", 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=5000)
    report = run(parser.parse_args().megabytes, lambda line: print(line, file=sys.stderr))
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}, indent=1))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
