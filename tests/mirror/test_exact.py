"""Mode exact: the copy is the source byte for byte, and nobody else writes to it until it is promoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import errors
from ottla.client import Admin, Producer
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import promote
from ottla.mirror.errors import BadLink, SourceChanged, TakenOver
from ottla.mirror.exact import FrameSender, frames
from ottla.mirror.link import Link
from ottla.testing import Broker
from ottla.wire.mirror_frame import MirrorFrame
from tests.mirror.local import copy, link, records, runner
from tests.mirror.test_groups import fill
from tests.oracle.cluster import run_tool, why_not


@pytest.fixture
def sides() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        source.create_topic("in", partitions=2)
        yield source, target


def exact(source: Broker, target: Broker, **more: object) -> Link:
    return link(source.bootstrap, target.bootstrap, mode="exact", **more)


def log_of(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    """Every batch as it is, but for its leader epoch: control batches and open transactions too."""
    where = TopicPartition(topic, partition)
    with Admin(bootstrap_servers=bootstrap) as admin:
        end = admin.list_offsets({where: -1})[where].offset
    found = []
    with ColumnarReader(bootstrap_servers=bootstrap, isolation_level="read_uncommitted") as reader:
        for chunks in reader.read_chunks([Range(*where, 0, end)]):
            for chunk in chunks:
                for data, headers in frames(chunk.data, 0):
                    at = 0
                    for header in headers:
                        batch = data[at : at + header.size]
                        found.append(batch[:12] + b"\0\0\0\0" + batch[16:])
                        at += header.size
    return found


def assert_same(source: Broker, target: Broker) -> None:
    for partition in (0, 1):
        assert log_of(source.bootstrap, "in", partition) == log_of(target.bootstrap, "A.in", partition)


def test_logs_are_the_same_byte_for_byte(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    with Producer(bootstrap_servers=source.bootstrap, transactional_id="open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("in", b"open", partition=0)
        producer.flush()
        copy(exact(source, target))
        assert_same(source, target)
        assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)
        producer.commit_transaction()
    fill(source, 2)
    copy(exact(source, target))
    assert_same(source, target)
    assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)


def test_the_copy_begins_where_the_source_begins(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    with Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.delete_records({TopicPartition("in", 0): 20})
    copy(exact(source, target))
    assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)


def test_nobody_else_writes_to_a_mirror(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    copy(exact(source, target))
    before = log_of(target.bootstrap, "A.in", 0)
    with (
        Producer(bootstrap_servers=target.bootstrap) as producer,
        pytest.raises(errors.PolicyViolation, match="mirrors A->B"),
    ):
        producer.send("A.in", b"mine", partition=0).result(60)
    with Producer(bootstrap_servers=target.bootstrap, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(errors.PolicyViolation):
            producer.send("A.in", b"mine", partition=0).result(60)
        producer.abort_transaction()
    assert log_of(target.bootstrap, "A.in", 0) == before  # nor a marker of the transaction


def test_a_link_writes_to_its_own_mirror_alone(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    target.create_topic("A.in", partitions=2)
    with pytest.raises(BadLink, match="is not the mirror of A->B"):
        copy(exact(source, target))


def test_frames_out_of_place_are_dropped_or_refused(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    chosen = exact(source, target)
    copy(chosen)
    before = log_of(target.bootstrap, "A.in", 0)
    place = TopicPartition("A.in", 0)
    batches = b"".join(log_of(source.bootstrap, "in", 0))
    target.create_topic("other")
    sender = FrameSender(chosen)
    try:
        sender.know({"A.in"})
        end = sender.ends([place])[place]
        assert sender.append(place, 0, batches) == end  # it has them all
        with pytest.raises(OttlaError, match="would be missing"):
            sender.append(place, end + 5, batches)
        with pytest.raises(TakenOver, match="not C->B"):
            sender.send(place, MirrorFrame("C->B", 0, end, 0, batches))
        with pytest.raises(TakenOver):
            sender.send(TopicPartition("other", 0), MirrorFrame("A->B", 0, 0, 0, batches))
    finally:
        sender.close()
    assert log_of(target.bootstrap, "A.in", 0) == before


def test_a_hole_is_never_left(sides: tuple[Broker, Broker]) -> None:
    """The first of two frames is lost, the second arrives."""
    source, target = sides
    fill(source, 1)
    chosen = exact(source, target)
    with runner(chosen):
        pass  # makes the topic
    batches = log_of(source.bootstrap, "in", 0)
    sender = FrameSender(chosen)
    try:
        sender.know({"A.in"})
        middle = int.from_bytes(batches[3][:8], "big")
        with pytest.raises(OttlaError, match="would be missing"):
            sender.append(TopicPartition("A.in", 0), middle, b"".join(batches[3:]))
    finally:
        sender.close()
    copy(chosen)
    assert_same(source, target)


def test_a_source_that_was_cut_is_recognised(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    for i in range(5):
        source.send("in", f"v{i}", partition=0)
    copy(exact(source, target))
    with Broker() as other:
        other.create_topic("in", partitions=2)
        for i in range(9):
            other.send("in", f"w{i}", partition=0)
        with pytest.raises(SourceChanged, match="diverged"):
            copy(exact(other, target))


def test_a_promoted_copy_is_a_topic_of_its_own(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    chosen = exact(source, target)
    with Producer(bootstrap_servers=source.bootstrap, transactional_id="open") as left:
        left.init_transactions()
        left.begin_transaction()
        left.send("in", b"never committed", partition=0)
        left.flush()
        fill(source, 1)
        copy(chosen)
    figures = promote.figures(chosen)
    assert "0 records of the source are not copied" in figures.lines()[1]
    with runner(chosen) as late:
        late.driver.leave()
        promote.promote(chosen, promote.figures(chosen))
        fill(source, 2)
        with pytest.raises(OttlaError):
            late.run_once()
    with Producer(bootstrap_servers=source.bootstrap, transactional_id="open") as ending:
        ending.init_transactions()  # aborts what was left open
    committed = [plain for plain in records(source.bootstrap, "in", 0) if plain[1].startswith((b"t1", b"p1"))]
    visible = records(target.bootstrap, "A.in", 0)
    assert visible == committed  # the open transaction no longer holds readers up, and is not to be seen
    with Producer(bootstrap_servers=target.bootstrap) as producer:
        producer.send("A.in", b"mine", partition=0).result(60)
    assert records(target.bootstrap, "A.in", 0)[-1][1] == b"mine"


def test_a_promotion_that_cannot_ask_is_not_said_to_be_done(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    chosen = exact(source, target)
    with runner(chosen) as running:
        running.run_once()
        running.driver.leave()
    figures = promote.figures(chosen)
    with target.fail("DescribeConfigs", "INVALID_REQUEST", times=None), pytest.raises(errors.InvalidRequest):
        promote.promote(chosen, figures)
    with target.fail("DescribeConfigs", "TOPIC_AUTHORIZATION_FAILED", times=None):
        left = promote.promote(chosen, figures)
    assert any(line.startswith("A.in: left as it is, its settings cannot be read") for line in left)
    done = promote.promote(chosen, figures)
    assert [line.partition(";")[0] for line in done] == ["A.in: 2 partitions are promoted"]


def test_a_producer_with_a_mirrored_id_loses_nothing_after_the_promotion(
    sides: tuple[Broker, Broker],
) -> None:
    """Ids are given out by each cluster: the first producer of both has the same, and the same sequence."""
    source, target = sides
    with Producer(bootstrap_servers=source.bootstrap) as producer:
        producer.send("in", b"theirs", partition=0).result(60)
        theirs = producer.producer_id_and_epoch
    chosen = exact(source, target, emit_checkpoints=False, emit_offset_syncs=False)
    with runner(chosen) as running:
        running.run_once()
        running.driver.leave()
    promote.promote(chosen, promote.figures(chosen))
    for _ in range(20):
        with Producer(bootstrap_servers=target.bootstrap) as producer:
            delivered = producer.send("A.in", b"ours", partition=0).result(60)
            if producer.producer_id_and_epoch >= theirs:
                break
    assert delivered.offset > 0
    found = [plain[1] for plain in records(target.bootstrap, "A.in", 0)]
    assert found[0] == b"theirs" and found[-1] == b"ours"


def test_groups_go_on_at_the_same_offsets(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    where = TopicPartition("in", 0)
    with Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("g", {where: OffsetAndMetadata(17, "mark")})
    copy(exact(source, target))
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        assert admin.group_offsets("g")[TopicPartition("A.in", 0)][:2] == (17, "mark")


def test_a_position_below_the_copy_becomes_its_first_record(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    where = TopicPartition("in", 0)
    with Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("g", {where: OffsetAndMetadata(5)})
        admin.delete_records({where: 20})
    copy(exact(source, target))
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        assert admin.group_offsets("g")[TopicPartition("A.in", 0)].offset == 20


def test_settings_that_make_a_mirror_are_not_lost_by_accident(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    fill(source, 1)
    copy(exact(source, target))
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        with pytest.raises(errors.InvalidConfig, match="ottla mirror promote"):
            admin.alter_configs("topic", "A.in", delete=["mirror.source"])
        with pytest.raises(errors.InvalidConfig, match="ottla mirror promote"):
            admin.alter_configs("topic", "A.in", set_={"mirror.source": "C->B"})
        assert admin.describe_configs("topic", "A.in")["mirror.source"].value == "A->B"


def test_a_promotion_survives_a_restart(tmp_path: Path) -> None:
    with Broker() as source, Broker(data=tmp_path / "data") as target:
        source.create_topic("in", partitions=2)
        fill(source, 1)
        chosen = exact(source, target)
        with runner(chosen) as running:
            running.run_once()
            running.driver.leave()
        promote.promote(chosen, promote.figures(chosen))
        target.restart()
        with Admin(bootstrap_servers=target.bootstrap) as admin:
            told = admin.describe_producers([TopicPartition("A.in", 0)])
        assert told[TopicPartition("A.in", 0)] == []


@pytest.mark.oracle
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "")
def test_apache_kafkas_dump_log_says_the_same_of_both(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "a") as source, Broker(data=tmp_path / "b") as target:
        source.create_topic("in", partitions=2)
        fill(source, 1)
        copy(exact(source, target))
        dumped = []
        for folder, topic in (("a", "in-0"), ("b", "A.in-0")):
            (file,) = (tmp_path / folder / topic).glob("*.log")
            text = run_tool("kafka-dump-log", "--print-data-log", "--files", str(file))
            lines = [line for line in text.splitlines() if line.startswith(("baseOffset", "|"))]
            dumped.append([_without_epoch(line) for line in lines])
        assert dumped[0] == dumped[1]
        assert len(dumped[0]) > 30


def _without_epoch(line: str) -> str:
    words = line.split(" ")
    if "partitionLeaderEpoch:" in words:
        words[words.index("partitionLeaderEpoch:") + 1] = "?"
    return " ".join(words)
