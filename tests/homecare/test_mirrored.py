"""`--mirrored` without Spark: what devices send to a broker of their own is at the centre, whatever is killed, and the
pipelines come to the same verdict there as at the source."""

from __future__ import annotations

import time
from pathlib import Path

from ottla.client.columnar import ColumnarProducer
from ottla.homecare import topics
from ottla.homecare.client import Client
from ottla.homecare.mirrored import Edge
from ottla.homecare.pipelines import NAMES, pipeline
from ottla.homecare.reading import read
from ottla.homecare.results import Results
from ottla.homecare.rules import Rules
from ottla.homecare.truth import Expected
from ottla.homecare.verdict import Verdict
from ottla.homecare.world import Plan, World
from ottla.testing import Broker
from tests.pipelines.local import query

_PLAN = Plan(devices=60, seconds=40, silent_share=0.2, sick_share=0.3, seed=3)
_RULES = Rules()
_PARTITIONS = 2


def test_pipelines_come_to_the_same_verdict_on_the_mirrored_side(tmp_path: Path) -> None:
    with Broker() as centre:
        client = {"bootstrap.servers": centre.bootstrap}
        topics.create(client, _PARTITIONS)
        edge = Edge(tmp_path / "edge", client)
        try:
            edge.start(_PARTITIONS)
            at_edge = {"bootstrap.servers": edge.bootstrap}
            expected = _live(at_edge, client, edge)
            assert expected.events and expected.alerts and expected.totals
            # The source comes second: the mirror would carry its groups over, whose state lies in topics that it
            # does not copy.
            verdicts = [
                _verdict(client, expected, tmp_path / "mirrored"),
                _verdict(at_edge, expected, tmp_path / "at the source"),
            ]
        finally:
            edge.close()
    for verdict in verdicts:
        assert verdict.is_right, "\n".join(verdict.lines())
    assert verdicts[0].lines() == verdicts[1].lines()


def _live(edge_client: Client, centre_client: Client, edge: Edge) -> Expected:
    """A world that ended a minute ago, sent in two parts; the mirror is killed behind each."""
    world = World(_PLAN, int(time.time() * 1000) - int(_PLAN.seconds * 1000) - 60_000)
    with ColumnarProducer(edge_client) as producer:
        producer.write(world.roster(), topics.ROSTER)
        half_ms = world.start_ms + int(_PLAN.seconds * 500)
        for to_ms in (half_ms, world.start_ms + int(_PLAN.seconds * 1000)):
            for topic, rows in world.advance(to_ms):
                producer.write(rows, topic)
            if to_ms != half_ms:
                for topic, rows in world.end():
                    producer.write(rows, topic)
            producer.flush()
            edge.restart_mirror()
    deadline = time.monotonic() + 120
    for topic in world.sent:
        while _count(centre_client, topic) < _count(edge_client, topic):
            assert time.monotonic() < deadline, edge.mirror and edge.mirror.tail()
            time.sleep(0.05)
    return world.truth.expected(all_silent=True)


def _count(client: Client, topic: str) -> int:
    return sum(rows.num_rows for rows in read(client, topic))


def _verdict(client: Client, expected: Expected, folder: Path) -> Verdict:
    for name in NAMES:
        with query(pipeline(name, client, _RULES, state_dir=str(folder / name))) as running:
            running.drain()
    return Results(client, folder / "table").judge(expected)
