"""Planted bugs: each breaks one rule of the group coordinator, and the check of that rule must say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest import MonkeyPatch

from ottla.coordination.groups import codec, membership, reconcile
from ottla.coordination.groups import records as r
from ottla.coordination.groups.classic import ClassicProtocol
from ottla.coordination.groups.classic_group import ClassicGroup, ClassicMember, State
from ottla.coordination.groups.consumer import ConsumerProtocol
from ottla.coordination.groups.consumer_group import ConsumerGroup
from ottla.coordination.groups.decision import Decision, GroupTimer, TimerKind
from ottla.coordination.groups.draft import Draft
from ottla.coordination.groups.migration import Migration
from ottla.coordination.groups.mixed import MixedProtocol
from ottla.coordination.groups.offset_table import OffsetTable
from ottla.coordination.groups.offsets import Offsets
from ottla.coordination.groups.rebalance import Rebalance
from ottla.coordination.groups.table import GroupTable
from ottla.effects import Token
from tests.simulation.planted import Mutants, Plant

MUTANTS = Mutants()


def mutant(protocols: str, pattern: str) -> Callable[[Plant], Plant]:
    return MUTANTS.caught_as(pattern, protocols)


def nothing(*_args: Any, **_options: Any) -> None:
    return None


# The consumer protocol


@mutant("consumer", "has what it was not given")
def partitions_are_free_before_they_are_given_up(patch: MonkeyPatch) -> None:
    patch.setattr(reconcile, "_still_has", lambda owned, partitions: False)


@mutant("consumer", "has two owners")
def partitions_of_others_are_given_away(patch: MonkeyPatch) -> None:
    patch.setattr(membership._Others, "__contains__", lambda self, partition: False)


@mutant("consumer", "has what it was not given")
def silence_counts_as_giving_up(patch: MonkeyPatch) -> None:
    patch.setattr(
        reconcile,
        "_still_has",
        lambda owned, partitions: owned is not None and not owned.isdisjoint(partitions),
    )


@mutant("consumer", "the members changed within epoch")
def the_epoch_is_not_bumped(patch: MonkeyPatch) -> None:
    def bump(self: membership.Membership, draft: Draft, metadata_hash: int, why: str) -> None:
        value = r.ConsumerGroupMetadataValue(draft.group.epoch, metadata_hash)
        draft.emit(r.ConsumerGroupMetadata(draft.group.group_id, value))

    patch.setattr(membership.Membership, "bump", bump)


@mutant("consumer", "the target is of epoch")
def the_target_is_never_made_again(patch: MonkeyPatch) -> None:
    real = membership.Membership.retarget

    def retarget(self: membership.Membership, draft: Draft, now_ms: int) -> None:
        if draft.group.assignment_epoch <= 1:
            real(self, draft, now_ms)

    patch.setattr(membership.Membership, "retarget", retarget)


@mutant("consumer", "nobody has .*u-3")
def topics_that_grow_are_not_noticed(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerProtocol, "on_topics_changed", nothing)


@mutant("consumer", "stays UNREVOKED_PARTITIONS")
def members_that_never_give_up_are_waited_for(patch: MonkeyPatch) -> None:
    real = Decision.arm

    def arm(self: Decision, name: GroupTimer, delay_ms: int) -> None:
        if name.kind is not TimerKind.REVOCATION:
            real(self, name, delay_ms)

    patch.setattr(Decision, "arm", arm)


@mutant("consumer", "group: replay differs")
def what_is_being_given_up_is_not_written_down(patch: MonkeyPatch) -> None:
    real = codec._write_current
    patch.setattr(
        codec, "_write_current", lambda out, value: real(out, replace(value, pending_revocation=()))
    )


@mutant("consumer", "the table of owners is not what the members have")
def a_member_that_is_gone_keeps_its_partitions(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "_disown", nothing)


@mutant("consumer", "gone, and still a member")
def sessions_do_not_start_again_after_a_restart(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerProtocol, "on_loaded", nothing)


@mutant("consumer", "group: replay differs")
def a_decision_changes_hard_state_at_once(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "copy", lambda self: self)


@mutant("consumer", "a commit of another epoch counts")
def commits_are_not_checked(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerProtocol, "check_commit", lambda *args, **options: nothing)


@mutant("consumer", "gone, and still a member")
def what_the_log_refuses_is_not_tried_again(patch: MonkeyPatch) -> None:
    patch.setattr(GroupTable, "_is_retried", lambda self, name: False)


# The classic protocol


@mutant("classic", "gone, and still a member")
def sessions_never_end(patch: MonkeyPatch) -> None:
    patch.setattr(ClassicProtocol, "on_session_timeout", nothing)


@mutant("classic", "wait for ever")
def a_member_that_waits_in_sync_is_forgotten(patch: MonkeyPatch) -> None:
    real = Rebalance.interrupt_sync

    def interrupt(self: Rebalance, group: ClassicGroup, decision: Decision) -> None:
        for member in group.members.values():
            member.syncing = None
        real(self, group, decision)

    patch.setattr(Rebalance, "interrupt_sync", interrupt)


@mutant("classic", "wait for ever")
def a_second_join_silences_the_first(patch: MonkeyPatch) -> None:
    def refuse(self: Rebalance, member: ClassicMember, code: int, decision: Decision) -> None:
        member.joining = member.syncing = None

    patch.setattr(Rebalance, "refuse_waiting", refuse)


@mutant("classic", "two assignments in one generation")
def generations_do_not_grow(patch: MonkeyPatch) -> None:
    real = Rebalance.complete_join

    def complete(self: Rebalance, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        if group.generation > 0:
            group.generation -= 1
        real(self, group, now_ms, decision)

    patch.setattr(Rebalance, "complete_join", complete)


@mutant("classic", "group: replay differs")
def the_assignment_is_not_written_down(patch: MonkeyPatch) -> None:
    real = codec._write_group
    patch.setattr(
        codec,
        "_write_group",
        lambda out, value: real(
            out, replace(value, members=tuple(replace(member, assignment=b"") for member in value.members))
        ),
    )


@mutant("classic", "keeps what generation .* gave it")
def a_rebalance_does_not_wait_for_the_others(patch: MonkeyPatch) -> None:
    real = Rebalance.prepare

    def prepare(self: Rebalance, group: ClassicGroup, now_ms: int, decision: Decision, why: str) -> None:
        real(self, group, now_ms, decision, why)
        if group.state is State.PREPARING and group.previous_state is not State.EMPTY:
            for member in group.members.values():
                member.joining = member.joining or Token()
            self.complete_join(group, now_ms, decision)

    patch.setattr(Rebalance, "prepare", prepare)


@mutant("classic", "the group is empty, but not in the log")
def a_group_is_empty_before_that_is_written(patch: MonkeyPatch) -> None:
    real = Rebalance._end_last_generation

    def end(self: Rebalance, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        real(self, group, now_ms, decision)
        last = decision.records[-1]
        assert isinstance(last, r.GroupMetadata) and last.value is not None
        group._become_empty(last.value)

    patch.setattr(Rebalance, "_end_last_generation", end)


@mutant("static", "the members of a stable group are not those in the log")
def a_static_member_is_replaced_before_that_is_written(patch: MonkeyPatch) -> None:
    real = ClassicGroup.with_successor

    def with_successor(self: ClassicGroup, successor: ClassicMember) -> ClassicGroup:
        draft = real(self, successor)
        if self.state is State.STABLE:
            self.replace_static(successor)
        return draft

    patch.setattr(ClassicGroup, "with_successor", with_successor)


@mutant("classic", "a commit of another epoch counts")
def any_generation_may_commit(patch: MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "validate_commit", nothing)


@mutant("classic", "a commit is lost: .* at -1")
def commits_are_acknowledged_and_forgotten(patch: MonkeyPatch) -> None:
    real = Offsets.commit

    def commit(self: Offsets, request: Any, check: Any, now_ms: int) -> Any:
        records, answer = real(self, request, check, now_ms)
        return records[:0], answer

    patch.setattr(Offsets, "commit", commit)


@mutant("classic", r"a commit is lost: .* at \d+")
def an_older_commit_wins(patch: MonkeyPatch) -> None:
    real = OffsetTable.apply

    def apply(self: OffsetTable, record: r.OffsetCommit, log_offset: int, producer: Any) -> None:
        if (record.topic, record.partition) not in self.of_group(record.group_id):
            real(self, record, log_offset, producer)

    patch.setattr(OffsetTable, "apply", apply)


# Between the protocols


@mutant("both", "wait for ever")
def an_upgrade_forgets_who_waits(patch: MonkeyPatch) -> None:
    real = Migration.release

    def release(self: Migration, classic: ClassicGroup, decision: Decision) -> None:
        for member in classic.members.values():
            member.joining = member.syncing = None
        real(self, classic, decision)

    patch.setattr(Migration, "release", release)


@mutant("both", "has what it was not given")
def an_upgrade_forgets_what_members_have(patch: MonkeyPatch) -> None:
    patch.setattr(Migration, "_assigned", lambda self, member: frozenset())


@mutant("both", "stays in epoch|stays UNRELEASED_PARTITIONS")
def classic_members_are_never_told_to_rejoin(patch: MonkeyPatch) -> None:
    from ottla.coordination.groups import mixed

    patch.setattr(mixed, "_must_rejoin", lambda group, member: False)


@mutant("both", "stays UNREVOKED_PARTITIONS")
def what_classic_members_gave_up_is_not_believed(patch: MonkeyPatch) -> None:
    patch.setattr(MixedProtocol, "_owned", lambda self, member, subscription: None)


@mutant("both", "nobody has")
def the_way_back_forgets_to_rebalance(patch: MonkeyPatch) -> None:
    real = Decision.arm

    def arm(self: Decision, name: GroupTimer, delay_ms: int) -> None:
        if name.kind is not TimerKind.REBALANCE:
            real(self, name, delay_ms)

    patch.setattr(Decision, "arm", arm)
