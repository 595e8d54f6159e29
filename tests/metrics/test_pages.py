"""The pages of a broker: what they tell, in which form, and how long they hold up the loop."""

import asyncio
import contextlib
import json
import re
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trustme

from ottla import errors
from ottla.broker.metrics import Metrics
from ottla.client import Consumer, Producer
from ottla.exposition import CUT, GAUGE, LINES_AT_ONCE, Family, Histogram, labels, render
from ottla.server import handshakes, http
from ottla.server.metrics import main_page, partitions_page
from ottla.server.metrics.catalogue import PAGES
from ottla.server.metrics.process import figures
from ottla.server.metrics.request_times import RequestTimes, quantile_ms
from ottla.server.node import memory_disk
from ottla.testing import Broker, Cluster
from tests.integration.nodes import broker as a_broker
from tests.metrics.programs import get, needs_prometheus, promtool, samples
from tests.oracle.ports import free_ports

OTTLA = str(Path(sys.executable).with_name("ottla"))

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


@pytest.fixture(scope="module")
def used():
    """A broker with a topic of a hundred records, sixty of them committed by a group."""
    with Broker(num_partitions=2) as broker:
        broker.create_topic("orders", 2)
        client = {"bootstrap.servers": broker.bootstrap}
        with Producer(client) as producer:
            for number in range(100):
                producer.send("orders", b"x" * 50, partition=number % 2)
            producer.flush()
        settings = {
            **client,
            "group.id": 'a "group"',
            "auto.offset.reset": "earliest",
            "max.poll.records": 60,
        }
        with Consumer({**settings, "enable.auto.commit": False}) as consumer:
            consumer.subscribe(["orders"])
            read: list[object] = []
            while len(read) < 60:
                read += consumer.poll(1.0, max_records=60 - len(read))
            consumer.commit()
        yield broker


@pytest.mark.parametrize("path", PAGES)
@needs_prometheus
def test_promtool_has_nothing_to_say(used, path):
    _, _, text = get(used.http, path)
    checked = promtool("check", "metrics", text=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_every_family_of_the_catalogue_and_no_other(used, path):
    _, kind, text = get(used.http, path)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    told = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(told) == len({name for name, _ in told})
    assert dict(told).keys() == PAGES[path].keys()
    families = {name.removesuffix(end) for name, _ in told for end in ("", "_total")}
    for series in samples(text):
        name = series.partition("{")[0]
        assert name in dict(told) or re.sub("_(bucket|sum|count)$", "", name) in families


@pytest.mark.parametrize("path", PAGES)
def test_the_same_as_openmetrics(used, path):
    _, kind, text = get(used.http, path, OPEN_METRICS)
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith("# EOF\n")
    assert not re.search(r"^# TYPE \S+_total ", text, re.MULTILINE)


def test_topics_groups_and_requests_are_counted(used):
    found = samples(get(used.http, "/metrics")[2])
    topic = 'kafka_server_brokertopicmetrics_{}_total{{topic="orders"}}'
    assert found[topic.format("messagesin")] == 100
    assert found[topic.format("bytesin")] > 5000
    assert found[topic.format("bytesout")] > 3000
    assert found['kafka_consumergroup_lag_sum{consumergroup="a \\"group\\"",topic="orders"}'] == 40
    assert found['ottla_request_seconds_count{api="Produce"}'] >= 1
    whole = found['ottla_request_seconds_sum{api="Fetch"}']
    phases = sum(v for k, v in found.items() if k.startswith('ottla_request_phase_seconds_sum{api="Fetch"'))
    assert phases == pytest.approx(whole, rel=0.05, abs=0.002)
    counts = {v for k, v in found.items() if k.startswith('ottla_request_phase_seconds_count{api="Fetch"')}
    assert counts == {found['ottla_request_seconds_count{api="Fetch"}']}


def test_a_fetch_that_waits_for_records_spends_its_time_remotely():
    with Broker() as broker:
        broker.create_topic("quiet", 1)
        settings = {"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": 300}
        with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([("quiet", 0)])

            def remote():
                consumer.poll(0.4)
                found = samples(get(broker.http, "/metrics")[2])
                return (
                    found.get('ottla_request_phase_seconds_sum{api="Fetch",phase="remote"}', 0) > 0.2
                    and found
                )

            found = broker.wait_until(remote, 30, "a fetch that waited")
        phases = {
            k: v for k, v in found.items() if k.startswith('ottla_request_phase_seconds_sum{api="Fetch"')
        }
        whole = found['ottla_request_seconds_sum{api="Fetch"}']
        assert sum(phases.values()) == pytest.approx(whole, rel=0.05)


def test_the_lag_of_each_partition_has_its_page(used):
    found = samples(get(used.http, "/metrics/partitions")[2])
    lags = [v for k, v in found.items() if k.startswith("kafka_consumergroup_lag{")]
    assert len(lags) == 2
    assert sum(lags) == 40
    assert found['kafka_log_log_logendoffset{topic="orders",partition="0"}'] == 50


def test_refused_writes_are_counted():
    with Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic("orders", 1)
        client = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": False}
        with Producer({**client, "max.request.size": 1 << 23}) as producer:
            receipt = producer.send("orders", b"x" * (3 << 20))
            with pytest.raises(errors.MessageTooLarge):
                receipt.result(60)
        found = samples(get(broker.http, "/metrics")[2])
        assert found['kafka_server_brokertopicmetrics_failedproducerequests_total{topic="orders"}'] >= 1
        assert found["kafka_server_brokertopicmetrics_failedproducerequests_total"] >= 1


def test_lag_is_known_where_another_broker_leads_the_partition():
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("alone", 4, replication_factor=1)
        client = {"bootstrap.servers": cluster.bootstrap}
        for index in range(4):
            for _ in range(index + 1):
                cluster.send("alone", "v", partition=index)
        with Consumer({**client, "group.id": "far", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["alone"])
            read = []
            cluster.wait_until(lambda: read.extend(consumer.poll(0.5)) or len(read) == 10, 30, "all records")
            consumer.commit()
        for _ in range(3):
            cluster.send("alone", "later", partition=0)
        committed = cluster.group("far").offsets

        def lags():
            pages = [samples(get(broker.http, "/metrics/partitions")[2]) for broker in cluster]
            return {
                k: v for page in pages for k, v in page.items() if k.startswith("kafka_consumergroup_lag{")
            }

        # Half of them are led by the broker that does not coordinate the group.
        wanted = {}
        for index in range(4):
            text = labels(consumergroup="far", topic="alone", partition=index)
            wanted[f"kafka_consumergroup_lag{text}"] = 0 if index else 3
        assert committed == {("alone", index): index + 1 for index in range(4)}
        # The end of a partition that is led elsewhere is asked for again after some seconds.
        cluster.wait_until(lambda: lags() == wanted, 30, "the lag of all partitions")


def test_a_step_of_a_page_is_short_however_many_partitions_there_are():
    """In lines and partitions: how long these take depends on the machine (0.1 ms a step where it was measured)."""

    async def scenario():
        async with a_broker([memory_disk()]) as (node, client):
            for number in range(10):
                await client.create(f"topic-{number}", 100)
            outside = main_page.Outside(figures(), {})
            for families in (main_page.families(node, outside), partitions_page.families(node)):
                steps = list(render(families))
                assert len(steps) > 1000 / main_page.AT_ONCE
                assert max(text.count("\n") for text in steps) <= LINES_AT_ONCE + 2

    asyncio.run(scenario())


def test_other_work_of_the_loop_goes_on_while_a_page_is_made():
    turns = 0
    seen: list[int] = []

    def steps():
        for _ in range(50):
            began = time.perf_counter()
            while time.perf_counter() - began < 2 * http.SLICE_S:
                pass  # a long step: afterwards a rest is due
            seen.append(turns)
            yield "x" * 10

    async def scenario():
        nonlocal turns

        async def page(path, accept):
            return http.Page("200 OK", "text/plain", steps())

        server = http.HttpServer(page)
        await server.start("127.0.0.1", 0)
        asking = asyncio.ensure_future(asyncio.to_thread(get, f"127.0.0.1:{server.port}", "/"))
        while not asking.done():
            turns += 1
            await asyncio.sleep(0)
        await server.stop()
        assert asking.result()[::2] == (200, "x" * 500)

    asyncio.run(scenario())
    assert len(set(seen)) == 50


def test_a_visitor_that_does_not_read_loses_its_connection(monkeypatch):
    """A page that is larger than what the system buffers would wait for its reader for ever."""
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 0.1)
    sockets = []

    async def page(path, accept):
        return http.Page("200 OK", "text/plain", iter(["x" * 65_536] * 256))

    class Watched(http.HttpServer):
        async def _serve(self, reader, writer):
            sockets.append(writer.get_extra_info("socket"))
            await super()._serve(reader, writer)

    async def main():
        server = Watched(page)
        await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.readexactly(4)  # and no more
        async with asyncio.timeout(60):
            while sockets[0].fileno() >= 0:
                await asyncio.sleep(0.01)
        writer.close()
        await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_strangers_that_do_not_shake_hands_hold_a_few_connections(monkeypatch, tmp_path, loop):
    monkeypatch.setattr(handshakes, "AT_ONCE_MAX", 8)
    for module, patience in ((handshakes, "TIMEOUT_S"), (http, "READ_TIMEOUT_S")):
        monkeypatch.setattr(module, patience, 600.0)
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem")
    trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    async def page(path, accept):
        return http.Page("200 OK", "text/plain", iter(["hello"]))

    async def visit(port):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trust, server_hostname="localhost"
        )
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        text = await reader.read()
        writer.close()
        return text

    async def main():
        server = http.HttpServer(page)
        await server.start("127.0.0.1", 0, tls)
        strangers = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
        async with asyncio.timeout(60):
            for reader, _ in strangers[:10]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""  # it was the oldest, and had to go
            assert (await visit(server.port)).endswith(b"hello")
        await server.stop()
        for reader, writer in strangers:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


def test_a_family_with_too_many_series_is_cut_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr("ottla.exposition.SERIES_MAX", 3)
    family = Family("many", GAUGE, "help", ((f'{{n="{n}"}}', n) for n in range(10)))
    found = samples("".join(render([family])))
    assert len([series for series in found if series.startswith("many")]) == 3
    assert found[CUT + '{family="many"}'] == 1


def test_labels_are_escaped():
    assert labels(topic='a"b\\c\nd') == '{topic="a\\"b\\\\c\\nd"}'


def test_a_histogram_counts_what_was_left_out_in_its_first_bucket():
    histogram = Histogram()
    histogram.add(1000)
    found = dict(histogram.samples('api="A"', count=10))
    assert found['_bucket{api="A",le="0.000128"}'] == 9
    assert found['_bucket{api="A",le="0.001024"}'] == 10
    assert found['_bucket{api="A",le="+Inf"}'] == found['_count{api="A"}'] == 10
    histogram.add(10**12)  # longer than the last bucket
    assert dict(histogram.samples())['_bucket{le="33.554432"}'] == 1


# -- health --------------------------------------------------------------------------------------


def test_a_broker_that_serves_is_live_and_ready(used):
    assert get(used.http, "/health/live")[::2] == (200, "ok\n")
    assert get(used.http, "/health/ready")[::2] == (200, "ok\n")
    status, kind, text = get(used.http, "/health/ready", "application/json")
    assert (status, kind, json.loads(text)) == (200, "application/json", {"status": "ok", "reasons": []})


def test_there_are_no_other_pages(used):
    status, _, text = get(used.http, "/metrics/else")
    assert status == 404
    assert "/metrics/partitions" in text


def test_a_failed_log_folder_is_a_reason_to_be_neither_ready_nor_live():
    with Broker() as broker:
        broker.create_topic("t", 1)
        address = broker.http
        broker.break_disk("append")
        with pytest.raises(errors.KafkaStorageError):
            broker.send("t", "v")
        broker.wait_until(lambda: get(address, "/health/ready")[0] == 503, 30, "the folder to be offline")
        assert "offline log folders" in get(address, "/health/ready")[2]
        assert "every log folder is offline" in get(address, "/health/live")[2]


def test_the_restart_of_one_broker_leaves_the_others_ready():
    with Cluster(brokers=3, min_insync_replicas=3) as cluster:
        cluster.create_topic("t", 3)
        others = [cluster[1], cluster[2]]
        addresses = [broker.http for broker in others]
        cluster.shut_down(3)
        cluster.wait_for_isr("t", size=2)  # below min.insync.replicas: an alert, no reason to leave too
        assert [get(address, "/health/ready")[0] for address in addresses] == [200, 200]
        cluster.restart(3)
        cluster.wait_until(lambda: get(cluster[3].http, "/health/ready")[0] == 200, 30, "it is back")
        assert [get(address, "/health/ready")[0] for address in addresses] == [200, 200]


def test_a_broker_that_waits_for_its_cluster_is_live_but_not_ready():
    """ZooKeeper is nowhere. Once a broker has joined, losing ZooKeeper is no reason: all brokers would go at once."""
    (nowhere,) = free_ports(1)
    command = [
        OTTLA,
        "start",
        "--memory",
        "--port",
        "0",
        "--http",
        "0",
        "--zookeeper",
        f"127.0.0.1:{nowhere}",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        address = next(line for line in process.stderr if line.startswith("http ")).split()[1]
        try:
            assert get(address, "/health/live")[::2] == (200, "ok\n")
            status, _, text = get(address, "/health/ready")
            assert (status, text.partition(":")[0]) == (503, "starting")
            assert get(address, "/metrics")[0] == 503
        finally:
            process.terminate()


# -- times of requests under Kafka's names ---------------------------------------------------------


def test_quantiles_lie_where_the_requests_were():
    histogram = Histogram()
    for milliseconds in range(1, 101):
        histogram.add(milliseconds * 1000)
    assert quantile_ms(0.5, 100, histogram.counts) == pytest.approx(50, rel=0.1)
    assert 65 <= quantile_ms(0.99, 100, histogram.counts) <= 131
    assert quantile_ms(0.5, 1000, histogram.counts) == 0.0  # 900 took next to nothing
    assert quantile_ms(0.99, 0, [0] * 27) != quantile_ms(0.99, 0, [0] * 27)  # not a number: nobody asked
    histogram.add(10**9)
    assert quantile_ms(1.0, 101, histogram.counts) == pytest.approx(33_554, rel=0.01)  # as far as it is told


def test_quantiles_forget_what_was_minutes_ago_however_many_look():
    now, metrics = [0.0], Metrics()
    times = RequestTimes(lambda: now[0])

    def p99():
        (sample,) = [
            value
            for family in times.families(metrics)
            if family.name == "kafka_network_requestmetrics_totaltimems"
            for text, value in family.samples
            if text == '{request="Produce",quantile="0.99"}'
        ]
        return sample

    for _ in range(100):
        metrics.times_of(0).total.add(1_000_000)
    assert p99() > 500
    for now[0] in (1.0, 2.0, 61.0, 62.0):
        p99()
    for _ in range(100):
        metrics.times_of(0).total.add(1_000)
    now[0] = 122.0
    assert p99() < 5
