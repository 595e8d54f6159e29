"""A group in a world of faults, and what must hold after every event."""

from __future__ import annotations

from random import Random

from ottla import errors as e
from ottla.coordination.groups.classic_group import ClassicGroup
from ottla.coordination.groups.consumer_group import ConsumerGroup, MemberState
from ottla.coordination.groups.records import GroupMetadataValue
from ottla.coordination.groups.settings import GroupSettings
from tests.simulation.group_members import ClassicMember, ConsumerMember, Member
from tests.unit.coordination.groups.world import World

LONGEST_MS = 120_000  # more than any session or rebalance time-out here, one after the other


class Simulation:
    def __init__(self, seed: int, protocols: str) -> None:
        self.random = Random(seed)
        delay = self.random.choice([0, 3_000])
        self.world = World(GroupSettings(group_initial_rebalance_delay_ms=delay), t=5, u=3)
        self.world.strict = False
        self.protocols = protocols
        self.members: list[Member] = []
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.epoch = 0
        self.kind: type | None = None
        self.offset = 0
        self.checks = self.looked_at = 0
        self.recorded: GroupMetadataValue | None = None

    def run(self, events: int = 150) -> None:
        for _ in range(events):
            self.event()
            self.check()
        self.settle()

    def event(self) -> None:
        members = [each for each in self.members if each.alive]
        match self.random.choices(
            [
                "join",
                "step",
                "round",
                "crash",
                "leave",
                "wait",
                "restart",
                "topics",
                "commit",
                "disk",
                "stubborn",
            ],
            [6, 25, 25, 2, 2, 10, 2, 2, 20, 2, 2],
        )[0]:
            case "join" if len(members) < 5:
                self.members.append(self.newcomer())
            case "step" if members:
                self.random.choice(members).step()
            case "round":
                for member in self.random.sample(members, len(members)):
                    member.step()  # type: ignore[attr-defined]
            case "crash" if members:
                self.random.choice(members).crash()
            case "leave" if members:
                self.random.choice(members).leave()  # type: ignore[attr-defined]
            case "wait":
                self.world.clock.advance(self.random.choice([100, 1_000, 1_000, 3_000, 3_000, 30_000]))
            case "restart":
                self.world.shard.close()
                self.world.restart()
            case "topics" if self.protocols == "consumer":  # classic clients notice that themselves
                self.world.topics.grow("t", min(self.world.topics.partition_count("t") + 1, 9))
                self.world.table.on_topics_changed()
            case "commit" if members:
                self.commit(self.random.choice([each for each in members if each.owned] or members))
            case "disk" if members:
                self.world.log.broken = True
                self.random.choice(members).step()
                self.world.clock.advance(self.random.choice([0, 3_000, 50_000]))
                self.world.log.broken = False
            case "stubborn" if members:
                member = self.random.choice(members)
                if isinstance(member, ConsumerMember):
                    member.stubborn = True

    def newcomer(self) -> Member:
        name = f"m{len(self.members)}"
        topics = self.random.choice([["t"], ["t", "u"], ["u"]])
        kind = self.protocols if self.protocols != "both" else self.random.choice(["classic", "consumer"])
        if kind == "classic":
            return ClassicMember(self.world, self.random, name, topics)
        return ConsumerMember(self.world, self.random, name, topics)

    def commit(self, member: Member) -> None:
        if not member.owned:
            return
        topic_id, partition = self.random.choice(sorted(member.owned))
        topic = self.world.topics.topic_name(topic_id)
        assert topic is not None
        self.offset += 1
        if member.commit(topic, partition, self.offset):  # type: ignore[attr-defined]
            self.acknowledged[topic, partition] = self.offset

    # What must hold

    def check(self) -> None:
        group = self.world.groups.get("g")
        self._epochs_only_grow(group)
        if isinstance(group, ConsumerGroup):
            self._one_owner(group)
        elif isinstance(group, ClassicGroup):
            self._one_owner_in_a_generation(group)
        self.checks += 1
        if self.checks % 5 == 0:
            self._replay_equals_live()

    def _epochs_only_grow(self, group: ClassicGroup | ConsumerGroup | None) -> None:
        if self._ended() or type(group) is not self.kind:
            # An empty group that changes its protocol starts anew, as in Kafka.
            self.epoch, self.recorded = 0, None
        self.kind = type(group)
        if isinstance(group, ConsumerGroup):
            recorded = group.epoch
        else:  # a restart may forget a generation that was never written
            recorded = getattr(getattr(group, "recorded", None), "generation", 0)
        assert recorded >= self.epoch, "an epoch went back"
        self.epoch = recorded

    def _ended(self) -> bool:
        """Whether the log says since the last look that the group is no more."""
        batches = self.world.log.batches
        new, self.looked_at = batches[self.looked_at :], len(batches)
        return any(
            record.value is None and record.key is not None and record.key[1] in (2, 3)
            for records, _ in new
            for record in records
        )

    def _one_owner(self, group: ConsumerGroup) -> None:
        held: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for partition in member.assigned_partitions | member.revoking_partitions:
                assert held.setdefault(partition, member.member_id) == member.member_id, "two owners"
        assert held == group.owners
        for each in self.members:
            known = group.members.get(getattr(each, "member_id", ""))
            epoch = getattr(each, "epoch", getattr(each, "generation", -1))
            if each.alive and known is not None and epoch in (known.epoch, known.previous_epoch):
                allowed = known.assigned_partitions | known.revoking_partitions
                assert each.owned <= allowed, f"{each.name} has what it was not given"

    def _one_owner_in_a_generation(self, group: ClassicGroup) -> None:
        last, self.recorded = self.recorded, group.recorded
        if last is not None and group.recorded is not None and last.members != group.recorded.members:
            assert last.generation != group.recorded.generation, "two assignments in one generation"
        held: dict[tuple[bytes, int], str] = {}
        for each in self.members:
            known = isinstance(each, ClassicMember) and each.alive and each.member_id in group.members
            if known and each.generation == group.generation:
                for partition in each.owned:
                    assert held.setdefault(partition, each.name) == each.name, "two owners"

    def _replay_equals_live(self) -> None:
        live, replayed = self.world.table.state, self.world.replica().state
        assert replayed.offsets == live.offsets
        for group_id in live.groups.keys() | replayed.groups.keys():
            mine, theirs = live.groups.get(group_id), replayed.groups.get(group_id)
            if isinstance(mine, ConsumerGroup) or isinstance(theirs, ConsumerGroup):
                assert mine == theirs, "replay differs"
            else:
                assert getattr(mine, "recorded", None) == getattr(theirs, "recorded", None), "replay differs"

    # The end: no more faults, and everything comes right

    def settle(self) -> None:
        for member in self.members:
            member.faulty = False
        if self.protocols == "consumer":
            self.world.topics.grow("u", 4)
            self.world.table.on_topics_changed()
        self._calm()
        self._everything_is_owned()
        survivors = [each for each in self.members if each.alive]
        if len(survivors) > 1:
            survivors[0].crash()  # nobody else moves: its session alone tells
            self._calm()
            self._everything_is_owned()
        self._replay_equals_live()
        assert all(call.answer is not None for call in self.world.calls), "somebody waits for ever"
        self._acknowledged_is_committed()

    def _calm(self) -> None:
        for delay_ms in [2_000] * (LONGEST_MS // 2_000) + [500] * 20:
            for member in self.members:
                member.step()  # type: ignore[attr-defined]
            self.world.clock.advance(delay_ms)
            self.check()

    def _everything_is_owned(self) -> None:
        alive = [each for each in self.members if each.alive]
        if not alive:
            return
        group = self.world.groups["g"]
        names = {name for each in alive for name in each.topics}
        owned = [partition for each in alive for partition in each.owned]
        everything = self.world.topics.partitions(*names)
        assert len(owned) == len(set(owned)) and set(owned) == everything, "not everything has its owner"
        if isinstance(group, ConsumerGroup):
            assert set(group.members) == {each.member_id for each in alive}  # type: ignore[attr-defined]
            for member in group.members.values():
                assert member.state is MemberState.STABLE and member.epoch == group.epoch
                assert member.assigned_partitions == group.target_of(member.member_id)
        else:
            assert group.state.value == "Stable"

    def _acknowledged_is_committed(self) -> None:
        for (topic, partition), offset in self.acknowledged.items():
            assert self.world.committed(topic=topic, partition=partition) == offset, "a commit is lost"
        for member in self.members:
            if member.alive and member.owned:
                topic_id, partition = min(member.owned)
                topic = self.world.topics.topic_name(topic_id)
                stale = getattr(member, "epoch", getattr(member, "generation", 0)) + 1
                code = self.world.commit(
                    1,
                    topic=topic or "",
                    partition=partition,
                    member_id=member.member_id,  # type: ignore[attr-defined]
                    generation=stale,
                )
                assert code in (e.StaleMemberEpoch.code, e.IllegalGeneration.code), "a stale commit counts"
