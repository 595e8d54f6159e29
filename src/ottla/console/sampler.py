"""Asks the cluster how it is, every second while somebody watches, and remembers an hour of it."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.client.admin.brokers import ClusterInfo, LogDir
from ottla.client.admin.groups import Group, ListedGroup, Member, from_streams
from ottla.client.admin.shares import ShareProgress
from ottla.client.admin.streams_groups import StreamsGroup
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.console.model import Moment
from ottla.console.scrapes import Scrapes
from ottla.console.series import History
from ottla.errors import OttlaError

log = logging.getLogger(__name__)
EVERY_S = 1.0
SHARE_MAX = 0.2  # of the time: a cluster that takes long to answer is asked less often
SLOW_S = 30.0
AWAY_EVERY_S = 1.0
SETTLED_EVERY_S = 5.0  # sizes and first offsets change slowly
WATCHED_S = 10.0  # a page that was asked for counts as a watcher for so long
DESCRIBED_AT_ONCE = 10
MOMENTS_MAX, TIMELINES_MAX = 200, 500
LATEST, EARLIEST = -1, -2
THROTTLED = ("Produce", "Fetch")
SHARE = "share"
Folders = Mapping[tuple[int, str], Mapping[TopicPartition, int]]  # sizes, by broker and path


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as the last samples saw it."""

    listed: ListedGroup
    coordinator: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    lag: int


@dataclass(slots=True)
class Snapshot:
    """The cluster at one moment. Parts that could not be asked for are those of the sample before."""

    at: float = 0.0
    info: ClusterInfo = field(default_factory=lambda: ClusterInfo(None, -1, (), {}))
    topics: Mapping[str, Any] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    log_dirs: list[LogDir] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # by topic, all replicas
    groups: dict[str, GroupView] = field(default_factory=dict)
    readers: dict[str, set[str]] = field(default_factory=dict)  # groups by topic
    topic_lag: dict[str, int] = field(default_factory=dict)
    trouble: str | None = None  # why the last sample failed

    def records(self, topic: str) -> int | None:
        """How many offsets the topic holds: records, and the gaps of compaction and transactions."""
        known = self.topics.get(topic)
        if known is None:
            return None
        places = [TopicPartition(topic, index) for index in known.partitions]
        return sum(self.ends[place] - self.begins.get(place, 0) for place in places if place in self.ends)

    def under_replicated(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, p.index)
            for topic in self.topics.values()
            for p in topic.partitions.values()
            if len(p.isr) < len(p.replicas)
        ]

    def leaderless(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, p.index)
            for topic in self.topics.values()
            for p in topic.partitions.values()
            if p.leader < 0
        ]


class Sampler:
    """One for every identity that looks at the cluster: what it may not see, it does not show."""

    def __init__(
        self, admin: Any, clock: Callable[[], float] = time.time, metrics: Sequence[str] = ()
    ) -> None:
        self._admin, self._clock = admin, clock
        self.scrapes = Scrapes(metrics)
        self.snapshot = Snapshot()
        self.history = History()
        self.described: dict[str, Group] = {}
        self.shares: dict[str, Mapping[TopicPartition, ShareProgress]] = {}
        self.streams: dict[str, StreamsGroup] = {}
        self.timelines: dict[str, deque[Moment]] = {}
        self.ticks = 0
        self.took_s = 0.0
        self._settled_at = 0.0
        self._ends_at = 0.0
        self._ends: dict[TopicPartition, int] = {}  # those of the sample before
        self._partitions: dict[tuple[str, bytes], int] = {}  # how many each topic of that sample had
        self._folders: Folders | None = None  # as they were measured last
        self._listed: set[TopicPartition] = set()  # partitions that the metadata told then
        self._measured_at = 0.0
        self._turn = 0
        self._watched_until = 0.0
        self._watched_groups: dict[str, float] = {}
        self._sampling = asyncio.Lock()
        self._ticked = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.watchers = 0

    # -- who watches -------------------------------------------------------------------------------

    def watch_group(self, group: str) -> None:
        """Its members are asked for at every sample while its page is open."""
        self._watched_groups[group] = self._clock() + WATCHED_S
        if len(self._watched_groups) > TIMELINES_MAX:
            del self._watched_groups[next(iter(self._watched_groups))]

    async def fresh(self, age_max_s: float = 2.0) -> Snapshot:
        """The snapshot, sampled now if it is older than that."""
        self._watched_until = self._clock() + WATCHED_S
        self._start()
        # A slow cluster is sampled less often, so that its snapshots count as fresh for longer.
        stale_s = max(age_max_s, 2 * self._delay_s()) if age_max_s else 0.0
        if self._clock() - self.snapshot.at > stale_s:
            async with self._sampling:
                if self._clock() - self.snapshot.at > stale_s:
                    await self._sample()
        return self.snapshot

    async def next_tick(self) -> None:
        """Until there is a newer snapshot than now."""
        self._start()
        event = self._ticked
        await event.wait()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            if not self.watchers and self._clock() > self._watched_until:
                self._wake.clear()
                await self._wake.wait()
            async with self._sampling:
                if self._clock() - self.snapshot.at >= EVERY_S / 2:  # a page may have asked a moment ago
                    await self._sample()
            await asyncio.sleep(self._delay_s())

    def _delay_s(self) -> float:
        if self.snapshot.trouble:
            return AWAY_EVERY_S  # how long a broker that is away takes to answer says nothing
        return min(SLOW_S, max(EVERY_S - self.took_s, self.took_s / SHARE_MAX, 0.05))

    # -- one sample --------------------------------------------------------------------------------

    async def _sample(self) -> None:
        began = time.perf_counter()
        trouble = None
        try:
            await self._ask()
        except (OttlaError, OSError) as error:
            trouble = " ".join(str(error).split()) or type(error).__name__
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a sample of the cluster failed")
            trouble = "the console could not read the cluster's answer; its log tells more"
        self.snapshot.trouble = trouble
        self.snapshot.at = self._clock()
        self.took_s = time.perf_counter() - began
        self.ticks += 1
        self._ticked.set()
        self._ticked = asyncio.Event()

    async def _ask(self) -> None:
        now, snapshot = self._clock(), self.snapshot
        snapshot.info, snapshot.topics = await asyncio.gather(
            self._admin.describe_cluster(), self._admin.list_topics()
        )
        led = _led(snapshot)
        snapshot.ends = await self._offsets(led, LATEST)
        elapsed, self._ends_at = max(self._clock() - self._ends_at, 0.001), self._clock()
        self._note_rates(now, elapsed)
        if now - self._settled_at >= SETTLED_EVERY_S:
            self._settled_at = now
            snapshot.begins = await self._offsets(led, EARLIEST)
            await self._measure_folders(now)
        await self._scrape(now)
        await self._look_at_groups(now)

    async def _scrape(self, now: float) -> None:
        figures = await self.scrapes.look()
        if figures is None:
            return
        if figures.bytes_out is not None:
            self.history.add("cluster", "out", now, figures.bytes_out)
        for api in THROTTLED:
            self.history.add("throttled", api, now, figures.throttles.get(api, 0.0))

    async def _offsets(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, which)
        if not wanted:
            return {}
        return {where: offset.offset for where, offset in (await self._admin.list_offsets(wanted)).items()}

    async def _measure_folders(self, now: float) -> None:
        snapshot = self.snapshot
        try:
            snapshot.log_dirs = await self._admin.log_dirs()
        except OttlaError:  # without the right to describe the cluster there are no sizes
            return
        sizes: dict[str, int] = {}
        for folder in snapshot.log_dirs:
            for where, size in folder.sizes.items():
                sizes[where.topic] = sizes.get(where.topic, 0) + size
        snapshot.sizes = sizes
        self._note_bytes(now)

    def _note_bytes(self, now: float) -> None:
        """By folder: one that is back after its broker was away holds old bytes."""
        snapshot = self.snapshot
        folders = {(each.broker, each.path): each.sizes for each in snapshot.log_dirs if each.error is None}
        if self._folders is not None:
            written = sum(
                self._written(sizes, self._folders[which])
                for which, sizes in folders.items()
                if which in self._folders
            )
            self.history.add("cluster", "bytes", now, written / max(now - self._measured_at, 0.001))
        self._folders, self._measured_at = folders, now
        self._listed = {
            TopicPartition(name, index)
            for name, topic in snapshot.topics.items()
            for index in topic.partitions
        }

    def _written(self, sizes: Mapping[TopicPartition, int], before: Mapping[TopicPartition, int]) -> int:
        """A partition that is new in the folder was written since, unless the cluster had it before."""
        return sum(
            max(0, size - before.get(where, size if where in self._listed else 0))
            for where, size in sizes.items()
        )

    def _note_rates(self, now: float, elapsed: float) -> None:
        """A topic that was not in the sample before has no rate: it may be old, and only now shown to this viewer."""
        partitions: dict[tuple[str, bytes], int] = {}
        arrived_total = 0
        for name, topic in self.snapshot.topics.items():
            known = self._partitions.get((name, topic.id))
            if topic.partitions or known is not None:  # else an error hides which partitions it has
                partitions[name, topic.id] = max([known or 0, *(index + 1 for index in topic.partitions)])
            if known is not None:
                arrived = sum(self._arrived(TopicPartition(name, index), known) for index in topic.partitions)
                self.history.add("topic", name, now, arrived / elapsed)
                arrived_total += arrived
        if self._partitions:
            self.history.add("cluster", "records", now, arrived_total / elapsed)
        self._ends, self._partitions = self.snapshot.ends, partitions
        self.history.keep("topic", self.snapshot.topics)  # type: ignore[arg-type]

    def _arrived(self, where: TopicPartition, known: int) -> int:
        """Nothing if the partition had no leader to ask in the sample before: its records are older. A topic's
        partitions only become more, so that one beyond those known is new, and all its records are."""
        end = self.snapshot.ends.get(where)
        before = self._ends.get(where, 0 if where.partition >= known else None)
        return 0 if end is None or before is None else max(0, end - before)

    # -- groups ------------------------------------------------------------------------------------

    async def _look_at_groups(self, now: float) -> None:
        snapshot = self.snapshot
        groups: dict[str, GroupView] = {}
        readers: dict[str, set[str]] = {}
        topic_lag: dict[str, int] = {}
        for group in await self._admin.survey_groups():
            name = group.group.id
            offsets = self._share_starts(name) if _is_share(group.group) else group.offsets or {}
            lags = self._lags(name, offsets)
            for where, behind in lags.items():
                readers.setdefault(where.topic, set()).add(name)
                topic_lag[where.topic] = max(topic_lag.get(where.topic, 0), behind)
            groups[name] = GroupView(group.group, group.coordinator, offsets, sum(lags.values()))
            self.history.add("group", name, now, groups[name].lag)
            self._note_state(group.group, snapshot.groups.get(name), now)
        snapshot.groups, snapshot.readers, snapshot.topic_lag = groups, readers, topic_lag
        self.history.keep("group", groups)  # type: ignore[arg-type]
        for gone in [name for name in self.described if name not in groups]:
            del self.described[gone]
            self.shares.pop(gone, None)
            self.streams.pop(gone, None)
        await self._describe_some(now)

    def _lags(
        self, name: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, int]:
        """By partition. A share group's own count leaves out records behind its start that are done with."""
        shares, ends = self.shares.get(name, {}), self.snapshot.ends
        return {
            where: shares[where].lag
            if where in shares and shares[where].lag >= 0
            else max(0, ends[where] - committed.offset)
            for where, committed in offsets.items()
            if where in ends
        }

    def _share_starts(self, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """A share group commits nothing; everything before its start offset is done with."""
        return {
            where: OffsetAndMetadata(progress.start_offset)
            for where, progress in self.shares.get(name, {}).items()
            if progress.start_offset >= 0
        }

    async def _describe_some(self, now: float) -> None:
        """Those whose pages are open, and a few of the others in turn."""
        self._watched_groups = {g: until for g, until in self._watched_groups.items() if until > now}
        active = [
            name
            for name, group in self.snapshot.groups.items()
            if group.listed.state != "Empty" or _is_share(group.listed)
        ]
        turn = self._turn % len(active) if active else 0
        self._turn += DESCRIBED_AT_ONCE
        chosen = dict.fromkeys([*self._watched_groups, *(active[turn:] + active[:turn])[:DESCRIBED_AT_ONCE]])
        chosen_ids = [name for name in chosen if name in self.snapshot.groups]
        answers = await asyncio.gather(
            *(self.describe(group_id) for group_id in chosen_ids), return_exceptions=True
        )
        for name, group in zip(chosen_ids, answers, strict=True):
            if isinstance(group, Group):
                self._note_members(name, self.described.get(name), group, now)
                self.described[name] = group
            elif not isinstance(group, OttlaError):
                raise group

    async def describe(self, name: str) -> Group:
        """Members and assignments, of any kind of group."""
        match self.snapshot.groups[name].listed.type.lower():
            case "share":
                return await self._describe_share(name)
            case "streams":
                self.streams[name] = await self._admin.describe_streams_group(name)
                return from_streams(self.streams[name])
        described: Group = await self._admin.describe_group(name)
        return described

    async def _describe_share(self, name: str) -> Group:
        """Also notes how far the group has got."""
        group, progress = await asyncio.gather(
            self._admin.describe_share_group(name), self._admin.share_progress(name)
        )
        self.shares[name] = progress
        starts = self._share_starts(name)
        if (view := self.snapshot.groups.get(name)) is not None:
            lag = sum(self._lags(name, starts).values())
            self.snapshot.groups[name] = replace(view, offsets=starts, lag=lag)
        members = tuple(
            Member(member.member_id, member.client_id, member.host, None, member.partitions)
            for member in group.members
        )
        return Group(name, group.state, SHARE, SHARE, "", members, group.epoch)

    def _note_state(self, group: ListedGroup, before: GroupView | None, now: float) -> None:
        if before is not None and before.listed.state != group.state:
            tone = "good" if group.state == "Stable" else "" if group.state == "Empty" else "warn"
            self._note(group.id, now, f"{before.listed.state} → {group.state}", tone)

    def _note_members(self, name: str, before: Group | None, after: Group, now: float) -> None:
        if before is None:
            return
        old = {member.id: member for member in before.members}
        new = {member.id: member for member in after.members}
        for member_id in new.keys() - old.keys():
            self._note(name, now, f"{_member(new[member_id])} joined", "good")
        for member_id in old.keys() - new.keys():
            self._note(name, now, f"{_member(old[member_id])} left", "warn")
        if after.epoch > before.epoch >= 0:
            self._note(name, now, f"epoch {before.epoch} → {after.epoch}")
        owners = {where: member.id for member in before.members for where in member.assignment}
        for member in after.members:
            moved = [where for where in member.assignment if owners.get(where) != member.id]
            if moved:
                self._note(name, now, f"{_member(member)} now reads {_places(moved)}")

    def _note(self, group: str, now: float, text: str, tone: str = "") -> None:
        if group not in self.timelines and len(self.timelines) >= TIMELINES_MAX:
            del self.timelines[next(iter(self.timelines))]
        self.timelines.setdefault(group, deque(maxlen=MOMENTS_MAX)).append(
            Moment(int(now * 1000), text, tone)
        )


def _is_share(group: ListedGroup) -> bool:
    return group.type.lower() == SHARE


def _led(snapshot: Snapshot) -> list[TopicPartition]:
    """Partitions that can be asked: one without a leader would hold up all others."""
    alive = {broker.id for broker in snapshot.info.brokers}
    return [
        TopicPartition(topic.name, p.index)
        for topic in snapshot.topics.values()
        for p in topic.partitions.values()
        if p.leader in alive
    ]


def _member(member: Any) -> str:
    return str(member.instance_id or member.client_id or member.id)


def _places(places: list[TopicPartition]) -> str:
    shown = ", ".join(str(place) for place in sorted(places)[:5])
    return shown if len(places) <= 5 else f"{shown} and {len(places) - 5} more"
