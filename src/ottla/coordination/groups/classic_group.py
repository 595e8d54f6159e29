"""A classic group: its members and state between records. `recorded` is the hard part, the rest is soft.

`on_recorded` alone makes a group stable, makes it empty, or puts a restarted static member in its place.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from ottla import errors
from ottla.coordination.groups.records import ClassicMemberValue, GroupMetadata, GroupMetadataValue
from ottla.coordination.groups.subscription import CONSUMER, subscribed_topics
from ottla.effects import Token
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Token[JoinGroupResponse] | None = None  # the token of the JoinGroup that waits
    join_version: int = 0  # of that JoinGroup
    syncing: Token[SyncGroupResponse] | None = None  # the token of the SyncGroup that waits
    is_new: bool = False  # has not been part of a generation yet

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Iterable[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class ClassicGroup:
    group_id: str
    state: State = State.EMPTY
    previous_state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    members: dict[str, ClassicMember] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)  # instance id to member id
    pending: set[str] = field(default_factory=set)  # given an id, not joined with it yet
    unsynced: set[str] = field(default_factory=set)  # joined this generation, no SyncGroup yet
    giving_up: set[str] = field(default_factory=set)  # while others wait for these: see cooperative.py
    was_cut_short: bool = False  # some members never got their assignment of the last generation
    newcomer: bool = False  # somebody joined while the first rebalance waits for more
    initial_remaining_ms: int = 0
    initial_delay_ms: int = 0
    recorded: GroupMetadataValue | None = None
    successors: dict[str, ClassicMember] = field(
        default_factory=dict
    )  # by instance id, until they are recorded

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group as the last record left it."""
        group = cls(
            group_id,
            State.STABLE if value.members else State.EMPTY,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            leader=value.leader,
            state_timestamp_ms=value.state_timestamp_ms,
            recorded=value,
        )
        for member in value.members:
            group.add(
                ClassicMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    ((value.protocol or "", member.subscription),),
                    member.assignment,
                )
            )
        group.leader = value.leader
        return group

    def on_recorded(self, value: GroupMetadataValue) -> None:
        """Our own record is in the log: what it says holds from now on."""
        self.recorded = value
        self.state_timestamp_ms = value.state_timestamp_ms
        if not value.members:
            self._become_empty(value)
        elif self.state is State.COMPLETING and self.generation == value.generation:
            self._become_stable(value)
        else:
            self._take_successors(value)

    def _become_empty(self, value: GroupMetadataValue) -> None:
        self.generation = value.generation
        self.protocol = self.leader = None
        self.move_to(State.EMPTY)

    def _become_stable(self, value: GroupMetadataValue) -> None:
        for recorded in value.members:
            if recorded.member_id in self.members:
                self.members[recorded.member_id].assignment = recorded.assignment
        self.move_to(State.STABLE)

    def _take_successors(self, value: GroupMetadataValue) -> None:
        for recorded in value.members:
            successor = self.successors.get(recorded.group_instance_id or "")
            if successor is not None and successor.member_id == recorded.member_id:
                self.replace_static(successor)

    def move_to(self, state: State) -> None:
        self.previous_state, self.state = self.state, state

    # Members

    def add(self, member: ClassicMember) -> None:
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> ClassicMember | None:
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.unsynced.discard(member_id)
        if member.instance_id is not None and self.statics.get(member.instance_id) == member_id:
            del self.statics[member.instance_id]
            self.successors.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def with_successor(self, successor: ClassicMember) -> "ClassicGroup":
        """The group as it would be with a restarted static member in its place; this one does not change."""
        draft = replace(
            self,
            members=dict(self.members),
            statics=dict(self.statics),
            unsynced=set(self.unsynced),
            successors={},
        )
        draft.replace_static(successor)
        return draft

    def replace_static(self, successor: ClassicMember) -> None:
        """A restarted static member takes its own place under a new id."""
        assert successor.instance_id is not None
        old_id = self.statics[successor.instance_id]
        del self.members[old_id]
        self.unsynced.discard(old_id)
        self.successors.pop(successor.instance_id, None)
        self.members[successor.member_id] = successor
        self.statics[successor.instance_id] = successor.member_id
        if self.leader == old_id:
            self.leader = successor.member_id

    def validate(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            current = self.statics.get(instance_id)
            if current is None:
                raise errors.UnknownMemberId
            if current != member_id:
                raise errors.FencedInstanceId
        if member_id not in self.members:
            raise errors.UnknownMemberId
        return self.members[member_id]

    @property
    def everybody_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def has_room_for(self, member_id: str, limit: int) -> bool:
        if self.state is State.EMPTY:
            return len(self.pending) < limit
        if self.state is State.PREPARING:
            # In a rebalance only members that have joined it count: first come, first served.
            member = self.members.get(member_id)
            joined = sum(other.joining is not None for other in self.members.values())
            return (member is not None and member.joining is not None) or joined < limit
        return member_id in self.members or len(self.members) < limit

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        candidates = self.candidates()  # once: a request may name tens of thousands of protocols
        return protocol_type == self.protocol_type and any(name in candidates for name, _ in protocols)

    def candidates(self) -> set[str]:
        offered = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*offered) if offered else set()

    def select_protocol(self) -> str:
        """What all members know, by votes: each for the first in its list. A tie goes to the name that
        the longest-standing member prefers."""
        candidates = self.candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER

    def subscribed_topics(self) -> frozenset[str] | None:
        """None: not a group of consumers, or their bytes cannot be read."""
        if not self.is_consumer:
            return None
        return subscribed_topics(self._subscriptions())

    def _subscriptions(self) -> Iterable[bytes]:
        for member in self.members.values():
            if any(name == self.protocol for name, _ in member.protocols):
                yield member.metadata(self.protocol)
            else:  # before its first generation: what it would like best
                yield member.protocols[0][1]

    # What the group has to say about offsets and its end

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY and not self.pending

    def validate_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> None:
        """Members commit under their generation; anybody may while nobody is in."""
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.validate(member_id, instance_id)
            if generation != self.generation:
                raise errors.IllegalGeneration
        elif not transactional:
            raise errors.UnknownMemberId
        if not transactional and self.state is State.COMPLETING:
            raise errors.RebalanceInProgress

    def validate_fetch(self, member_id: str | None, epoch: int) -> None:
        """Only members of consumer groups are checked when they read."""

    def validate_offset_delete(self) -> None:
        if self.state is not State.EMPTY and not self.is_consumer:
            raise errors.NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        if not self.members:
            return False
        topics = self.subscribed_topics()
        return self.is_consumer if topics is None else topic in topics  # unreadable: better safe

    def tombstones(self) -> list[GroupMetadata]:
        return [GroupMetadata(self.group_id, None)]

    # Records

    def empty_record(self, now_ms: int) -> GroupMetadata:
        """The next generation, with nobody in it."""
        value = GroupMetadataValue(self.protocol_type or "", self.generation + 1, None, None, now_ms, ())
        return GroupMetadata(self.group_id, value)

    def to_record(self, now_ms: int, assignments: dict[str, bytes] | None = None) -> GroupMetadata:
        members = tuple(
            ClassicMemberValue(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol),
                member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        )
        value = GroupMetadataValue(
            self.protocol_type or "", self.generation, self.protocol, self.leader, now_ms, members
        )
        return GroupMetadata(self.group_id, value)
