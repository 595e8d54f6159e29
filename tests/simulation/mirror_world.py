"""A broker whose topic mirrors a source that only the world knows: links that repeat, run ahead and come back late,
strangers, a promotion, crashes. The log must be the source's, batch for batch, as far as it goes."""

from __future__ import annotations

import struct
from collections.abc import Generator
from random import Random
from typing import Any

from ottla import errors
from ottla.config.alter import Operation
from ottla.storage.markers import build_marker
from ottla.testing.world.client import Script, Send, Sleep, send
from ottla.testing.world.disasters import Disasters
from ottla.testing.world.ledger import Broken, hold
from ottla.testing.world.network import LOST
from ottla.testing.world.world import World
from ottla.wire import batch as batches
from ottla.wire import mirror_frame
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.mirror_frame import MirrorFrame
from ottla.wire.records import Record

COPY, LINK = "copy", "A->B"
STORM_MS, PATIENCE_MS = 12_000, 150_000
PRODUCERS = (1, 2, 3)
_EPOCH = struct.Struct(">i")
Step = Generator[Send | Sleep, Any, Any]


def source_batches(random: Random, count: int) -> list[bytes]:
    """With gaps, transactions of which the last may stay open, and control batches."""
    made, offset = [], random.choice([0, 0, 7])
    sequences = dict.fromkeys(PRODUCERS, 0)
    is_open = dict.fromkeys(PRODUCERS, False)
    for _ in range(count):
        producer = random.choice(PRODUCERS)
        if is_open[producer] and random.random() < 0.4:
            data = bytearray(
                build_marker(
                    producer, 0, committed=random.random() < 0.5, coordinator_epoch=0, now_ms=offset + 1
                )
            )
            batches.stamp(data, base_offset=offset, leader_epoch=9)
            is_open[producer] = False
            made.append(bytes(data))
            offset += 1
        else:
            size = random.randint(1, 4)
            rows = [Record(offset + i, offset + 1, b"k", b"%d" % (offset + i)) for i in range(size)]
            transactional = producer != PRODUCERS[0]
            made.append(
                batches.build(
                    rows, base_offset=offset, leader_epoch=9, producer_id=producer, producer_epoch=0,
                    base_sequence=sequences[producer], transactional=transactional,
                )
            )  # fmt: skip
            sequences[producer] += size
            is_open[producer] |= transactional
            offset += size
        offset += random.choice([0, 0, 0, 1, 5])  # compaction
    return made


class MirrorWorld(World):
    name = "mirror"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.source = source_batches(self.random, self.random.randint(15, 60))
        self.promotes = self.random.random() < 0.6
        self.promoted = False  # its last step has been asked for: from here on others may write
        self.fenced = False
        self.own: dict[bytes, int] = {}  # values that a local producer was told are at an offset
        self.arrived, self._own_seen = 0, list[bytes]()
        self._at = 0  # the next offset to look at

    def _run(self) -> None:
        self.start()
        self._create_topics()
        disasters = _MirrorDisasters(self)
        self.add("link-1", link(self, patient=True))
        self.add("link-2", link(self, patient=False))
        self.add("stranger", stranger(self))
        if self.promotes:
            self.time.call_later(self.random.uniform(2_000, STORM_MS), self._promote)
        disasters.begin()
        self.until(lambda: self.now_ms >= STORM_MS, STORM_MS + 1, "the storm")
        self.note("calm")
        self.weather.calm = True
        disasters.end()
        self.finishing = True
        self.until(lambda: all(each.is_done for each in self.clients), PATIENCE_MS, "clients")
        self._look()
        self._judge()

    def _promote(self) -> None:
        self.add("promoter", promoter(self))

    def _create_topics(self) -> None:
        configs = [CreatableTopicConfig(name="mirror.source", value=LINK)]
        wanted = [CreatableTopic(name=COPY, num_partitions=1, replication_factor=1, configs=configs)]
        made: list[Any] = []
        self.ask(CreateTopicsRequest(topics=wanted, timeout_ms=10_000), made.append)
        self.until(lambda: bool(made), 10_000, "topics")
        self._topic_ids = {each.name: each.topic_id for each in made[0].topics}

    # -- what must hold ----------------------------------------------------------------------------------

    def _after_event(self) -> None:
        if self.process is not None and not self.process.is_useless:
            self._look()

    def _log(self) -> Any:
        assert self.process is not None
        partition = self.process.broker.replicas.partitions.get((COPY, 0))
        return None if partition is None else partition.log

    def _look(self) -> None:
        """What has come below the high watermark is the source's next batch, or what a promotion allows."""
        log = self._log()
        if log is None or log.high_watermark <= self._at:
            return
        taken = log.read(self._at, max_bytes=1 << 20, up_to=log.high_watermark)
        for position, header in batches.headers(taken.data):
            if header.base_offset >= self._at:
                batch = bytes(taken.data[position : position + header.size])
                self._take(header, batch)
                self._at = header.next_offset

    def _take(self, header: batches.BatchHeader, batch: bytes) -> None:
        if self.arrived < len(self.source) and _plain(batch) == _plain(self.source[self.arrived]):
            hold(not self._own_seen, "the link writes to a promoted topic")
            self.arrived += 1
            return
        where = f"at {header.base_offset}, behind {self.arrived} batches of the source"
        if not self.fenced:
            expected = self.source[self.arrived] if self.arrived < len(self.source) else b""
            later = [_plain(each) for each in self.source[self.arrived + 1 :]]
            hold(_plain(batch) not in later, f"records of the source are missing {where}")
            hold(
                _plain(batch) not in map(_plain, self.source), f"a batch of the source is there twice {where}"
            )
            raise Broken(f"somebody else's batch lies {where}: {batch[61:]!r}, expected {expected[:20]!r}")
        hold(_plain(batch) not in map(_plain, self.source), f"the link writes after it was fenced {where}")
        if not header.is_control:
            hold(self.promoted, f"somebody writes before the promotion has ended {where}")
            self._own_seen.append(batch)

    def _judge(self) -> None:
        log = self._log()
        if not self.promotes:
            hold(
                self.arrived == len(self.source),
                f"{self.arrived} of {len(self.source)} batches have arrived",
            )
            hold(log.end_offset == batches.read_header(self.source[-1]).next_offset, "the log ends elsewhere")
            return
        hold(log.last_stable_offset == log.high_watermark, "a transaction of the source is open for ever")
        for value, offset in self.own.items():
            found = [batch for batch in self._own_seen if value in batch]
            hold(len(found) == 1, f"a local record, acknowledged at {offset}, is there {len(found)} times")


class _MirrorDisasters(Disasters):
    def _strike(self) -> None:
        if self._over:
            return
        world = self._world
        if world.process is None:
            world.start()
        elif world.process.is_useless:
            self._kill()
        else:
            name = world.random.choice(
                ["kill", "cut_power", "clean_restart", "move", "append_fails", "connections_break"]
            )
            world.note(name)
            getattr(self, f"_{name}")()
        self._plan()

    def _move(self) -> None:
        self._world.move_leader((COPY, 0), self._world.random.choice([0, 500]))


def link(world: MirrorWorld, *, patient: bool) -> Script:
    """A link's writer. One that is not patient goes on when it hears nothing, as with several requests in flight."""
    while True:
        end = yield from _end(world)
        while True:
            frame = _frame(world, end)
            if frame is None:
                if world.finishing and (world.promoted or not world.promotes):
                    return
                yield Sleep(500)
                break
            answer = yield from _produce(world, mirror_frame.pack(frame))
            if answer is LOST:
                if patient:
                    break
                end = max(batches.read_header(each).next_offset for each in _batches(frame))
                continue
            if answer.error_code in (errors.PolicyViolation.code, errors.InvalidProducerEpoch.code):
                hold(world.promotes, f"the link is refused: {answer.error_message}")
                return
            if answer.error_code:
                yield Sleep(50)
                break
            end = answer.base_offset
            yield Sleep(world.random.uniform(0, 50 if world.finishing else 1_500))


def stranger(world: MirrorWorld) -> Script:
    """Writes as any producer would; only after the promotion may it succeed."""
    number = 0
    while not world.promoted:
        if world.finishing and not world.promotes:
            return
        number += 1
        value = b"strange-%d" % number
        answer = yield from _produce(world, batches.build([Record(0, 5, None, value)]))
        if answer is not LOST and not answer.error_code:
            hold(world.promoted, "a stranger's record is acknowledged by a mirror")
        yield Sleep(world.random.uniform(50, 600))


def promoter(world: MirrorWorld) -> Script:
    """The three steps, each until it is known to be done; then a local producer that looks like a mirrored one."""
    yield from _alter(world, {"mirror.link.epoch": "1"})
    world.fenced = True
    while True:
        frame = MirrorFrame(LINK, 1, 0, mirror_frame.PROMOTE)
        answer = yield from _produce(world, mirror_frame.pack(frame))
        if answer is not LOST and not answer.error_code:
            break
        yield Sleep(50)
    world.promoted = True
    yield from _alter(world, {"mirror.link.epoch": "2", "mirror.source": None})
    mirrored = [batches.read_header(each) for each in world.source[: world.arrived]]
    last = [each for each in mirrored if each.producer_id == PRODUCERS[0] and not each.is_control]
    if last:
        yield from _write_as(world, last[-1])


def _write_as(world: MirrorWorld, mirrored: batches.BatchHeader) -> Step:
    """Under the id, epoch and sequences of a batch that the mirror has: another cluster has given out the same."""
    values = [b"local-%d" % i for i in range(mirrored.count)]
    batch = batches.build(
        # Of now: a restarted broker forgets producers whose last record is old.
        [Record(i, world.time.now_ms(), None, value) for i, value in enumerate(values)],
        producer_id=mirrored.producer_id,
        producer_epoch=mirrored.producer_epoch,
        base_sequence=mirrored.base_sequence,
    )
    while True:
        answer = yield from _produce(world, batch)
        if answer is not LOST and not answer.error_code:
            world.own[values[0]] = answer.base_offset
            return
        yield Sleep(50)


def _alter(world: MirrorWorld, settings: dict[str, str | None]) -> Step:
    configs = []
    for name, value in settings.items():
        operation = Operation.DELETE if value is None else Operation.SET
        configs.append(AlterableConfig(name=name, config_operation=int(operation), value=value))
    resource = AlterConfigsResource(resource_type=2, resource_name=COPY, configs=configs)
    while True:
        answer = yield send(IncrementalAlterConfigsRequest(resources=[resource]))
        if answer is not LOST and not answer.responses[0].error_code:
            return
        yield Sleep(50)


def _end(world: MirrorWorld) -> Step:
    while True:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=COPY, partitions=[partition])
        answer = yield send(ListOffsetsRequest(replica_id=-1, topics=[topic]))
        if answer is not LOST and not answer.topics[0].partitions[0].error_code:
            return answer.topics[0].partitions[0].offset
        yield Sleep(50)


def _frame(world: MirrorWorld, end: int) -> MirrorFrame | None:
    """Some of the source's next batches; sometimes from earlier on, as from a link that has an older view."""
    left = [each for each in world.source if batches.read_header(each).next_offset > end]
    if not left:
        return None
    back = world.random.choice([0, 0, 0, 2])
    first = len(world.source) - len(left)
    begin = max(0, first - back)
    expected = (
        end if begin == first else (batches.read_header(world.source[begin]).base_offset if begin else 0)
    )
    chosen = world.source[begin : first + world.random.randint(1, 4)]
    return MirrorFrame(LINK, 0, expected, mirror_frame.APPEND, b"".join(chosen))


def _batches(frame: MirrorFrame) -> list[bytes]:
    data = bytes(frame.batches)
    return [data[at : at + header.size] for at, header in batches.headers(data)]


def _produce(world: MirrorWorld, records: bytes) -> Step:
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=COPY, topic_id=world.topic_id(COPY), partition_data=[data])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=2_000, topic_data=[topic])
    answer = yield send(request)
    return answer if answer is LOST else answer.responses[0].partition_responses[0]


def _plain(batch: bytes) -> bytes:
    """Without the leader epoch."""
    return batch[:12] + _EPOCH.pack(0) + batch[16:]
