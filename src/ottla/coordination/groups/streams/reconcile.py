"""From the tasks that a member has to those it should have: one step at a heartbeat. Pure functions."""

from collections.abc import Iterable
from dataclasses import replace

from ottla import errors
from ottla.coordination.groups.streams.group import MemberState, StreamsMember
from ottla.coordination.groups.streams.records import NOTHING_HELD, Held, Task, Tasks, TasksByRole


class Owners:
    """In which processes tasks are, given up tasks included until they are."""

    def __init__(self, members: Iterable[StreamsMember]) -> None:
        self._active: dict[Task, str] = {}
        self._others: set[tuple[Task, str]] = set()
        for member in members:
            process_id = member.metadata.process_id
            for held in (member.assigned, member.revoking):
                self._active.update((task, process_id) for task, _ in held.active)
                self._others.update((task, process_id) for task in (*held.standby, *held.warmup))

    def keeps_active(self, task: Task, process_id: str) -> bool:
        """An active task runs once; and its state directory is one for all roles of a process."""
        return task in self._active or (task, process_id) in self._others

    def keeps_standby(self, task: Task, process_id: str) -> bool:
        return self._active.get(task) == process_id or (task, process_id) in self._others


def reconcile(
    member: StreamsMember, target: TasksByRole, target_epoch: int, owned: TasksByRole | None, owners: Owners
) -> StreamsMember:
    """The member after this heartbeat: it gives up first, then moves to the target's epoch, then gets what is free.

    `owned` is what it says it still has; None says nothing new."""
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.UNREVOKED_TASKS if _still_has(owned, member.revoking):
            return member
        case MemberState.UNREVOKED_TASKS:
            return _next(replace(member, epoch=member.epoch + 1), member, target, target_epoch, owned, owners)
        case MemberState.UNKNOWN:
            if owned is None or owned != TasksByRole():
                raise errors.FencedMemberEpoch(
                    "The streams group member is in a unknown state. The member must abandon all its tasks and "
                    "rejoin."
                )
            return _next(replace(member, epoch=target_epoch), member, target, target_epoch, owned, owners)
    return _next(member, member, target, target_epoch, owned, owners)


def _next(
    moving: StreamsMember,
    before: StreamsMember,
    target: TasksByRole,
    target_epoch: int,
    owned: TasksByRole | None,
    owners: Owners,
) -> StreamsMember:
    had, process_id = before.assigned, before.metadata.process_id
    kept = Held(
        tuple(task_epoch for task_epoch in had.active if task_epoch[0] in target.active),
        had.standby & target.standby,
        had.warmup & target.warmup,
    )
    revoking = Held(
        tuple(task_epoch for task_epoch in had.active if task_epoch[0] not in target.active),
        had.standby - target.standby,
        had.warmup - target.warmup,
    )
    if not revoking.is_empty and _still_has(owned, revoking):
        return replace(
            before,
            epoch=moving.epoch,
            previous_epoch=before.epoch,
            state=MemberState.UNREVOKED_TASKS,
            assigned=kept,
            revoking=revoking,
        )
    missing_active = target.active - kept.active_tasks
    missing_standby = target.standby - kept.standby
    missing_warmup = target.warmup - kept.warmup
    active = frozenset(task for task in missing_active if not owners.keeps_active(task, process_id))
    standby = _free(missing_standby, process_id, owners)
    warmup = _free(missing_warmup, process_id, owners)
    waits = (active, standby, warmup) != (missing_active, missing_standby, missing_warmup)
    return replace(
        before,
        epoch=target_epoch,
        previous_epoch=before.epoch,
        state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
        assigned=Held(
            tuple(sorted((*kept.active, *((task, target_epoch) for task in active)))),
            kept.standby | standby,
            kept.warmup | warmup,
        ),
        revoking=NOTHING_HELD,
    )


def _free(tasks: Tasks, process_id: str, owners: Owners) -> Tasks:
    return frozenset(task for task in tasks if not owners.keeps_standby(task, process_id))


def _still_has(owned: TasksByRole | None, tasks: Held) -> bool:
    """Without word from the member nothing is given up."""
    if owned is None:
        return True
    return not (
        owned.active.isdisjoint(tasks.active_tasks)
        and owned.standby.isdisjoint(tasks.standby)
        and owned.warmup.isdisjoint(tasks.warmup)
    )
