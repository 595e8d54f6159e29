"""A group in a world of faults, and what must hold after every event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla import errors as e
from ottla.coordination.groups.classic_group import ClassicGroup, State
from ottla.coordination.groups.consumer_group import ConsumerGroup, MemberState
from ottla.coordination.groups.records import GroupMetadataValue
from ottla.coordination.groups.settings import GroupSettings
from ottla.testing.world.simulation import Simulation
from tests.simulation.group_members import ClassicMember, ConsumerMember, Member, Partition
from tests.unit.coordination.groups.coordinator import GroupCoordinator

LONGEST_MS = 120_000  # more than any session or rebalance time-out here, one after the other
EVENTS = 150
INSTANCES = [f"i{number}" for number in range(7)]  # two more than members at a time


class GroupWorld(Simulation):
    def __init__(self, seed: int, protocols: str) -> None:
        super().__init__(seed)
        settings = GroupSettings(group_initial_rebalance_delay_ms=self.random.choice([0, 3_000]))
        self.coordinator = GroupCoordinator(settings, self.time, t=5, u=3)
        self.coordinator.strict = False
        self.protocols = protocols
        self.members: list[Member] = []
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.epoch = 0
        self.kind: type | None = None
        self.subscriptions: dict[str, tuple[str, ...]] = {}  # what the members wanted in `epoch`
        self.offset = 0
        self.checks = self.looked_at = 0
        self.recorded: GroupMetadataValue | None = None

    def _run(self) -> None:
        for self.events in range(EVENTS):
            self.event()
            self.check()
        self.settle()

    def event(self) -> None:
        members = [each for each in self.members if each.alive]
        kind = self.random.choices(
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
        )[0]
        self.note(kind)
        match kind:
            case "join" if len(members) < 5:
                self.members.append(self.newcomer())
            case "step" if members:
                self.random.choice(members).step()
            case "round":
                for member in self.random.sample(members, len(members)):
                    member.step()
            case "crash" if members:
                self.random.choice(members).crash()
            case "leave" if members:
                self.random.choice(members).leave()
            case "wait":
                self.coordinator.clock.advance(self.random.choice([100, 1_000, 1_000, 3_000, 3_000, 30_000]))
            case "restart":
                self.coordinator.shard.close()
                self.coordinator.restart()
            case "topics" if self.protocols == "consumer":  # classic clients notice that themselves
                self.coordinator.topics.grow("t", min(self.coordinator.topics.partition_count("t") + 1, 9))
                self.coordinator.table.on_topics_changed()
            case "commit" if members:
                self.commit(self.random.choice([each for each in members if each.owned] or members))
            case "disk" if members:
                self.coordinator.log.broken = True
                member = self.random.choice(members)
                (self._succeed(member) if member.instance else member).step()
                self.coordinator.clock.advance(self.random.choice([0, 3_000, 50_000]))
                self.coordinator.log.broken = False
            case "stubborn" if members:
                member = self.random.choice(members)
                if isinstance(member, ConsumerMember):
                    member.stubborn = True

    def newcomer(self) -> Member:
        name = f"m{len(self.members)}"
        topics = self.random.choice([["t"], ["t", "u"], ["u"]])
        kind = self.protocols if self.protocols != "both" else self.random.choice(["classic", "consumer"])
        if kind == "classic":
            return ClassicMember(self.coordinator, self.random, name, topics)
        if kind == "static":
            return ClassicMember(self.coordinator, self.random, name, topics, instance=self._instance())
        return ConsumerMember(self.coordinator, self.random, name, topics)

    def _succeed(self, member: Member) -> Member:
        """A static member restarts."""
        member.crash()
        name = f"m{len(self.members)}"
        args = self.coordinator, self.random, name, member.topics
        self.members.append(ClassicMember(*args, instance=member.instance))
        return self.members[-1]

    def _instance(self) -> str:
        """Of a member that is gone, or a new one."""
        taken = {member.instance for member in self.members if member.alive}
        return self.random.choice([name for name in INSTANCES if name not in taken])

    def commit(self, member: Member) -> None:
        if not member.owned:
            return
        topic_id, partition = self.random.choice(sorted(member.owned))
        topic = self.coordinator.topics.topic_name(topic_id)
        assert topic is not None
        self.offset += 1
        if member.commit(topic, partition, self.offset):
            self.acknowledged[topic, partition] = self.offset

    # What must hold

    def check(self) -> None:
        group = self.coordinator.groups.get("g")
        self._epochs_only_grow(group)
        if isinstance(group, ConsumerGroup):
            self._one_owner(group)
            self._owners_are_those_of_the_members(group)
            self._nobody_has_more_than_was_assigned(group)
        elif isinstance(group, ClassicGroup):
            self._what_holds_is_written(group)
            self._one_owner_in_a_generation(group)
            if self.protocols == "classic":  # a group that was downgraded has not rebalanced yet
                self._nothing_is_kept_from_an_older_generation(group)
        self.checks += 1
        if self.checks % 5 == 0:
            self._replay_equals_live()

    def _epochs_only_grow(self, group: ClassicGroup | ConsumerGroup | None) -> None:
        if self._ended() or type(group) is not self.kind:
            # An empty group that changes its protocol starts again at the first epoch, as in Kafka.
            self.epoch, self.recorded, self.subscriptions = 0, None, {}
        self.kind = type(group)
        if isinstance(group, ConsumerGroup):
            recorded = group.epoch
            self._a_change_has_its_epoch(group)
        else:  # a restart may forget a generation that was never written
            recorded = getattr(getattr(group, "recorded", None), "generation", 0)
        assert recorded >= self.epoch, f"the epoch falls from {self.epoch} to {recorded}"
        self.epoch = recorded

    def _a_change_has_its_epoch(self, group: ConsumerGroup) -> None:
        last = self.subscriptions
        self.subscriptions = {
            member_id: member.metadata.subscribed_topic_names for member_id, member in group.members.items()
        }
        if group.epoch == self.epoch:
            assert self.subscriptions == last, f"the members changed within epoch {group.epoch}"

    def _ended(self) -> bool:
        """Whether the log says since the last look that the group is no more."""
        batches = self.coordinator.log.batches
        new, self.looked_at = batches[self.looked_at :], len(batches)
        return any(
            record.value is None and record.key is not None and record.key[1] in (2, 3)
            for records, _ in new
            for record in records
        )

    def _one_owner(self, group: ConsumerGroup) -> None:
        held: dict[Partition, str] = {}
        for member in group.members.values():
            for partition in member.assigned_partitions | member.revoking_partitions:
                owner = held.setdefault(partition, member.member_id)
                assert owner == member.member_id, f"{self.label(partition)} has two owners"

    def _owners_are_those_of_the_members(self, group: ConsumerGroup) -> None:
        held = {
            partition: member.member_id
            for member in group.members.values()
            for partition in member.assigned_partitions | member.revoking_partitions
        }
        assert held == group.owners, "the table of owners is not what the members have"

    def _nobody_has_more_than_was_assigned(self, group: ConsumerGroup) -> None:
        for client in self.members:
            known = group.members.get(client.member_id)
            if client.alive and known is not None and client.epoch in (known.epoch, known.previous_epoch):
                surplus = client.owned - known.assigned_partitions - known.revoking_partitions
                assert not surplus, f"{client.name} has what it was not given: {self.labels(surplus)}"

    def _what_holds_is_written(self, group: ClassicGroup) -> None:
        """A stable group and an empty one are what their last record says; in between members are soft state."""
        written = group.recorded
        if group.state is State.EMPTY and written is not None:
            assert not written.members, (
                f"the group is empty, but not in the log: {len(written.members)} members"
            )
            assert group.generation == written.generation, "a generation that is not in the log"
        elif group.state is State.STABLE:
            assert written is not None, "a stable group is not in the log"
            assert {member.member_id for member in written.members} == set(group.members), (
                "the members of a stable group are not those in the log"
            )

    def _one_owner_in_a_generation(self, group: ClassicGroup) -> None:
        last, self.recorded = self.recorded, group.recorded
        if last is not None and group.recorded is not None and _assigned(last) != _assigned(group.recorded):
            assert last.generation != group.recorded.generation, "two assignments in one generation"
        held: dict[Partition, str] = {}
        for client in self.members:
            if not isinstance(client, ClassicMember) or not client.alive:
                continue
            if client.member_id in group.members and client.epoch == group.generation:
                for partition in client.owned:
                    owner = held.setdefault(partition, client.name)
                    assert owner == client.name, f"{self.label(partition)} has two owners"

    def _nothing_is_kept_from_an_older_generation(self, group: ClassicGroup) -> None:
        """A generation begins when all its members have joined, and an eager member first gives up what it has."""
        for client in self.members:
            if client.alive and client.member_id in group.members and client.epoch < group.generation:
                assert not client.owned, (
                    f"{client.name} keeps what generation {client.epoch} gave it in {group.generation}"
                )

    def _replay_equals_live(self) -> None:
        live, replayed = self.coordinator.table.state, self.coordinator.replica().state
        assert replayed.offsets == live.offsets, "offsets: replay differs"
        for group_id in live.groups.keys() | replayed.groups.keys():
            mine, theirs = live.groups.get(group_id), replayed.groups.get(group_id)
            if isinstance(mine, ConsumerGroup) or isinstance(theirs, ConsumerGroup):
                assert mine == theirs, "group: replay differs"
            else:
                assert getattr(mine, "recorded", None) == getattr(theirs, "recorded", None), (
                    "group: replay differs"
                )

    # The end: no more faults, and everything comes right

    def settle(self) -> None:
        for member in self.members:
            member.faulty = False
        if self.protocols == "consumer":
            self.coordinator.topics.grow("u", 4)
            self.coordinator.table.on_topics_changed()
        self._come_right()
        survivors = [member for member in self.members if member.alive]
        if len(survivors) > 1:
            survivors[0].crash()  # the others do not change: only its session tells the coordinator
            self._come_right()
        self._replay_equals_live()
        self._acknowledged_is_committed()
        self._stale_commits_are_refused()

    def _come_right(self) -> None:
        """Cause before consequence: a request without an answer, a member that is gone or one that stays behind
        each leave partitions without an owner."""
        self._calm()
        self._everybody_is_answered()
        alive = [member for member in self.members if member.alive]
        if alive:
            group = self.coordinator.groups.get("g")
            assert group is not None, "the group is gone"
            self._those_alive_are_the_members(group, alive)
            self._everybody_has_arrived(group)
            self._everything_is_owned(alive)

    def _calm(self) -> None:
        for delay_ms in [2_000] * (LONGEST_MS // 2_000) + [500] * 20:
            for member in self.members:
                member.step()
            self.coordinator.clock.advance(delay_ms)
            self.check()

    def _everybody_is_answered(self) -> None:
        waiting = sum(call.answer is None for call in self.coordinator.calls)
        assert not waiting, f"{waiting} requests wait for ever"

    def _those_alive_are_the_members(self, group: ClassicGroup | ConsumerGroup, alive: list[Member]) -> None:
        expected, actual = {member.member_id for member in alive}, set(group.members)
        assert not actual - expected, f"gone, and still a member: {sorted(actual - expected)}"
        assert not expected - actual, f"alive, and not a member: {sorted(expected - actual)}"

    def _everybody_has_arrived(self, group: ClassicGroup | ConsumerGroup) -> None:
        if isinstance(group, ClassicGroup):
            assert group.state.value == "Stable", f"the group is not stable: {group.state.value}"
            return
        assert group.assignment_epoch == group.epoch, (
            f"the target is of epoch {group.assignment_epoch}, the group of {group.epoch}"
        )
        for member in group.members.values():
            assert member.state is MemberState.STABLE, f"{member.member_id} stays {member.state.name}"
            assert member.epoch == group.epoch, (
                f"{member.member_id} stays in epoch {member.epoch} of {group.epoch}"
            )
            assert member.assigned_partitions == group.target_of(member.member_id), (
                f"{member.member_id} does not have its target"
            )

    def _everything_is_owned(self, alive: list[Member]) -> None:
        owners = Counter(partition for member in alive for partition in member.owned)
        shared = {partition for partition, count in owners.items() if count > 1}
        assert not shared, f"in the end two members have {self.labels(shared)}"
        everything = self.coordinator.topics.partitions(*{name for member in alive for name in member.topics})
        missing, surplus = everything - owners.keys(), owners.keys() - everything
        assert not missing, f"nobody has {self.labels(missing)}"
        assert not surplus, f"nobody asked for {self.labels(surplus)}"

    def _acknowledged_is_committed(self) -> None:
        for (topic, partition), offset in self.acknowledged.items():
            committed = self.coordinator.committed(topic=topic, partition=partition)
            assert committed == offset, f"a commit is lost: {topic}-{partition} at {committed}, not {offset}"

    def _stale_commits_are_refused(self) -> None:
        for member in self.members:
            if member.alive and member.owned:
                topic_id, partition = min(member.owned)
                code = self.coordinator.commit(
                    1,
                    topic=self.coordinator.topics.topic_name(topic_id) or "",
                    partition=partition,
                    member_id=member.member_id,
                    generation=member.epoch + 1,
                )
                refused = (e.StaleMemberEpoch.code, e.IllegalGeneration.code)
                assert code in refused, f"a commit of another epoch counts: {code}"

    def label(self, partition: Partition) -> str:
        return f"{self.coordinator.topics.topic_name(partition[0])}-{partition[1]}"

    def labels(self, partitions: Iterable[Partition]) -> str:
        return ", ".join(map(self.label, sorted(partitions)))


def _assigned(value: GroupMetadataValue) -> dict[str, bytes]:
    """A static member's successor has what its predecessor had."""
    return {member.group_instance_id or member.member_id: member.assignment for member in value.members}
